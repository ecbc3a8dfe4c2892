// The tree of savepoints → operators → states → columns.
import { columns, contents, Database, factsOf, forget, Operator, operatorsOf, StateRow, TableEntry, schemas, viewsOf } from "./catalog";
import { ApiError } from "./api";
import { fill, h } from "./dom";
import { plural, stateBytes } from "./format";
import { describe, Job, jobsOf, newestOf, shortName } from "./jobs";
import { linkOf } from "./route";
import { identifier, table } from "./sql";
import { Tree, TreeNode } from "./tree";

export interface Picks {
  /** Opens a query over a table of a database. */
  query: (sql: string, database: string) => void;
  insert: (text: string) => void;
}
interface DatabaseNode extends TreeNode {
  /** The database, where it is one. */
  name?: string;
}

/** The tree with its filter. */
export function schemaTree(picks: Picks, opened: () => string | null): HTMLElement {
  const tree = new Tree("Savepoints, operators and states");
  const message = h("p", { class: "note", role: "status" });
  const filter = h("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": "Filter the tree",
    oninput: () => tree.filter(filter.value),
  });
  const load = async () => {
    fill(message, "Loading …");
    try {
      const list = await schemas();
      fill(message, list.length ? "" : "There is no savepoint under the folders that are served.");
      tree.show(nodesOf(list, picks));
      const first = opened() ?? newestOf(list)?.name ?? list[0]?.name;
      tree.openWhere((node: DatabaseNode) => node.name === first);
    } catch (error) {
      fill(message, error instanceof ApiError ? `${error.message} ${error.hint ?? ""}` : String(error));
    }
  };
  const refresh = h(
    "button",
    {
      type: "button",
      class: "quiet",
      title: "Load again",
      "aria-label": "Load the tree again",
      onclick: () => {
        forget();
        void load();
      },
    },
    "↻",
  );
  void load();
  return h("div", { class: "schema" }, h("div", { class: "filter" }, filter, refresh), message, tree.element);
}

/** Aliases, then jobs as folders with their databases, the newest first. */
function nodesOf(list: Database[], picks: Picks): DatabaseNode[] {
  const node = (database: Database, label: string, facts: string[]): DatabaseNode => ({
    label,
    name: database.name,
    kind: database.alias_of === null ? "database" : "alias",
    words: database.name,
    detail: database.error ? undefined : facts.join(" · "),
    warning: database.error ? "unreadable" : database.skipped?.length ? `skips ${database.skipped.length} unreadable` : undefined,
    title: database.error ?? [database.name, database.path, database.created_at, ...(database.skipped ?? []).map((one) => `newer, but unreadable: ${one.name}: ${one.error}`)].filter(Boolean).join("\n"),
    page: database.error ? undefined : linkOf(database.name),
    load: database.error ? undefined : () => operators(database.name, picks),
  });
  const aliases = list.filter((one) => one.alias_of !== null).map((one) => node(one, one.name, [`→ ${one.alias_of}`]));
  const jobs = jobsOf(list).map(
    (job): DatabaseNode => ({
      label: job.title,
      kind: "job",
      warning: unreadable(job.databases),
      detail: `${plural(job.databases.length, "savepoint")}${describe(job.databases[0]) && ` · ${describe(job.databases[0])}`}`,
      title: job.folder,
      children: [...(job.databases.length > 1 ? [history(job, picks)] : []), ...job.databases.map((one) => node(one, shortName(one), [describe(one)]))],
    }),
  );
  return [...aliases, ...jobs];
}

/** The tables of all checkpoints of a job; the newest says which there are. */
function history(job: Job, picks: Picks): DatabaseNode {
  const newest = job.databases.find((one) => one.error === null);
  return {
    label: "history",
    kind: "alias",
    name: job.entry.history,
    words: job.entry.history,
    detail: "all checkpoints as tables",
    page: linkOf(job.entry.history),
    title: `${job.entry.history}: the same tables, with _checkpoint_id in front`,
    load: newest && (() => operators(newest.name, picks, job.entry.history)),
  };
}

function unreadable(databases: Database[]): string | undefined {
  const broken = databases.filter((one) => one.error !== null).length;
  return broken ? `${broken} unreadable` : undefined;
}

/** What is in a database; `schema` has its tables, too, where it is the history of its job. */
async function operators(database: string, picks: Picks, schema = database): Promise<TreeNode[]> {
  const found = await contents(database);
  const place = { database, schema, picks };
  const own = operatorsOf(found).map(
    (operator): TreeNode => ({
      page: hasRows(operator) ? linkOf(schema, operator.table) : undefined,
      label: operator.label,
      kind: "operator",
      detail: operator.states[0].operator_name === operator.label ? undefined : (operator.states[0].operator_name ?? undefined),
      title: `operator ${operator.id}`,
      load: () =>
        Promise.resolve([
          ...operator.states.map((state) => stateNode(state, place)),
          ...viewsOf(operator, found).map((entry) => tableNode(entry, entry.name.slice(operator.table.length + 2), "view", place)),
          ...(hasRows(operator)
            ? [tableNode({ name: operator.table, comment: "all states of the operator; state_name says which", size_bytes: 0 }, "all states", "table", place)]
            : []),
        ]),
    }),
  );
  const facts = factsOf(found).map((entry) => tableNode(entry, entry.name, "table", place));
  return [...own, ...facts];
}

/** Whether its states stand in a table of its own. */
function hasRows({ states }: Operator): boolean {
  return states.some((state) => state.table_name !== null && state.table_name !== "timers");
}

interface Place {
  database: string;
  schema: string;
  picks: Picks;
}

function stateNode(state: StateRow, place: Place): TreeNode {
  const name = state.table_name;
  const type = state.state_kind === "TIMER" ? "timers" : [state.map_key_type, state.value_type].filter(Boolean).join(" → ");
  const facts = [
    `${state.state_kind} ${state.state_name}`,
    state.key_type && `key: ${state.key_type}`,
    state.namespace_type && state.namespace_type !== "VoidNamespace" && `namespace: ${state.namespace_type}`,
    type && `value: ${type}`,
    `size: ${stateBytes(state.size_bytes, state.size_is_estimate)}`,
    state.has_ttl && "has a time to live",
    `${state.decode_status}${state.decode_note ? `: ${state.decode_note}` : ""}`,
  ];
  return {
    label: state.state_name,
    kind: state.state_kind === "TIMER" ? "timer" : "state",
    detail: [state.state_kind, type, stateBytes(state.size_bytes, state.size_is_estimate)].filter(Boolean).join(" · "),
    warning: state.decode_status === "decoded" ? undefined : state.decode_status,
    title: facts.filter(Boolean).join("\n"),
    ...(name === null ? {} : tableActions(name, place)),
  };
}

function tableNode(entry: TableEntry, label: string, kind: string, place: Place): TreeNode {
  return { label, kind, title: entry.comment, ...tableActions(entry.name, place) };
}

function tableActions(name: string, { database, schema, picks }: Place): Pick<TreeNode, "load" | "act" | "page"> {
  return {
    page: linkOf(schema, name),
    act: () => picks.query(`SELECT *\nFROM ${table(schema, name)}\nLIMIT 100`, database),
    load: async () =>
      (await columns(schema, name)).map((column) => ({
        label: column.name,
        kind: "column",
        detail: column.type,
        act: () => picks.insert(/^[a-z_][a-z0-9_]*$/.test(column.name) ? column.name : identifier(column.name)),
      })),
  };
}
