// What a query gave: its facts, and its rows as a table, a chart or a plan.
import { Answer, ApiError, mayLeaveOut } from "./api";
import { announce, Child, copy, fill, h } from "./dom";
import { bytes, duration, plural } from "./format";
import { chartPanel } from "./chartpanel";
import { textOf, tsv } from "./cell";
import { lackingBox, leaveOutButton } from "./panel";
import { keyLink } from "./place";
import { linkOf } from "./route";

export class Result {
  readonly element = h("section", { class: "result", "aria-label": "Result" });
  private ended = new AbortController();

  /** `chart` is the one that is seen, as the address has it; empty where the table is. */
  constructor(
    public chart: string,
    private readonly onView: () => void,
  ) {}

  clear(): void {
    this.ended.abort();
    this.ended = new AbortController();
    fill(this.element);
  }

  /** Says one thing, in place of rows. */
  say(text: string): void {
    this.clear();
    announce(text);
    fill(this.element, h("p", { class: "banner", role: "note" }, text));
  }

  failed(error: ApiError, goTo?: () => void, withoutThem?: () => void): void {
    this.clear();
    if (error.code === "CANCELLED") {
      this.say("Cancelled");
      return;
    }
    const { position } = error;
    announce(`Failed: ${error.message}`);
    fill(
      this.element,
      h(
        "div",
        { class: "error", role: "alert" },
        h("strong", {}, error.message),
        position && goTo ? h("button", { type: "button", class: "link", onclick: goTo }, `line ${position.line}, column ${position.column}`) : null,
        error.hint ? h("p", {}, error.hint) : null,
        withoutThem && mayLeaveOut(error.code) ? leaveOutButton(withoutThem) : null,
        h("p", { class: "note" }, error.code),
      ),
    );
  }

  /** `sql` and `database` are what was asked: where they are the rows of one table, their keys lead to their pages. */
  show(answer: Answer, sql = "", database: string | null = null): void {
    this.clear();
    announce(`${plural(answer.row_count, "row")} in ${duration(answer.elapsed_ms)}`);
    const body = h("div", { class: "result-body", role: "tabpanel", id: "result-body" });
    const isPlan = answer.columns.length === 2 && answer.columns[0].name === "explain_key";
    fill(this.element, facts(answer), isPlan ? null : this.tabs(answer, body, tableOf(sql, database)), truncated(answer), warnings(answer), lackingBox(answer.incomplete ?? []), body);
    if (isPlan) fill(body, h("pre", { class: "plan", tabindex: 0, "aria-label": "Plan" }, answer.rows.map((row) => textOf(row[1])).join("\n")));
  }

  private seen(chart: string): void {
    this.chart = chart;
    this.onView();
  }

  private tabs(answer: Answer, body: HTMLElement, source: Source | null): HTMLElement {
    let panel = new AbortController();
    this.ended.signal.addEventListener("abort", () => panel.abort());
    const views: Record<string, (signal: AbortSignal) => Promise<HTMLElement>> = {
      Table: async (signal) => {
        const { grid } = await import("./grid");
        const { element, destroy } = grid(answer, (column, value, row) => (source && column === "key" && value !== null ? keyLink(source, value, row("_key_group")) : null));
        signal.addEventListener("abort", destroy);
        return element;
      },
      Chart: (signal) => Promise.resolve(chartPanel(answer, signal, this.chart, (text) => this.seen(text))),
    };
    const open = async (name: string) => {
      if (name === "Table") this.seen("");
      panel.abort();
      panel = new AbortController();
      const { signal } = panel;
      for (const tab of list.querySelectorAll('[role="tab"]')) {
        const chosen = tab.textContent === name;
        tab.setAttribute("aria-selected", String(chosen));
        tab.setAttribute("tabindex", chosen ? "0" : "-1");
      }
      const element = await views[name](signal);
      if (!signal.aborted) fill(body, element);
    };
    const names = Object.keys(views);
    const list = h(
      "div",
      {
        class: "tabs",
        role: "tablist",
        "aria-label": "Views of the result",
        onkeydown: (event: KeyboardEvent) => {
          if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
          const next = list.querySelector<HTMLElement>('[aria-selected="false"]')!;
          next.focus();
          next.click();
        },
      },
      names.map((name) => h("button", { type: "button", role: "tab", "aria-controls": "result-body", onclick: () => void open(name) }, name)),
    );
    void open(this.chart ? "Chart" : "Table");
    return h("div", { class: "result-bar" }, list, h("button", { type: "button", class: "quiet", onclick: () => void copy(tsv([answer.columns.map((column) => column.name), ...answer.rows])) }, "Copy all"));
  }
}

interface Source {
  database: string;
  table: string;
}
const NAME = String.raw`("(?:[^"]|"")+"|[A-Za-z_]\w*)`;
const OF_ONE_TABLE = new RegExp(String.raw`^\s*SELECT\s+[^()]*?\bFROM\s+(?:${NAME}\s*\.\s*)?${NAME}\s*(?:(?:WHERE|LIMIT|ORDER)\b(?!.*\b(?:JOIN|UNION|INTERSECT|EXCEPT|SELECT|GROUP)\b).*)?$`, "is");

/** The table that a simple statement reads: then a column `key` has the keys of this table. */
function tableOf(sql: string, database: string | null): Source | null {
  const [, own, table] = OF_ONE_TABLE.exec(sql) ?? [];
  const name = own === undefined ? database : plain(own);
  return table && name && !/\bAS\s+"?key\b/i.test(sql) ? { database: name, table: plain(table) } : null;
}

function plain(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name;
}

function facts(answer: Answer): HTMLElement {
  const sources = answer.databases.flatMap((source, at) => [at ? ", " : "", h("a", { class: "link", href: linkOf(source.name) }, source.name), ` (checkpoint ${source.checkpoint_id})`]);
  const entries: [string, Child, string?][] = [
    ["Rows", `${answer.row_count.toLocaleString("en")}${answer.truncated ? "+" : ""}`],
    ["Time", duration(answer.elapsed_ms)],
    ["Read", bytes(answer.bytes_read)],
    ["Engine", answer.engine, answer.engine_reason],
    ["From", sources.length ? sources : "the catalog"],
  ];
  return h(
    "dl",
    { class: "facts" },
    entries.map(([name, value, why]) => h("div", { title: why }, h("dt", {}, name), h("dd", {}, why ? h("details", { class: "why" }, h("summary", {}, value), why) : value))),
  );
}

function warnings(answer: Answer): HTMLElement | null {
  if (!answer.warnings?.length) return null;
  return h("div", { class: "banner", role: "note" }, answer.warnings.map((warning) => h("div", {}, warning)));
}

function truncated(answer: Answer): HTMLElement | null {
  if (!answer.truncated) return null;
  return h("p", { class: "banner", role: "note" }, `These are the first ${plural(answer.row_count, "row")}; there are more. Export gives all of them.`);
}
