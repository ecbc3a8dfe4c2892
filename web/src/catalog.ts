// What the service serves: databases, their states and tables. Asked for once, when it is needed.
import { Column, get } from "./api";
import { records } from "./asking";
import { describe, Job, JobEntry, joined, jobsOf, newestOf, shortName } from "./jobs";
import { literal, table } from "./sql";

export interface Database {
  name: string;
  path: string;
  /** The database that this name stands for now; null where it is its own. */
  alias_of: string | null;
  kind: string | null;
  checkpoint_id: number | null;
  /** When Flink wrote it, where the service knows it. */
  created_at?: string | null;
  /** The job that it is of; an alias has none of its own. */
  of?: Job;
  error: string | null;
  /** Newer savepoints that an alias does not stand for, because they cannot be read. */
  skipped?: { name: string; error: string }[];
}
export interface StateRow {
  operator_id: string;
  operator_uid: string | null;
  operator_name: string | null;
  state_name: string;
  state_kind: string;
  key_type: string | null;
  namespace_type: string | null;
  map_key_type: string | null;
  value_type: string | null;
  state_backend: string | null;
  has_ttl: boolean | null;
  parallelism: number;
  max_parallelism: number;
  size_bytes: number | null;
  size_is_estimate: boolean;
  decode_status: "decoded" | "partial" | "raw" | "unreadable";
  decode_note: string | null;
  table_name: string | null;
}
export interface TableEntry {
  name: string;
  comment: string;
  size_bytes: number;
}
export interface TableDetail extends TableEntry {
  state_bytes: number | null;
  is_estimate: boolean;
  columns: Column[];
}
export interface Contents {
  states: StateRow[];
  tables: TableEntry[];
}

const FACTS = ["StateMeta", "operators", "files", "source_offsets", "timers", "restore_check", "required_classes"];
const known = new Map<string, Promise<unknown>>();

function once<T>(key: string, load: () => Promise<T>): Promise<T> {
  let found = known.get(key) as Promise<T> | undefined;
  if (!found) {
    found = load();
    known.set(key, found);
    found.catch(() => known.delete(key));
  }
  return found;
}

/** Asks anew from now on. */
export function forget(): void {
  known.clear();
}

const path = (database: string) => `api/databases/${encodeURIComponent(database)}`;

/** All that SQL may name: databases, those of the newest job first, and behind them `latest` and the like. */
export function schemas(): Promise<Database[]> {
  return once("", async () => {
    const [{ databases }, { jobs }] = await Promise.all([get<{ databases: Database[] }>("api/databases"), get<{ jobs: JobEntry[] }>("api/jobs")]);
    return joined(databases, jobs);
  });
}

/** Each savepoint once. */
export async function databases(): Promise<Database[]> {
  return (await schemas()).filter((schema) => schema.alias_of === null);
}

export function contents(database: string): Promise<Contents> {
  return once(`contents ${database}`, async () => {
    const [states, list] = await Promise.all([
      records<StateRow>(`SELECT * FROM ${table(database, "StateMeta")}`),
      get<{ tables: TableEntry[] }>(`${path(database)}/tables`),
    ]);
    return { states, tables: list.tables };
  });
}

export const SERVICE = "savepointdb";

/** Whether a name is that of the schema whose tables list jobs and checkpoints, and of no database. */
export function isOfService(list: Database[], name: string): boolean {
  return name.toLowerCase() === SERVICE && !list.some((one) => one.name.toLowerCase() === SERVICE);
}

/** What is in a database; of the history of a job, what is in its newest database. */
export async function contentsOf(list: Database[], name: string): Promise<Contents> {
  if (isOfService(list, name)) return once(`contents ${SERVICE}`, async () => ({ states: [], ...(await get<{ tables: TableEntry[] }>(`${path(SERVICE)}/tables`)) }));
  const job = jobsOf(list).find(({ entry }) => entry.history === name);
  const newest = job?.databases.find((one) => one.error === null);
  return contents(newest?.name ?? name);
}

