// The page of a key: its rows in a table, and all else that a savepoint has of it.
import { Answer, ApiError, Column, get, post } from "./api";
import { Database } from "./catalog";
import { cell, record } from "./cell";
import { defaultPair, sideBySide } from "./compare";
import { addressOf, Rows } from "./conditions";
import { keep } from "./context";
import { announce, Child, fill, h } from "./dom";
import { entryTables } from "./entries";
import { Job, jobOfName, jobsOf, shortName } from "./jobs";
import { Found, Keyed, lookup } from "./lookup";
import { empty, lackingBox, leaveOutButton, plainTable, problem, skeleton } from "./panel";
import { action, actions, copyButton, files, stepsTo, where } from "./place";
import { progressBar } from "./progressbar";
import { jobLink, linkOf, partLink, queryLink } from "./route";
import { identifier, literal, table as sourceOf } from "./sql";
import { timeline } from "./timeline";
import { linesOf } from "./timelineview";
import { fieldsOf } from "./types";
import { mayWrite } from "./writes";

const MOST = 1000;
const LONGEST = 200;
/** So many checkpoints are shown over time; the page of the job has all. */
const LATEST = 12;

export function rowView(rows: Rows, key: string, list: Database[], signal: AbortSignal): Child {
  const { database, table } = rows;
  keep({ key, dbs: database });
  const keyed: Rows = { ...rows, others: { key, ...rows.others } };
  const own = h("section", { "aria-label": `Rows of ${table}` });
  const all = h("section", { "aria-label": `All of this key in ${database}`, class: "view-body" });
  const editor = h("span", { class: "actions" });
  const changes = h("span", { class: "actions" });
  const ownShown = showOwn(own, keyed, signal);
  void ownShown.then((answer) => answer && void offerChanges(changes, keyed, key, answer, signal));
  const history = jobsOf(list).find((job) => job.entry.history === database);
  let allShown: Promise<unknown> = ownShown;
  if (history) fill(all, h("p", { class: "note" }, "A history has the rows of all checkpoints. The ", action("timeline", jobLink(history.name, "timeline", { key })), " has every state of the key, checkpoint by checkpoint."));
  else allShown = showAll(all, editor, keyed, key, list, false, signal);
  const over = h("section", { "aria-label": "This key over time", class: "view-body" });
  const job = history ? undefined : jobOfName(list, database);
  if (job && job.databases.length > 1) void showTime(over, job, key, list, signal);
  const short = key.length > LONGEST ? `${key.slice(0, LONGEST)}…` : key || "(empty)";
  where(stepsTo(list, database, [table, linkOf(database, table)], [short, null]));
  return [
    h("div", { class: "head-row" }, h("h1", { class: "key", title: short === key ? null : key }, short)),
    h("p", { class: "about" }, `A key of ${table}, and all that ${database} has of it.`),
    actions(elsewhere(rows, key, list), changes, editor, files(table, (format) => addressOf(keyed, format)), copyButton()),
    h("h2", {}, `In ${table}`),
    own,
    after(
      ownShown,
      h("h2", {}, `All of this key in ${database}`),
      all,
      job && job.databases.length > 1
        ? after(allShown, h("div", { class: "section-head" }, h("h2", {}, "Over time"), job.databases.length > LATEST ? action("All checkpoints", jobLink(job.name, "timeline", { key })) : null), over)
        : null,
    ),
  ];
}

/** What is seen once all above it is there, whose height nobody knows before, so that nothing moves. */
function after(above: Promise<unknown>, ...children: Child[]): HTMLElement {
  const element = h("div", { class: "view-body", hidden: true }, children);
  void above.finally(() => (element.hidden = false));
  return element;
}

/** What the key had in the newest checkpoints of its job. */
async function showTime(element: HTMLElement, job: Job, key: string, list: Database[], signal: AbortSignal): Promise<void> {
  fill(element, skeleton());
  try {
    const found = await timeline(job.name, key, job.databases.length > LATEST ? LATEST : null, signal);
    if (!signal.aborted) fill(element, linesOf(found, list, signal));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!signal.aborted) fill(element, problem(error));
  }
}

