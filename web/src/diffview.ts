// What changed between two savepoints: states and operators, offsets, and the rows before and after.
import { Answer, ApiError } from "./api";
import { Run } from "./asking";
import type { Database } from "./catalog";
import { cell, textOf } from "./cell";
import { comparedText, defaultPair, pairBox, sourceOf } from "./compare";
import { announce, Child, fill, h, select } from "./dom";
import { bytes, count, plural } from "./format";
import { Change, diff, DiffSummary, OffsetDiff, rowsSql, StateDiff } from "./diffs";
import { Job, newestIn } from "./jobs";
import type { OfJob } from "./jobview";
import { conditionOf } from "./lookup";
import { empty, measure, plainTable, problem } from "./panel";
import { progressBar } from "./progressbar";
import { jobLink, keysLink, queryLink, remember } from "./route";
import { literal, OWN } from "./sql";

const MOST_ROWS = 200;
const LONGEST_KEY = 200;
const CHANGES: Change[] = ["changed", "added", "removed"];
const SIGNS: Record<Change, string> = { added: "+", removed: "−", changed: "≠", same: "=" };

export function diffView(part: HTMLElement, { job, list }: OfJob, values: URLSearchParams, signal: AbortSignal): void {
  const picker = h("div", {});
  const body = h("div", { class: "view-body" });
  const about = "What changed from one savepoint to another: which states, by how many rows, and how far the sources read. A state opens its rows, before and after.";
  fill(part, picker, h("p", { class: "about" }, about), body);
  const open = (before: string, after: string) => signal.aborted || new Diff(picker, body, job, list, before, after, values, signal);
  if (values.has("before") || values.has("after")) return void open(values.get("before") ?? "", values.get("after") ?? "");
  const newest = newestIn(job)?.name ?? "";
  const pair = defaultPair(list, newest) ?? { before: "", after: newest };
  fill(picker, pairBox(list, pair.before, pair.after, () => undefined));
  void sourceOf(newest, signal).then((source) => (source === null ? open(pair.before, pair.after) : open(source, newest)));
}

class Diff {
  private asked = new AbortController();
  private reading = new AbortController();
  private readonly summary = h("div", { class: "view-body" });
  private readonly rows = h("section", { "aria-label": "Rows that differ" });
  private table: string | null;
  private change: string;
  private key: string;

  constructor(
    picker: HTMLElement,
    private readonly body: HTMLElement,
    private readonly job: Job,
    list: Database[],
    private before: string,
    private after: string,
    values: URLSearchParams,
    private readonly signal: AbortSignal,
  ) {
    this.table = values.get("table");
    this.change = values.get("change") ?? "";
    this.key = values.get("key") ?? "";
    signal.addEventListener("abort", () => (this.asked.abort(), this.reading.abort()));
    const pick = (before: string, after: string) => {
      [this.before, this.after] = [before, after];
      this.table = null;
      fill(picker, pairBox(list, before, after, pick));
      void this.load();
    };
    fill(picker, pairBox(list, before, after, pick));
    void this.load();
  }

  private note(): void {
    remember(jobLink(this.job.name, "compare", { before: this.before, after: this.after, table: this.table, change: this.table && this.change, key: this.table && this.key }));
  }

