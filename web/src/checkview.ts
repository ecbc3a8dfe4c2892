// The view that says whether a savepoint restores in another job: what to compare with, and a tree of operators and states.
import { ApiError } from "./api";
import { chosen, Database, optionsOf, schemas } from "./catalog";
import { backendsOf, check, CheckReport, OperatorVerdict, reportsOf, Risk, Severity, shownRisks, StateVerdict, worstFirst } from "./checks";
import { keep, kept } from "./context";
import { announce, Child, fill, h, select } from "./dom";
import { bytes, plural } from "./format";
import { empty, problem } from "./panel";
import { remember } from "./route";

const VIEW = "check";
const NOTHING = "";
const VERSIONS = ["2.3.0", "2.2.0", "2.1.0", "2.0.0", "1.20.3", "1.19.3", "1.18.1"];
const BACKENDS = [
  { value: "auto", text: "hashmap and rocksdb" },
  { value: "hashmap", text: "hashmap" },
  { value: "rocksdb", text: "rocksdb" },
  { value: "forst", text: "forst" },
];
const STAGES: Record<string, string> = {
  graph: "before any task starts",
  restore: "when its tasks read the savepoint",
  register: "when an operator declares a state",
  access: "when a value is first read, which may be hours later",
  snapshot: "at the next checkpoint",
};

export function checkView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const body = h("div", { class: "view-body" }, h("p", { class: "note", role: "status" }, "Loading …"));
  const about = "Whether a savepoint restores in a new job or by a new Flink, and what to do about it. Nothing is run, and nothing is changed.";
  fill(main, h("div", { class: "view" }, h("div", { class: "view-head" }, h("h1", {}, "Will it restore?")), h("p", { class: "about" }, about), body));
  void schemas().then(
    (list) => {
      if (signal.aborted) return;
      const name = chosen(list, values.get("db") ?? kept().db);
      if (name === null) fill(body, empty("There is no savepoint that can be read."));
      else new CheckForm(body, list, name, values, signal);
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(body, problem(error));
    },
  );
}

class CheckForm {
  private database: string;
  private against: string;
  private backend: string;
  private jar: File | null = null;
  private asked: AbortController | null = null;
  private readonly flink: HTMLInputElement;
  private readonly allow: HTMLInputElement;
  private readonly run = h("button", { type: "button", class: "primary", onclick: () => void this.check() }, "Check");
  private readonly picked = h("span", { class: "note" });
  private readonly file = h("input", { type: "file", accept: ".jar", class: "unseen", onchange: () => this.take(this.file.files?.[0] ?? null) });
  private readonly drop: HTMLElement;
  private readonly result = h("section", { class: "checked", "aria-label": "Result" });

  constructor(
    body: HTMLElement,
    list: Database[],
    name: string,
    values: URLSearchParams,
    private readonly signal: AbortSignal,
  ) {
    this.database = name;
    this.against = values.get("against") ?? NOTHING;
    this.backend = BACKENDS.some(({ value }) => value === values.get("backend")) ? values.get("backend")! : "auto";
    this.flink = h("input", { type: "text", size: 8, list: "flink-versions", value: values.get("flink") ?? VERSIONS[0], spellcheck: "false", autocomplete: "off", onkeydown: (event: KeyboardEvent) => event.key === "Enter" && void this.check() });
    this.allow = h("input", { type: "checkbox", checked: values.get("allow") === "1" });
    this.drop = h("div", { class: "drop" }, h("label", { class: "field" }, this.file, h("span", { class: "button" }, "Choose a jar"), " or drop it here"), this.picked);
    const pick = (database: string) => ((this.database = database), keep({ db: database }));
    const others = [{ value: NOTHING, text: "nothing: only the version of Flink" }, ...optionsOf(list, this.against || null)];
    keep({ db: name });
    fill(
      body,
      h(
        "div",
        { class: "check-form" },
        h(
          "div",
          { class: "toolbar" },
          select("Savepoint", optionsOf(list, name), name, pick),
          select("Savepoint of the new job", others, this.against, (value) => (this.against = value)),
        ),
        h(
          "div",
          { class: "toolbar" },
          h("label", { class: "field" }, h("span", {}, "Flink"), this.flink),
          h("datalist", { id: "flink-versions" }, VERSIONS.map((version) => h("option", { value: version }))),
          select("Backend", BACKENDS, this.backend, (value) => (this.backend = value)),
          h("label", { class: "field" }, this.allow, h("span", {}, "allowNonRestoredState")),
          h("span", { class: "gap" }),
          this.run,
        ),
        this.drop,
        this.result,
      ),
    );
    this.take(null);
    this.listen();
    signal.addEventListener("abort", () => this.asked?.abort());
    if (values.get("run") === "1") void this.check();
  }