/** Links that write the statements which change this key, for those who may write. */
async function offerChanges(element: HTMLElement, { database, table }: Rows, key: string, answer: Answer, signal: AbortSignal): Promise<void> {
  if (!(await mayWrite()) || !answer.row_count) return;
  try {
    const { states } = await post<{ states: Keyed[] }>(`api/databases/${encodeURIComponent(database)}/keys`, { key }, signal);
    const state = states.find((one) => one.table_name === table && one.condition !== null);
    const at = answer.columns.findIndex(({ name }) => name === "value");
    if (!state || signal.aborted) return;
    const where = `WHERE ${state.condition}`;
    const name = identifier(table);
    const set = at < 0 ? null : settings(answer.columns[at], answer.rows[0][at]);
    fill(
      element,
      set === null ? null : action("Edit", partLink(database, "write", { sql: `UPDATE ${name}\nSET ${set}\n${where}` }), "Opens an UPDATE of this key"),
      action("Delete", partLink(database, "write", { sql: `DELETE FROM ${name}\n${where}` }), "Opens a DELETE of this key"),
    );
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/** The assignments of a value as it is: of each field, where it has some. */
function settings({ type }: Column, value: unknown): string | null {
  const fields = fieldsOf(type);
  if (!fields) return simple(value) ? `value = ${textIn(value)}` : null;
  if (typeof value !== "object" || value === null) return null;
  const own = fields.filter(({ name }) => simple((value as Record<string, unknown>)[name]));
  return own.length ? own.map(({ name }) => `value.${identifier(name)} = ${textIn((value as Record<string, unknown>)[name])}`).join(",\n    ") : null;
}

function simple(value: unknown): boolean {
  return typeof value !== "object";
}

function textIn(value: unknown): string {
  return typeof value === "string" ? literal(value) : String(value);
}

/** The same key in other checkpoints of its job. */
function elsewhere({ database, table }: Rows, key: string, list: Database[]): Child {
  const job = jobOfName(list, database);
  if (!job) return null;
  const readable = job.databases.filter((one) => one.error === null);
  const name = list.find((one) => one.name === database)?.alias_of ?? database;
  const at = readable.findIndex((one) => one.name === name);
  const beside = (title: string, one: Database | undefined) => (at < 0 || !one ? null : action(`${title}: ${shortName(one)}`, linkOf(one.name, table, { key }), one.name));
  const pair = readable.length > 1 ? defaultPair(list, database) : null;
  return [
    beside("← Older", readable[at + 1]),
    beside("Newer →", readable[at - 1]),
    action("Timeline", jobLink(job.name, "timeline", { key }), "What the key had in each checkpoint of the job"),
    pair ? action("Diff", jobLink(job.name, "compare", { ...pair, table, key }), "What differs from the checkpoint before") : null,
    readable.length > 1 ? action("Side by side", partLink(name, "keys", { key }), "All of this key, checkpoint beside checkpoint") : null,
  ];
}

/** The rows that a program gets at this address. */
async function showOwn(element: HTMLElement, rows: Rows, signal: AbortSignal): Promise<Answer | null> {
  const stopped = new AbortController();
  signal.addEventListener("abort", () => stopped.abort());
  fill(element, progressBar("Progress of the rows", () => stopped.abort()).element);
  let shown: Child;
  let answer: Answer | null = null;
  try {
    answer = await get<Answer>(addressOf({ ...rows, others: { limit: String(MOST), ...rows.others } }, "json"), stopped.signal);
    const more = answer.truncated || answer.row_count >= MOST ? h("p", { class: "banner" }, `These are the first ${answer.row_count} rows.`) : null;
    shown = [more, answer.row_count ? rowsOf(answer, rows.table) : empty("This table has no row of this key.")];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    shown = error.code === "CANCELLED" ? h("p", { class: "banner", role: "note" }, "Cancelled") : problem(error);
  }
  if (signal.aborted) return null;
  fill(element, shown);
  return answer;
}

/** One row as a list of its columns, several as a table. */
function rowsOf({ columns, rows }: Answer, table: string): Child {
  const fields = columns.map((column, at) => ({ ...column, at })).filter(({ name }) => name !== "key");
  if (rows.length === 1) return plainTable(`The row of ${table}`, ["Column", "Value", "Type"], fields.map(({ name, type, at }) => [name, [record(rows[0][at], name)], h("code", { class: "note" }, type)]));
  return plainTable(`The rows of ${table}`, fields.map(({ name }) => name), rows.map((row) => fields.map(({ name, at }) => cell(row[at], name))));
}

async function showAll(element: HTMLElement, editor: HTMLElement, rows: Rows, key: string, list: Database[], partial: boolean, signal: AbortSignal): Promise<void> {
  const { database, table } = rows;
  const stopped = new AbortController();
  let cancelled = false;
  signal.addEventListener("abort", () => stopped.abort());
  const cancel = () => {
    cancelled = true;
    stopped.abort();
  };
  fill(element, progressBar("Progress of the search", cancel).element);
  let shown: Child;
  try {
    const found = await lookup(database, key, stopped.signal, partial);
    const state = found.states.find((one) => one.table_name === table && one.condition !== null);
    const condition = state?.condition ?? `key = ${literal(key)}`;
    fill(editor, action("Open in the editor", queryLink({ db: database, sql: `SELECT *\nFROM ${sourceOf(database, table)}\nWHERE ${condition}`, run: "1" })));
    shown = entriesOf(found, database, key, list, partial ? null : () => void showAll(element, editor, rows, key, list, true, signal));
    announce(found.entries.length ? `${found.entries.length} entries found` : "Nothing was found");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    shown = cancelled ? h("p", { class: "banner", role: "note" }, "Cancelled") : problem(error);
  }
  if (!signal.aborted) fill(element, shown);
}

function entriesOf(found: Found, database: string, key: string, list: Database[], withoutThem: (() => void) | null): Child {
  const { errors, lacking, entries } = found;
  return [
    errors.length
      ? h(
          "div",
          { class: "error", role: "alert" },
          h("strong", {}, "Not everything could be read"),
          h("ul", {}, errors.map((error) => h("li", {}, error))),
          withoutThem && found.mayLeaveOut ? leaveOutButton(withoutThem) : null,
        )
      : null,
    lackingBox(lacking),
    entries.length ? entryTables([found], sideBySide(list, [database]), key, "h3") : errors.length || lacking.length ? null : empty("No operator has state for this key."),
  ];
}
