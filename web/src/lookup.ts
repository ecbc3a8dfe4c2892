// Every entry of a key in one database: one query, that reads only the key's key groups where their hash is known.
import { ApiError, Column } from "./api";
import { ask } from "./asking";
import { contents, Operator, operatorsOf, schema, StateRow } from "./catalog";
import { identifier, keyCondition, keyJson, literal, table } from "./sql";

/** What is shown of one entry; the value is the only thing that differs between checkpoints. */
export interface Entry {
  operator: string;
  operatorId: string;
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
  /** Types of keys that the text is none of. */
  others: Map<string, string>;
  fitting: number;
  bytesRead: number;
}
interface Part {
  operator: Operator;
  state: StateRow;
  sql: string;
}
type Fields = Record<string, unknown>;

export const MOST = 1000;

export async function lookup(database: string, key: string, signal: AbortSignal): Promise<Found> {
  const found: Found = { database, entries: [], errors: [], others: new Map(), fitting: 0, bytesRead: 0 };
  let parts: Part[];
  try {
    const [listed, tables] = await Promise.all([contents(database), schema(database)]);
    parts = operatorsOf(listed).flatMap((operator) => partsOf(database, operator, tables, listed.states, key, found));
  } catch (error) {
    found.errors.push(messageOf(error));
    return found;
  }
  found.fitting = parts.length;
  if (!parts.length) return found;
  try {
    await read(parts, found, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    if (parts.length === 1) {
      found.errors.push(`${placeOf(parts[0])}: ${messageOf(error)}`);
      return found;
    }
    // One that cannot be read must not hide the others.
    found.entries = [];
    for (const part of parts) {
      try {
        await read([part], found, signal);
      } catch (failure) {
        if (signal.aborted) throw failure;
        found.errors.push(`${placeOf(part)}: ${messageOf(failure)}`);
      }
    }
  }
  return found;
}

function partsOf(database: string, operator: Operator, tables: Map<string, Column[]>, all: StateRow[], key: string, found: Found): Part[] {
  const parts: Part[] = [];
  const named = new Map([...tables].map(([name, columns]) => [name.toLowerCase(), { name, columns }]));
  for (const state of operator.states) {
    if (state.key_type === null || state.table_name === null) continue;
    const isTimer = state.state_kind === "TIMER";
    // The table of a SQL operator's state may be a view without a key; the state itself stands beside it.
    const candidates = [state.table_name, `${operator.table}__${state.state_name}`].map((name) => named.get(name.toLowerCase()));
    const known = candidates.find((one) => one?.columns.some((column) => column.name === "key"));
    const type = known?.columns.find((column) => column.name === "key")?.type;
    if (!known || !type) continue;
    const condition = isTimer ? timerCondition(key, type, operator, all, named) : keyCondition("key", key, type);
    if (condition === null) {
      if (!isTimer) found.others.set(operator.label, type);
      continue;
    }
    const fields = known.columns.filter((column) => column.name !== "key").map(({ name }) => `${literal(name)}: ${identifier(name)}`);
    const only = isTimer ? ` AND operator_id = ${literal(operator.id)} AND timer_service = ${literal(serviceOf(state))} AND time_domain = ${literal(domainOf(state))}` : "";
    parts.push({ operator, state, sql: `(SELECT list({${fields.join(", ")}}) FROM (SELECT * FROM ${table(database, known.name)} WHERE ${condition}${only} LIMIT ${MOST}))` });
  }
  return parts;
}

/** Where operators with keys of several types have timers, the column has their keys as JSON text. */
function timerCondition(key: string, type: string, operator: Operator, all: StateRow[], named: Map<string, { columns: Column[] }>): string | null {
  const kinds = new Set(all.filter((state) => state.state_kind === "TIMER").map((state) => state.key_type));
  if (type !== "VARCHAR" || kinds.size <= 1) return keyCondition("key", key, type);
  const own = operator.states
    .filter((state) => state.state_kind !== "TIMER" && state.table_name !== null)
    .map((state) => named.get(state.table_name!.toLowerCase())?.columns.find((column) => column.name === "key")?.type)
    .find((found) => found !== undefined);
  const json = keyJson(key, own ?? (operator.states[0].key_type === "String" ? "VARCHAR" : "BIGINT"));
  return json === null ? null : `key = ${literal(json)}`;
}

/** `_timer_state/event_user-timers` is the service `user-timers`, of event time. */
function serviceOf(state: StateRow): string {
  return state.state_name.replace(/^_timer_state\/(event|processing)_/, "");
}

function domainOf(state: StateRow): string {
  return state.state_name.startsWith("_timer_state/processing_") ? "PROCESSING" : "EVENT";
}

async function read(parts: Part[], found: Found, signal: AbortSignal): Promise<void> {
  const answer = await ask(`SELECT ${parts.map((part, number) => `${part.sql} AS s${number}`).join(", ")}`, signal);
  found.bytesRead += answer.bytes_read;
  parts.forEach(({ operator, state }, number) => {
    for (const fields of (answer.rows[0][number] as Fields[] | null) ?? []) found.entries.push(entryOf(operator, state, fields));
  });
}

function entryOf(operator: Operator, state: StateRow, fields: Fields): Entry {
  const common = { operator: operator.label, operatorId: operator.id, namespace: fields.namespace ?? null };
  if (state.state_kind === "TIMER") {
    const name = `${domainOf(state).toLowerCase()} timer of ${serviceOf(state)}`;
    return { ...common, state: name, kind: "TIMER", mapKey: fields.timestamp, listIndex: null, value: "registered" };
  }
  const { map_key: mapKey = null, list_index: listIndex = null } = fields;
  return { ...common, state: state.state_name, kind: state.state_kind, mapKey, listIndex, value: "value" in fields ? fields.value : rest(fields) };
}

/** What a view has in place of a value. */
function rest(fields: Fields): Fields {
  const facts = new Set(["namespace", "map_key", "list_index", "_key_group", "_subtask", "_undecoded"]);
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !facts.has(name)));
}

function placeOf({ operator, state }: Part): string {
  return `${operator.label} · ${state.state_name}`;
}

function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  throw error;
}
