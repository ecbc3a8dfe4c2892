// The view that says whether a savepoint restores in another job: what to compare with, and a tree of operators and states.
import { ApiError } from "./api";
import { Database, optionsOf } from "./catalog";
import { backendsOf, check, CheckReport, OperatorVerdict, reportsOf, Risk, Severity, shownRisks, StateVerdict, worstFirst } from "./checks";
import { announce, Child, fill, h, select } from "./dom";
import { bytes, plural } from "./format";
import { problem } from "./panel";
import { partLink, remember } from "./route";
import type { At } from "./savepointview";

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

export function checkView(body: HTMLElement, { name, list }: At, values: URLSearchParams, signal: AbortSignal): void {
  new CheckForm(body, list, name, values, signal);
}

class CheckForm {
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
    private readonly database: string,
    values: URLSearchParams,
    private readonly signal: AbortSignal,
  ) {
    this.against = values.get("against") ?? NOTHING;
    this.backend = BACKENDS.some(({ value }) => value === values.get("backend")) ? values.get("backend")! : "auto";
    this.flink = h("input", { type: "text", size: 8, list: "flink-versions", value: values.get("flink") ?? VERSIONS[0], spellcheck: "false", autocomplete: "off", onkeydown: (event: KeyboardEvent) => event.key === "Enter" && void this.check() });
    this.allow = h("input", { type: "checkbox", checked: values.get("allow") === "1" });
    this.drop = h("div", { class: "drop" }, h("label", { class: "field" }, this.file, h("span", { class: "button" }, "Choose a jar"), " or drop it here"), this.picked);
    const others = [{ value: NOTHING, text: "nothing: only the version of Flink" }, ...optionsOf(list, this.against || null)];
    fill(
      body,
      h("p", { class: "about" }, "Whether this savepoint restores in a new job or with a new version of Flink, and what to do if not. The check runs nothing and changes nothing."),
      h(
        "div",
        { class: "check-form" },
        h(
          "div",
          { class: "toolbar" },
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
    fill(this.picked, jar ? [`${jar.name}, ${bytes(jar.size)} `, h("button", { type: "button", class: "link", onclick: () => this.take(null) }, "without it")] : "The jar of the new job. The service reads its classes, runs nothing and keeps nothing.");
  }

  private async check(): Promise<void> {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const question = { database: this.database, against: this.against || null, jar: this.jar, flink: this.flink.value.trim(), backend: this.backend, allow_non_restored: this.allow.checked };
    // A jar is no part of an address.
    remember(partLink(this.database, "check", { against: this.against, flink: question.flink, backend: this.backend, allow: this.allow.checked ? "1" : null, run: this.jar ? null : "1" }));
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
    report.message ? toldOf(report, "the savepoint") : null,
    risksOf(report.risks),
    groupsOf(report),
    h("h3", {}, "Operators"),
    h("ul", { class: "verdicts", "aria-label": "Operators" }, worstFirst(report.operators).map((operator) => h("li", {}, operatorOf(operator)))),
  );
}

interface Place {
  operator: string;
  state: string;
  field: string | null;
  /** All that the operator is called. */
  names: string[];
}

/** What is found of operators and states, the worst first: equal findings once, with the places that they are about. */
function groupsOf(report: CheckReport): Child {
  const found: { told: Told; place: Place }[] = report.operators.flatMap((operator) => {
    const name = operator.uid ?? operator.name ?? operator.operator_id;
    const names = [operator.uid, operator.name, operator.operator_id].filter((one) => one !== null);
    const place = (state = "", field: string | null = null): Place => ({ operator: name, state, field, names });
    return [
      ...(operator.message && operator.severity !== "fine" ? [{ told: operator as Told, place: place() }] : []),
      ...shownRisks(operator.risks).map((risk) => ({ told: risk as Told, place: place("", risk.field_path) })),
      ...operator.states.flatMap((state) => [
        ...(isOwn(state) ? [{ told: state as Told, place: place(state.state_name, state.field_path) }] : []),
        ...shownRisks(state.risks).map((risk) => ({ told: risk as Told, place: place(state.state_name, risk.field_path) })),
      ]),
    ];
  });
  const groups = [...Map.groupBy(found, causeOf).values()].map((own) => ({ severity: own[0].told.severity, own }));
  if (!groups.length) return null;
  return h("ol", { class: "groups", "aria-label": "Findings" }, worstFirst(groups).map(({ own }) => h("li", {}, groupOf(own.map(({ place }) => place), own[0].told))));
}

/** What two findings share that have one cause: all but the names of what they are about. */
function causeOf({ told, place }: { told: Told; place: Place }): string {
  const names = [...place.names, place.state, place.field].filter((name): name is string => Boolean(name)).sort((one, other) => other.length - one.length);
  const nameless = (text: string) => names.reduce((left, name) => left.replaceAll(name, "…"), text);
  return JSON.stringify([told.severity, told.rule, nameless(told.message), nameless(told.remedy)]);
}

function groupOf(places: Place[], told: Told): Child {
  const items = places.map(({ operator, state, field }) => [operator, state, field].filter(Boolean).join(" · "));
  const isOne = places.length === 1;
  return [
    h("p", {}, badge(told.severity), " ", h("strong", {}, isOne ? items[0] : plural(places.length, places.every(({ state }) => state) ? "state" : places.some(({ state }) => state) ? "place" : "operator"))),
    toldOf(told, ""),
    isOne ? null : h("details", {}, h("summary", {}, "Where"), h("ul", {}, items.map((text) => h("li", {}, text)))),
  ];
}

/** Whether the verdict itself is a finding, beside its risks. */
function isOwn({ message, severity }: StateVerdict): boolean {
  return Boolean(message) && severity !== "fine" && severity !== "risk" && severity !== "doubt";
}

function operatorOf(operator: OperatorVerdict): HTMLElement {
  const { severity, states, uid, name, operator_id } = operator;
  return h(
    "details",
    {},
    h("summary", {}, badge(severity), " ", h("strong", {}, uid ?? name ?? operator_id), " ", h("span", { class: "note" }, [plural(states.length, "state"), uid || name ? operator_id : ""].filter(Boolean).join(" · "))),
    operator.message ? toldOf(operator, "the operator") : null,
    risksOf(operator.risks),
    h("ul", { "aria-label": "States" }, worstFirst(states).map((state) => h("li", {}, stateOf(state)))),
  );
}

function stateOf(state: StateVerdict): Child {
  return [
    h("p", {}, badge(state.severity), " ", h("strong", {}, state.state_name), " ", h("span", { class: "note" }, `${state.kind} · ${state.outcome}`)),
    isOwn(state) ? toldOf(state, state.field_path ?? "") : null,
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

function toldOf({ message, remedy, rule, evidence, severity, stage }: Told, where: string): HTMLElement {
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
  return shownRisks(risks).map((risk) => toldOf(risk, risk.field_path ?? ""));
}

export function badge(severity: Severity): HTMLElement {
  return h("span", { class: `badge ${severity}` }, severity);
}
