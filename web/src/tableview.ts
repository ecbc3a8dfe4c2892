// The page of a table: what it is, its first rows, its columns, filters; and the page of a key where the address has one.
import { Answer, ApiError, get } from "./api";
import { contentsOf, Database, isOfService, schemas, StateRow, TableDetail, tableOf } from "./catalog";
import { addressOf, joined, partsOf, Rows } from "./conditions";
import { keep } from "./context";
import { announce, Child, fill, h } from "./dom";
import { bytes, count, plural, stateBytes } from "./format";
import { loading, problem } from "./panel";
import { action, actions, copyButton, files, keyLink, stepsTo, where } from "./place";
import { progressBar } from "./progressbar";
import { Question, Told } from "./question";
import { jobsLink, linkOf, placeOf, queryLink, visit } from "./route";
import { rowView } from "./rowview";
import { identifier, literal, table as sourceOf } from "./sql";
import { Columns } from "./summaryview";

const FIRST = 100;
const LONGEST_TITLE = 100;
/** The parameters of a link beside its condition and its key. */
const OTHERS = new Set(["_key_group", "columns", "sort", "limit", "compat", "formulas"]);
/** What is counted without being asked for. */
const SMALL = 64 * 1024 * 1024;

export function tableView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const names = placeOf(values);
  const body = h("div", { class: "view-body" });
  where([["Jobs", jobsLink()], [names[0], linkOf(names[0])], [names.slice(1).join("/"), null]]);
  fill(main, h("div", { class: "view" }, body));
  void loading(
    body,
    async () => {
      const [list, [database, name]] = await Promise.all([schemas(), split(names)]);
      // The other views are about savepoints.
      if (!isOfService(list, database)) keep({ db: database });
      where(stepsTo(list, database, [name, null]));
      const detail = await tableOf(database, name);
      document.title = `${(values.get("key") ?? name).slice(0, LONGEST_TITLE)} · ${database} · savepointdb`;
      const { key, where: condition = "", place: _place, db: _db, ...given } = Object.fromEntries(values) as Record<string, string>;
      const others = Object.fromEntries(Object.entries(given).filter(([name]) => OTHERS.has(name)));
      // All other parameters are columns, and the value that they have: part of the condition, so that counts and summaries follow it.
      const equal = Object.entries(given).filter(([name]) => !OTHERS.has(name)).map(([name, value]) => `${identifier(name)} = ${literal(value)}`);
      const fitting = joined([...(condition ? [condition] : []), ...equal]);
      const rows: Rows = { database, table: name, where: fitting, others };
      return key === undefined ? page(rows, detail, list, signal) : rowView(rows, key, list, signal);
    },
    signal,
  );
}

