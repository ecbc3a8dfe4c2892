// Every entry of a key in one database: the service reads the key, and one query finds it in all states, in its key groups where their hash is known.
import { ApiError, mayLeaveOut, post, Unread } from "./api";
import { ask, reading } from "./asking";
import { jsonText } from "./exact";
import { identifier, literal } from "./sql";

/** What is shown of one entry; the value is the only thing that differs between checkpoints. */
export interface Entry {
  operator: string;
  operatorId: string;
  /** The one that has the entry as a row. */
  table: string;
  state: string;
  kind: string;
  namespace: unknown;
  mapKey: unknown;
  listIndex: unknown;
  value: unknown;
}
export interface Found {
  database: string;
  entries: Entry[];
  /** What could not be read, and why. */
  errors: string[];
  /** Whether there is an answer without what could not be read. */
  mayLeaveOut: boolean;
  /** What was left out of the answer, where that was allowed. */
  lacking: Unread[];
  states: Keyed[];
  bytesRead: number;
}
/** A state with keys, as `POST /api/databases/…/keys` tells it. */
export interface Keyed {
  operator_id: string;
  operator: string;
  table_name: string;
  state_name: string;
  state_kind: string;
  key_type: string;
  columns: string[];
  /** The query of the key's rows, and its condition; null where the text is no key of this type. */
  sql: string | null;
  condition: string | null;
  reason: string | null;
  is_close: boolean;
  example_sql: string;
}
interface Read {
  states: Keyed[];
  unread: { operator: string; code: string; message: string }[];
}
type Fields = Record<string, unknown>;

export const MOST = 1000;
const ROW_KIND = "__row_kind";

export async function lookup(database: string, key: string, signal: AbortSignal, partial: boolean): Promise<Found> {
  const found: Found = { database, entries: [], errors: [], mayLeaveOut: false, lacking: [], states: [], bytesRead: 0 };
  try {
    const { states, unread } = await post<Read>(`api/databases/${encodeURIComponent(database)}/keys`, { key }, signal);
    found.states = states;
    for (const { operator, code, message } of unread) {
      if (partial) found.lacking.push({ table: operator, message });
      else failed(found, `${operator}: ${message}`, code);
    }
  } catch (error) {
    note(found, error, "", signal);
    return found;
  }
  const fitting = found.states.filter((state) => state.sql !== null);
  if (!fitting.length) return found;
  try {
    await read(fitting, found, signal, partial);
  } catch (error) {
    if (signal.aborted) throw error;
    if (fitting.length === 1) {
      note(found, error, placeOf(fitting[0]), signal);
      return found;
    }
    // One that cannot be read must not hide the others.
    found.entries = [];
    for (const state of fitting) await read([state], found, signal, partial).catch((failure: unknown) => note(found, failure, placeOf(state), signal));
  }
  return found;
}

function note(found: Found, error: unknown, place: string, signal: AbortSignal): void {
  if (signal.aborted || !(error instanceof ApiError)) throw error;
  failed(found, place ? `${place}: ${error.message}` : error.message, error.code);
}

function failed(found: Found, told: string, code: string): void {
  found.errors.push(told);
  found.mayLeaveOut ||= mayLeaveOut(code);
}

async function read(states: Keyed[], found: Found, signal: AbortSignal, partial: boolean): Promise<void> {
  const how = reading(signal, partial);
  const answer = await ask(`SELECT ${states.map((state, number) => `${rowsOf(state)} AS s${number}`).join(", ")}`, how);
  found.bytesRead += answer.bytes_read;
  found.lacking.push(...how.lacking);
  states.forEach((state, number) => {
    for (const fields of (answer.rows[0][number] as Fields[] | null) ?? []) found.entries.push(entryOf(state, fields));
  });
}

/** The rows of a state as one list. */
function rowsOf({ columns, sql }: Keyed): string {
  const fields = columns.filter((name) => name !== "key").map((name) => `${literal(name)}: ${identifier(name)}`);
  return `(SELECT list({${fields.join(", ")}}) FROM (${sql} LIMIT ${MOST}))`;
}

function entryOf(state: Keyed, fields: Fields): Entry {
  const common = { operator: state.operator, operatorId: state.operator_id, table: state.table_name, namespace: fields.namespace ?? null, state: nameOf(state) };
  if (isTimer(state)) return { ...common, kind: "TIMER", mapKey: fields.timestamp, listIndex: null, value: "registered" };
  const { map_key: mapKey = null, list_index: listIndex = null, value = null } = fields;
  return { ...common, kind: state.state_kind, mapKey, listIndex, value };
}

function isTimer({ state_kind }: Keyed): boolean {
  return state_kind.endsWith(" TIMER");
}

/** "event timer of user-timers", or the name of a state. */
function nameOf(state: Keyed): string {
  return isTimer(state) ? `${state.state_kind.toLowerCase()} of ${state.state_name}` : state.state_name;
}

function placeOf(state: Keyed): string {
  return `${state.operator} · ${nameOf(state)}`;
}

/** The condition that finds the rows of a key in a table of one of some databases; null where the text is none of its keys. */
export async function conditionOf(databases: string[], table: string, key: string, signal: AbortSignal): Promise<string | null> {
  for (const database of databases) {
    const { states } = await post<Read>(`api/databases/${encodeURIComponent(database)}/keys`, { key }, signal);
    const found = states.find((state) => state.table_name === table);
    if (found) return found.condition;
  }
  // Not the table of a state: timers, and what lists facts.
  return `key::VARCHAR = ${literal(key)}`;
}

/** A key of a state, as it may be typed; null where the state has none, or cannot be read. */
export async function exampleOf({ example_sql }: Keyed, signal: AbortSignal): Promise<string | null> {
  try {
    const { rows } = await ask(example_sql, reading(signal, true));
    return keyText(rows[0]?.[0]);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** A key of an answer, as it may be typed; null where there is none. */
export function keyText(key: unknown): string | null {
  if (key === null || key === undefined) return null;
  if (typeof key !== "object") return String(key);
  return jsonText(Array.isArray(key) ? key : Object.fromEntries(Object.entries(key).filter(([name, value]) => name !== ROW_KIND || value !== "+I")));
}
