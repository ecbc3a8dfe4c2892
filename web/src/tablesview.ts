// The pages of all databases and of one: its tables, what they hold, and where to go from there.
import { contentsOf, Contents, Database, factsOf, isOfService, operatorsOf, schemas, SERVICE, skippedBy, StateRow, TableEntry, viewsOf } from "./catalog";
import { Child, fill, h } from "./dom";
import { age, bytes, count, plural, stateBytes } from "./format";
import { describe, Job, jobOfName, jobsOf, shortName } from "./jobs";
import { empty, loading, measure, plainTable, skippedNote } from "./panel";
import { action, actions, copyButton, crumbs } from "./place";
import { hashOf, linkOf, placeOf } from "./route";

const XRAY = /^xray(_|$)/;
/** So many databases of a job are listed; its own page has all. */
const MOST_OF_JOB = 20;

export function tablesView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const [name] = placeOf(values);
  const body = h("div", { class: "view-body" });
  fill(main, h("div", { class: "view" }, body));
  if (name) document.title = `${name} · savepointdb`;
  void loading(
    body,
    async () => {
      const list = await schemas();
      return name ? database(name, list) : databases(list);
    },
    signal,
  );
}

function databases(list: Database[]): Child {
  const aliases = list.filter((one) => one.alias_of !== null);
  return [
    h("div", { class: "view-head" }, h("h1", {}, "Databases")),
    h("p", { class: "about" }, "A database is a savepoint or a checkpoint. Each has a page, as its tables and their keys have; a program that reads the address of a page gets the rows."),
    list.length ? null : empty("There is no savepoint under the folders that are served."),
    aliases.length ? plainTable("Other names", ["Name", "Stands for"], aliases.map((one) => [action(one.name, linkOf(one.name)), one.alias_of ?? ""])) : null,
    plainTable("Databases", ["Database", "Job", "Kind", "Checkpoint", "Written"], jobsOf(list).flatMap(rowsOfJob)),
    actions(action("Jobs and checkpoints as tables", linkOf(SERVICE)), copyButton()),
  ];
}

function rowsOfJob(job: Job): Child[][] {
  const title = action(job.title, hashOf("jobs", { job: job.name }), job.folder);
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
    ...(more > 0 ? [[action(`${count(more)} more`, hashOf("jobs", { job: job.name })), title.cloneNode(true), "", "", ""]] : []),
  ];
}

async function database(name: string, list: Database[]): Promise<Child> {
  const found = await contentsOf(list, name);
  if (isOfService(list, name)) return ofService(name, found);
  const entry = list.find((one) => one.name === name);
  const history = jobsOf(list).find((job) => job.entry.history === name);
  const job = history ?? jobOfName(list, name);
  const isListed = entry !== undefined || history !== undefined;
  return [
    crumbs([["Databases", linkOf()], [name, null]]),
    h("div", { class: "view-head" }, h("h1", {}, name)),
    h("p", { class: "about" }, aboutOf(name, entry, history)),
    skippedNote(skippedBy(list, name), entry?.alias_of ?? name),
    actions(
      history ? null : [
        action("Overview", hashOf("overview", { db: name })),
        action("Query", hashOf("query", { db: name })),
        action("Key explorer", hashOf("keys", { dbs: name })),
        action("Timers", hashOf("timers", { db: name })),
        action("Source offsets", hashOf("offsets", { dbs: name })),
      ],
      isListed && job ? action("Job", hashOf("jobs", { job: job.name }), job.title) : null,
      copyButton(),
    ),
    tablesOf(name, found),
  ];
}

/** The schema of the service itself. */
function ofService(name: string, { tables }: Contents): Child {
  return [
    crumbs([["Databases", linkOf()], [name, null]]),
    h("div", { class: "view-head" }, h("h1", {}, name)),
    h("p", { class: "about" }, "The jobs and checkpoints of all databases as tables, for questions about many of them: which checkpoint is the largest, which cannot be read."),
    actions(copyButton()),
    plainTable("Tables", ["Table", "Rows"], tables.map((entry) => [action(entry.name, linkOf(name, entry.name)), entry.comment])),
  ];
}

function aboutOf(name: string, entry: Database | undefined, history: Job | undefined): string {
  if (history) return `The tables of ${plural(history.databases.length, "checkpoint")} of ${history.title}, with the checkpoint of each row in front.`;
  if (!entry) return "A savepoint or checkpoint of Flink as tables.";
  const told = [entry.alias_of ? `${name} stands for ${entry.alias_of} now` : "", describe(entry), entry.path].filter(Boolean).join(" · ");
  return told;
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