  /** A jar that is dropped anywhere on the page is taken: the browser would leave the page for it. */
  private listen(): void {
    const { signal } = this;
    const over = (event: DragEvent, is: boolean) => (event.preventDefault(), this.drop.classList.toggle("over", is));
    document.addEventListener("dragover", (event) => over(event, true), { signal });
    document.addEventListener("dragleave", (event) => over(event, false), { signal });
    document.addEventListener("drop", (event) => (over(event, false), this.take(event.dataTransfer?.files[0] ?? null)), { signal });
  }

  private take(jar: File | null): void {
    this.jar = jar;
    if (!jar) this.file.value = "";
    fill(this.picked, jar ? [`${jar.name}, ${bytes(jar.size)} `, h("button", { type: "button", class: "link", onclick: () => this.take(null) }, "without it")] : "The jar of the new job: its classes are read, and nothing of it is run or kept.");
  }

  private async check(): Promise<void> {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const question = { database: this.database, against: this.against || null, jar: this.jar, flink: this.flink.value.trim(), backend: this.backend, allow_non_restored: this.allow.checked };
    // A jar is no part of an address.
    remember(VIEW, { db: this.database, against: this.against, flink: question.flink, backend: this.backend, allow: this.allow.checked ? "1" : null, run: this.jar ? null : "1" });
    fill(this.result, h("p", { class: "note", role: "status" }, "Checking …"));
    this.result.setAttribute("aria-busy", "true");
    try {
      const answer = await check(question, asked.signal);
      if (asked.signal.aborted) return;
      announce(answer.headline);
      fill(this.result, answerOf(answer));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!asked.signal.aborted) fill(this.result, problem(error));
    }
    this.result.removeAttribute("aria-busy");
  }
}

function answerOf(answer: CheckReport): Child {
  const against = answer.against.length ? answer.against.join(", ") : "nothing: only the version of Flink";
  return [
    h("p", { class: `verdict ${answer.severity}` }, badge(answer.severity), " ", h("strong", {}, answer.headline)),
    h("p", {}, h("strong", {}, "What to do: "), `${answer.advice}.`),
    h("p", { class: "note" }, `${answer.savepoint}, compared with ${against}`),
    reportsOf(answer).map((report) => reportOf(report, answer)),
  ];
}

function reportOf(report: CheckReport, answer: CheckReport): HTMLElement {
  const title = `Flink ${report.flink} with ${backendsOf(report, answer).join(" and ")}`;
  return h(
    "section",
    { "aria-label": title },
    h("h2", {}, title, " ", badge(report.severity)),
    report === answer ? null : h("p", {}, report.headline),
    report.message ? told(report, "the savepoint") : null,
    risksOf(report.risks),
    h("ul", { class: "verdicts", "aria-label": "Operators" }, worstFirst(report.operators).map((operator) => h("li", {}, operatorOf(operator)))),
  );
}

function operatorOf(operator: OperatorVerdict): HTMLElement {
  const { severity, states, uid, name, operator_id } = operator;
  return h(
    "details",
    { open: severity !== "fine" },
    h("summary", {}, badge(severity), " ", h("strong", {}, uid ?? name ?? operator_id), " ", h("span", { class: "note" }, [plural(states.length, "state"), uid || name ? operator_id : ""].filter(Boolean).join(" · "))),
    operator.message ? told(operator, "the operator") : null,
    risksOf(operator.risks),
    h("ul", { "aria-label": "States" }, worstFirst(states).map((state) => h("li", {}, stateOf(state)))),
  );
}

function stateOf(state: StateVerdict): Child {
  return [
    h("p", {}, badge(state.severity), " ", h("strong", {}, state.state_name), " ", h("span", { class: "note" }, `${state.kind} · ${state.outcome}`)),
    state.message && state.severity !== "fine" && state.severity !== "risk" && state.severity !== "doubt" ? told(state, state.field_path ?? "") : null,
    risksOf(state.risks),
  ];
}

interface Told {
  message: string;
  remedy: string;
  rule: string | null;
  evidence: string[];
  severity: Severity;
  stage?: string | null;
}

function told({ message, remedy, rule, evidence, severity, stage }: Told, where: string): HTMLElement {
  const facts = [where, stage ? `at ${stage}, ${STAGES[stage] ?? ""}` : ""].filter(Boolean).join(" · ");
  const shown = [rule, ...evidence].filter(Boolean).join(", ");
  return h(
    "div",
    { class: `finding ${severity}` },
    facts ? h("p", { class: "note" }, facts) : null,
    h("p", {}, message),
    remedy ? h("p", { class: "remedy" }, `→ ${remedy}`) : null,
    shown ? h("p", { class: "note" }, `Shown by ${shown}`) : null,
  );
}

function risksOf(risks: Risk[]): HTMLElement[] {
  return shownRisks(risks).map((risk) => told(risk, risk.field_path ?? ""));
}

function badge(severity: Severity): HTMLElement {
  return h("span", { class: `badge ${severity}` }, severity);
}