  private async load(): Promise<void> {
    this.asked.abort();
    this.reading.abort();
    const controller = new AbortController();
    this.asked = controller;
    this.note();
    if (!this.before || !this.after) return fill(this.body, empty("Choose two savepoints to compare."));
    const bar = progressBar("Progress of the diff", () => controller.abort());
    bar.show(0, 0, "comparing");
    fill(this.body, bar.element);
    this.body.setAttribute("aria-busy", "true");
    try {
      const found = await diff(this.before, this.after, controller.signal);
      if (controller.signal.aborted) return;
      announce(found.is_equal ? "They are equal" : `${plural(differing(found).length, "state")} differ`);
      const opens = (state: StateDiff) => h("button", { type: "button", class: "link", onclick: () => ((this.change = ""), (this.key = ""), this.open(state.table_name!, state)) }, state.state_name);
      fill(this.summary, summaryOf(found, opens));
      fill(this.body, this.summary, this.rows);
      if (this.table !== null) this.open(this.table, statesOf(found).find(({ state }) => state.table_name === this.table)?.state);
      else fill(this.rows);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.signal.aborted || this.asked !== controller) return;
      fill(this.body, error.code === "CANCELLED" ? h("p", { class: "banner", role: "note" }, "Cancelled") : problem(error));
    } finally {
      if (this.asked === controller) this.body.removeAttribute("aria-busy");
    }
  }

  private open(table: string, state: StateDiff | undefined): void {
    this.table = table;
    const body = h("div", { class: "view-body" });
    const counts = (change: Change) => (state && change !== "same" && state[change] !== null ? `${change} (${count(state[change])})` : change);
    const again = () => void this.loadRows(body);
    const key = h("input", { type: "search", value: this.key, placeholder: "a key", "aria-label": "Only this key", spellcheck: "false" });
    const form = h(
      "form",
      {
        class: "controls",
        role: "search",
        onsubmit: (event: Event) => {
          event.preventDefault();
          this.key = key.value;
          again();
        },
      },
      select("Change", [{ value: "", text: "all" }, ...CHANGES.map((change) => ({ value: change, text: counts(change) }))], this.change, (change) => ((this.change = change), again())),
      h("span", { class: "field" }, key, h("button", {}, "Find")),
    );
    fill(this.rows, h("div", { class: "section-head" }, h("h2", { tabindex: -1 }, table), form), body);
    again();
    this.rows.scrollIntoView({ block: "nearest" });
  }

  private async loadRows(body: HTMLElement): Promise<void> {
    this.note();
    this.reading.abort();
    const controller = new AbortController();
    const { signal } = controller;
    this.reading = controller;
    const table = this.table!;
    const bar = progressBar("Progress of the rows", () => controller.abort());
    fill(body, bar.element);
    try {
      const key = this.key && (await conditionOf([this.after, this.before], table, this.key, signal));
      if (key === null) return fill(body, empty("This is no key of this state."));
      const sql = rowsSql(this.before, this.after, table, [this.change && `change = ${literal(this.change)}`, key].filter(Boolean).join(" AND "));
      const run = new Run({ sql: `${OWN}${sql}\nLIMIT ${MOST_ROWS + 1}`, database: null, allow_partial: false }, ({ progress }) => bar.show(progress.bytes_read, progress.bytes_total, `${bytes(progress.bytes_read)} read`));
      signal.addEventListener("abort", () => run.cancel());
      const answer = await run.answer();
      if (signal.aborted) return;
      const told = answer.rows.length > MOST_ROWS ? `These are the first ${MOST_ROWS} rows. ` : `${plural(answer.rows.length, "row")}. `;
      const query = h("a", { class: "link", href: queryLink({ sql, run: "1" }) }, "Open as a query");
      fill(body, answer.rows.length ? [h("p", { class: "note" }, told, query), rowsTable({ ...answer, rows: answer.rows.slice(0, MOST_ROWS) }, comparedText([this.before, this.after]))] : empty("No row differs so."));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // Another choice has taken its place, or another view.
      if (this.reading !== controller || this.signal.aborted) return;
      fill(body, error.code === "CANCELLED" ? h("p", { class: "banner", role: "note" }, "Cancelled") : problem(error));
    }
  }
}

const statesOf = ({ operators }: DiffSummary) => operators.flatMap((operator) => operator.states.map((state) => ({ operator: operator.name, state })));

const differing = (found: DiffSummary) => statesOf(found).filter(({ state }) => state.change !== "same" || state.error !== null);