/** The database and the table: of more names than two the service knows which are the database. */
async function split(names: string[]): Promise<[string, string]> {
  for (let number = names.length - 1; number > 1; number -= 1) {
    const database = names.slice(0, number).join("/");
    try {
      await get(`api/databases/${encodeURIComponent(database)}`);
      return [database, names.slice(number).join("/")];
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
  return [names[0], names.slice(1).join("/")];
}

async function page(rows: Rows, detail: TableDetail, list: Database[], signal: AbortSignal): Promise<Child> {
  const { database, table } = rows;
  const condition = [rows.others._key_group ? `_key_group = ${rows.others._key_group}` : "", rows.where ? `(${rows.where}\n)` : ""].filter(Boolean).join(" AND ");
  const source = `${sourceOf(database, table)}${condition && ` WHERE ${condition}`}`;
  const told = new Told();
  const counted = h("div", {});
  const first = h("section", { "aria-label": "Rows", class: "rows" });
  const columns = h("div", {});
  void showRows(first, rows, signal).then((answer) => {
    if (answer === null || signal.aborted) return;
    const question = new Question<{ rows: number }>({
      holder: counted,
      label: "Count them",
      what: "count",
      size: detail.size_bytes,
      sql: `SELECT count(*) AS rows FROM ${source}`,
      show: ([{ rows: number }]) => count(number),
      signal,
    }, told);
    if (!rows.others.limit && answer.row_count < FIRST) fill(counted, count(answer.row_count));
    else told.add(question).start(detail.size_bytes <= SMALL);
    fill(columns, new Columns(answer.columns, rows, `(SELECT * FROM ${source}) AS r`, detail.size_bytes, told, signal).element);
  });
  const states = await statesOf(list, database, detail.name);
  return [
    h("div", { class: "head-row" }, h("h1", {}, table)),
    h("p", { class: "about" }, aboutOf(detail, states)),
    h(
      "dl",
      { class: "facts" },
      fact(rows.where || rows.others._key_group ? "Rows that fit" : "Rows", counted),
      detail.state_bytes !== null ? fact("Size", stateBytes(detail.state_bytes, detail.is_estimate)) : null,
      detail.size_bytes ? fact("A scan reads", `about ${bytes(detail.size_bytes)}`) : null,
      states.length === 1 ? [fact("Kind", states[0].state_kind), fact("State", states[0].state_name), fact("Decoded", states[0].decode_status === "decoded" ? "yes" : `${states[0].decode_status}: ${states[0].decode_note ?? ""}`)] : null,
    ),
    filters(rows),
    actions(
      action("Open in the editor", queryLink({ db: isOfService(list, database) ? null : database, sql: `SELECT ${listed(rows.others.columns)}\nFROM ${sourceOf(database, table)}${condition && `\nWHERE ${rows.others._key_group ? condition : rows.where}`}${rows.others.sort ? `\nORDER BY ${sorted(rows.others.sort)}` : ""}\nLIMIT ${rows.others.limit ?? FIRST}`, run: "1" })),
      files(table, (format) => addressOf(rows, format)),
      copyButton(),
    ),
    first,
    columns,
  ];
}

function fact(name: string, value: Child): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

/** The states whose rows are in a table. */
async function statesOf(list: Database[], database: string, table: string): Promise<StateRow[]> {
  try {
    return (await contentsOf(list, database)).states.filter((state) => state.table_name === table);
  } catch (error) {
    // The rows say what is wrong.
    if (error instanceof ApiError) return [];
    throw error;
  }
}

function aboutOf({ comment }: TableDetail, states: StateRow[]): string {
  const [state] = states;
  const types = states.length === 1 && state.state_kind !== "TIMER" ? [state.key_type && `keys are ${state.key_type}`, state.map_key_type && `keys of the map ${state.map_key_type}`, state.value_type && `values ${state.value_type}`] : [];
  const told = [comment, ...types].filter(Boolean).join("; ");
  return `${told.charAt(0).toUpperCase()}${told.slice(1)}.`;
}

/** The columns of a link as those of a SELECT. */
function listed(columns: string | undefined): string {
  const names = namesOf(columns ?? "");
  return names.length ? names.map(identifier).join(", ") : "*";
}

/** The sorting of a link as that of a SELECT. */
function sorted(sort: string): string {
  return namesOf(sort).map((name) => (name.startsWith("-") ? `${identifier(name.slice(1))} DESC` : identifier(name))).join(", ");
}

function namesOf(text: string): string[] {
  return [...text.matchAll(/(?:"((?:[^"]|"")*)"|([^,]+))(?:,|$)/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain);
}

/** The condition of the rows, with its parts to take away. */
function filters(rows: Rows): Child {
  const parts = partsOf(rows.where);
  const { _key_group: group, ...others } = rows.others;
  const field = h("input", { type: "text", value: rows.where, "aria-label": "Condition", placeholder: "a condition of SQL: value > 100 AND key LIKE 'a%'", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const submit = (event: Event) => {
    event.preventDefault();
    visit(addressOf({ ...rows, where: field.value.trim() }));
  };
  const chip = (text: string, href: string) => h("li", {}, h("code", {}, text), h("a", { class: "link", href, "aria-label": `Without ${text}`, title: "Take it away" }, "×"));
  const chips = [
    ...(group ? [chip(`_key_group = ${group}`, addressOf({ ...rows, others }))] : []),
    ...parts.map((part, at) => chip(part, addressOf({ ...rows, where: joined(parts.filter((_, other) => other !== at)) }))),
  ];
  return h(
    "div",
    { class: "filters" },
    h("form", { class: "keyform", role: "search", "aria-label": "Filter", onsubmit: submit }, field, h("button", {}, "Filter")),
    chips.length ? h("ul", { class: "chips", "aria-label": "Filters" }, chips) : null,
  );
}

/** The first rows, as a program that reads the same address gets them; null where they cannot be had. */
async function showRows(element: HTMLElement, rows: Rows, signal: AbortSignal): Promise<Answer | null> {
  const limit = rows.others.limit ?? String(FIRST);
  const stopped = new AbortController();
  signal.addEventListener("abort", () => stopped.abort());
  const bar = progressBar("Progress of the first rows", () => stopped.abort());
  fill(element, bar.element);
  try {
    const answer = await get<Answer>(addressOf({ ...rows, others: { ...rows.others, limit } }, "json"), stopped.signal);
    if (signal.aborted) return null;
    const { grid } = await import("./grid");
    const keyed = answer.columns.some(({ name }) => name === "key");
    const { element: made, destroy } = grid(answer, (column, value, row) => (keyed && column === "key" && value !== null ? keyLink(rows, value, row("_key_group")) : null));
    signal.addEventListener("abort", destroy);
    const more = answer.row_count >= Number(limit) ? h("p", { class: "note" }, `These are the first ${plural(answer.row_count, "row")}${rows.others.sort ? "" : ", in no order"}. `, action("More", addressOf({ ...rows, others: { ...rows.others, limit: String(Number(limit) * 10) } }))) : null;
    made.classList.toggle("short", answer.row_count < 8);
    if (!signal.aborted) fill(element, made, more);
    announce(plural(answer.row_count, "row"));
    return answer;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (signal.aborted) return null;
    const again = h("p", { class: "banner", role: "note" }, "Cancelled ", h("button", { type: "button", class: "link", onclick: () => visit(location.href) }, "Read them"));
    fill(element, error.code === "CANCELLED" ? again : problem(error));
    return null;
  }
}