export function tableOf(database: string, name: string): Promise<TableDetail> {
  return once(`table ${database} ${name}`, () => get<TableDetail>(`${path(database)}/tables/${encodeURIComponent(name)}`));
}

export async function columns(database: string, name: string): Promise<Column[]> {
  return (await tableOf(database, name)).columns;
}

/** All tables of a database with their columns. */
export function schema(database: string): Promise<Map<string, Column[]>> {
  return once(`schema ${database}`, async () => {
    const rows = await records<{ table_name: string; column_name: string; data_type: string }>(
      "SELECT table_name, column_name, data_type FROM information_schema.columns " +
        `WHERE table_schema = ${literal(database)} ORDER BY table_name, ordinal_position`,
    );
    const tables = new Map<string, Column[]>();
    for (const row of rows) {
      const listed = tables.get(row.table_name) ?? [];
      listed.push({ name: row.column_name, type: row.data_type });
      tables.set(row.table_name, listed);
    }
    return tables;
  });
}

export interface Operator {
  id: string;
  label: string;
  table: string;
  states: StateRow[];
}

/** The operators that have states, in the order of StateMeta. */
export function operatorsOf({ states, tables }: Contents): Operator[] {
  const byId = Map.groupBy(states, (state) => state.operator_id);
  const listed = new Set(tables.map((entry) => entry.name));
  const labels = [...byId.values()].map(([first]) => first.operator_uid ?? first.operator_name ?? first.operator_id);
  return [...byId].map(([id, own], number) => {
    const label = labels[number];
    const unique = labels.filter((other) => other.toLowerCase() === label.toLowerCase()).length === 1;
    // An id always names its operator; a label does where it is the table's name.
    return { id, label, table: unique && listed.has(label) ? label : id, states: own };
  });
}

/** The tables that list facts of the whole savepoint. */
export function factsOf({ tables }: Contents): TableEntry[] {
  return tables.filter((entry) => FACTS.includes(entry.name));
}

/** Views of an operator of a SQL job that are not the table of a state. */
export function viewsOf(operator: Operator, { states, tables }: Contents): TableEntry[] {
  const ofStates = new Set(states.map((state) => state.table_name));
  return tables.filter((entry) => entry.name.startsWith(`${operator.table}__`) && !ofStates.has(entry.name));
}

export interface Option {
  value: string;
  text: string;
  disabled?: boolean;
  group?: string;
}

/** What to choose from: aliases, then jobs with the newest first; and the one that was asked for, which may be another alias. */
export function optionsOf(list: Database[], wanted: string | null): Option[] {
  const option = (database: Database, text: string, group?: string): Option => ({
    value: database.name,
    text: database.error ? `${text} (unreadable)` : text,
    disabled: database.error !== null,
    group,
  });
  const aliases = list.filter((one) => one.alias_of !== null).map((one) => option(one, `${one.name} (${one.alias_of})`));
  const jobs = jobsOf(list).flatMap((job) => job.databases.map((one) => option(one, [shortName(one), one.error ? "" : describe(one)].filter(Boolean).join(" · "), job.title)));
  const options = [...aliases, ...jobs];
  return wanted === null || options.some(({ value }) => value === wanted) ? options : [{ value: wanted, text: wanted }, ...options];
}

/** What a database is not, though its name or its being the newest says so: newer savepoints that cannot be read. */
export function skippedBy(list: Database[], name: string | null): { name: string; error: string }[] {
  const own = list.find((one) => one.name === name);
  if (own?.alias_of) return own.skipped ?? [];
  return list.filter((one) => one.alias_of === name).flatMap((one) => one.skipped ?? []).filter((one, at, all) => all.findIndex((other) => other.name === one.name) === at);
}

/** The database that was asked for, never another in its place; the newest that can be read where none was. */
export function chosen(list: Database[], wanted: string | null): string | null {
  return wanted ?? newestOf(list)?.name ?? null;
}