/** What differs in numbers, state by state, and the offsets that moved; `opens` is what shows the rows of a state. */
export function summaryOf(found: DiffSummary, opens: (state: StateDiff) => Child): Child {
  const all = statesOf(found);
  const changed = differing(found);
  const sum = (name: "added" | "removed" | "changed") => all.reduce((total, { state }) => total + (state[name] ?? 0), 0);
  const came = (change: Change) => found.operators.filter((one) => one.change === change).map((one) => one.name);
  const cards: [string, Child][] = [
    ["States that differ", `${count(changed.length)} of ${count(all.length)}`],
    ["Rows added", count(sum("added"))],
    ["Rows removed", count(sum("removed"))],
    ["Rows changed", count(sum("changed"))],
    ["Size", found.sizes.before === null || found.sizes.after === null ? "–" : stepText(found.sizes.after - found.sizes.before, bytes)],
    ["Offsets that moved", count(found.offsets.length)],
  ];
  const same = all.length - changed.length;
  return [
    h("dl", { class: "cards" }, cards.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    came("added").length ? h("p", { class: "banner", role: "note" }, `New operators: ${came("added").join(", ")}`) : null,
    came("removed").length ? h("p", { class: "banner", role: "note" }, `Operators that are gone: ${came("removed").join(", ")}`) : null,
    changed.length
      ? plainTable(
          "States that differ",
          ["Operator", "State", "Change", "Added", "Removed", "Changed", "Rows", "Size", "Type"],
          changed.map(({ operator, state }) => [
            operator,
            state.table_name === null ? state.state_name : opens(state),
            state.error === null ? badge(state.change) : h("span", { class: "bad" }, state.error),
            state.added ?? "–",
            state.removed ?? "–",
            state.changed ?? "–",
            fromTo(state.rows_before, state.rows_after, count),
            fromTo(state.size_before, state.size_after, bytes),
            state.type_before === state.type_after ? (state.type_after ?? "") : h("span", { class: "changed" }, `${state.type_before ?? "none"} → ${state.type_after ?? "none"}`),
          ]),
        )
      : empty(found.is_equal ? "They are equal: no state differs, and no offset moved." : "No state differs."),
    same && changed.length ? h("p", { class: "note" }, `${plural(same, "state")} ${same === 1 ? "is" : "are"} the same.`) : null,
    offsetsOf(found.offsets),
  ];
}

function badge(change: Change): HTMLElement {
  return h("span", { class: `badge ${change}` }, h("span", { "aria-hidden": "true" }, `${SIGNS[change]} `), change);
}

function fromTo(before: number | null, after: number | null, told: (value: number) => string): Child {
  if (before === null && after === null) return "–";
  if (before === after) return measure(told(after!));
  return measure(`${before === null ? "–" : told(before)} → ${after === null ? "–" : told(after)}`);
}

function stepText(step: number, told: (value: number) => string): string {
  return step ? `${step > 0 ? "+" : "−"}${told(Math.abs(step))}` : "the same";
}

function offsetsOf(offsets: OffsetDiff[]): Child {
  if (!offsets.length) return null;
  return [
    h("h2", {}, "Source offsets"),
    plainTable(
      "Offsets that moved",
      ["Source", "Topic", "Partition", "Before", "After", "Read on"],
      offsets.map((one) => [one.operator, one.topic ?? "", one.partition ?? "", numberOf(one.before), numberOf(one.after), stepOf(one)]),
    ),
  ];
}

function numberOf(value: number | bigint | null): Child {
  return value === null ? "–" : measure(count(value));
}

function stepOf({ before, after }: OffsetDiff): Child {
  if (before === null || after === null) return h("span", { class: "number" }, h("span", { class: "changed" }, before === null ? "new" : "gone"));
  const step = BigInt(after) - BigInt(before);
  return h("span", { class: "number" }, h("span", { class: step < 0n ? "bad" : null }, step === 0n ? "no change" : `${step > 0n ? "+" : "−"}${count(step < 0n ? -step : step)}`));
}

/** Rows that differ: what tells them apart, then each pair of values beside each other. */
function rowsTable({ columns, rows }: Answer, dbs: string): HTMLElement {
  const names = columns.map((column) => column.name);
  const at = (name: string) => names.indexOf(name);
  const pairs = names.filter((name) => name.endsWith("_before") && at(`${name.slice(0, -7)}_after`) >= 0).map((name) => name.slice(0, -7));
  const paired = new Set(pairs.flatMap((name) => [`${name}_before`, `${name}_after`]));
  const filled = (name: string) => rows.some((row) => row[at(name)] !== null);
  const identity = names.filter((name) => name !== "change" && !paired.has(name) && name !== "_key_group" && filled(name));
  const used = pairs.filter((name) => filled(`${name}_before`) || filled(`${name}_after`));
  const heads = used.flatMap((name) => (used.length === 1 ? ["Before", "After"] : [`${name}, before`, `${name}, after`]));
  return plainTable(
    "Rows before and after",
    ["Change", ...identity, ...heads],
    rows.map((row) => {
      const change = row[at("change")] as Change;
      const values = used.flatMap((name) => {
        const [before, after] = [row[at(`${name}_before`)], row[at(`${name}_after`)]];
        const differs = textOf(before) !== textOf(after);
        return [change === "added" ? missing() : cell(before, `${name} before`), change === "removed" ? missing() : h("span", { class: differs && change === "changed" ? "changed" : null }, cell(after, `${name} after`))];
      });
      const place = (name: string) => (name === "key" ? keyLink(textOf(row[at(name)]), dbs) : cell(row[at(name)], name));
      return [badge(change), ...identity.map(place), ...values];
    }),
  );
}

/** All that either has for a key. */
function keyLink(key: string, dbs: string): HTMLElement {
  const short = key.length > LONGEST_KEY ? `${key.slice(0, LONGEST_KEY)}…` : key;
  return h("a", { class: "link key", href: keysLink(dbs, key), title: "All that the two savepoints have for this key" }, short);
}

function missing(): HTMLElement {
  return h("span", { class: "absent", "aria-label": "not there" }, "–");
}
