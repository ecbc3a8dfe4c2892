// The tables of a savepoint, and the list of all databases.
import { contentsOf, Contents, factsOf, isOfService, operatorsOf, schemas, SERVICE, StateRow, TableEntry, viewsOf } from "./catalog";
import { Child, fill, h } from "./dom";
import { age, bytes, count, plural, stateBytes } from "./format";
import { Job, jobsOf, shortName } from "./jobs";
import { empty, loading, measure, plainTable } from "./panel";
import { action, actions, copyButton, where } from "./place";
import { jobLink, jobsLink, linkOf } from "./route";
import type { At } from "./savepointview";

const XRAY = /^xray(_|$)/;
/** So many databases of a job are listed; its own page has all. */
const MOST_OF_JOB = 20;

export function tablesView(body: HTMLElement, { name, list }: At, _values: URLSearchParams, signal: AbortSignal): void {
  void loading(body, async () => (isOfService(list, name) ? ofService(name, await contentsOf(list, name)) : tablesOf(name, await contentsOf(list, name))), signal);
}

export function databasesView(main: HTMLElement, signal: AbortSignal): void {
  const body = h("div", { class: "view-body" });
  where([["Jobs", jobsLink()], ["All savepoints", null]]);
  document.title = "All savepoints · savepointdb";
  fill(main, h("div", { class: "view" }, h("div", { class: "head-row" }, h("h1", {}, "All savepoints"), h("span", { class: "gap" }), copyButton()), h("p", { class: "about" }, "Each savepoint and checkpoint is a database, with one table per state. Every address works in a browser and in a program, which gets the rows."), body));
  void loading(body, databases, signal);
}

async function databases(): Promise<Child> {
  const list = await schemas();
  const aliases = list.filter((one) => one.alias_of !== null);
  return [
    list.length ? null : empty("There is no savepoint in the folders that are served."),
    aliases.length ? plainTable("Other names", ["Name", "Stands for"], aliases.map((one) => [action(one.name, linkOf(one.name)), one.alias_of ?? ""])) : null,
    plainTable("Databases", ["Database", "Job", "Kind", "Checkpoint", "Written"], jobsOf(list).flatMap(rowsOfJob)),
    actions(action("Jobs and checkpoints as tables", linkOf(SERVICE))),
  ];
}

function rowsOfJob(job: Job): Child[][] {
  const title = action(job.title, jobLink(job.name), job.folder);
  const more = job.databases.length - MOST_OF_JOB;
  return [
    ...(job.databases.length > 1 && job.entry.history ? [[action("history", linkOf(job.entry.history), job.entry.history), title, "all its checkpoints", "–", "–"]] : []),
    ...job.databases.slice(0, MOST_OF_JOB).map((one) => [
      one.error === null ? action(shortName(one), linkOf(one.name), one.name) : [shortName(one), h("div", { class: "bad" }, one.error)],
      title.cloneNode(true),
      (one.kind ?? "–").toLowerCase(),
      one.checkpoint_id === null ? "–" : String(one.checkpoint_id),
      one.created_at ? h("span", { title: one.created_at }, age(one.created_at)) : "–",
    ]),
    ...(more > 0 ? [[action(`${count(more)} more`, jobLink(job.name)), title.cloneNode(true), "", "", ""]] : []),
  ];
}

/** The schema of the service itself. */
function ofService(name: string, { tables }: Contents): Child {
  return plainTable("Tables", ["Table", "Rows"], tables.map((entry) => [action(entry.name, linkOf(name, entry.name)), entry.comment]));
}

function tablesOf(name: string, found: Contents): Child {
  const link = (table: string, text = table) => h("a", { class: "link", href: linkOf(name, table), title: table }, text);
  const state = (one: StateRow): Child[] => [
    one.table_name === null ? one.state_name : link(one.table_name, one.state_name),
    one.state_kind.toLowerCase().replaceAll("_", " "),
    one.key_type ? h("code", {}, one.key_type) : "–",
    valueOf(one),
    measure(stateBytes(one.size_bytes, one.size_is_estimate)),
    one.decode_status === "decoded" ? "" : h("span", { class: "bad", title: one.decode_note }, one.decode_status),
  ];
  const other = (entry: TableEntry, text: string): Child[] => [link(entry.name, text), "view", "–", "–", measure(bytes(entry.size_bytes)), ""];
  const operators = operatorsOf(found).map((operator) => {
    const inTables = operator.states.some((one) => one.table_name !== null && one.table_name !== "timers");
    const views = viewsOf(operator, found).map((entry) => other(entry, entry.name.slice(operator.table.length + 2)));
    const rows = [...operator.states.map(state), ...views];
    const marked = rows.some((row) => row[5] !== "");
    return h(
      "section",
      { class: "tables" },
      h("div", { class: "section-head" }, h("h2", {}, operator.label), inTables && operator.states.length > 1 ? action("all its states as one table", linkOf(name, operator.table)) : null),
      operator.states[0].operator_name && operator.states[0].operator_name !== operator.label ? h("p", { class: "note" }, operator.states[0].operator_name) : null,
      plainTable(`Tables of ${operator.label}`, ["State", "Kind", "Keys", "Values", "Size", ...(marked ? ["Decoded"] : [])], rows.map((row) => (marked ? row : row.slice(0, 5)))),
    );
  });
  const facts = [...factsOf(found), ...found.tables.filter((entry) => XRAY.test(entry.name))];
  return [
    h("p", { class: "note" }, `${plural(found.states.length, "state")}, ${plural(found.tables.length, "table")}.`),
    operators,
    facts.length
      ? h(
          "section",
          { class: "tables" },
          h("h2", {}, "Facts"),
          plainTable("Tables of facts", ["Table", "Rows"], facts.map((entry) => [link(entry.name), entry.comment])),
        )
      : null,
  ];
}

function valueOf({ state_kind, map_key_type, value_type }: StateRow): Child {
  if (state_kind === "TIMER") return "timers";
  const told = [map_key_type, value_type].filter(Boolean).join(" → ");
  return told ? h("code", {}, told) : "–";
}
