// The types of columns, as SQL writes them: what can be measured of a column, and the fields within it.
import { Column } from "./api";
import { identifier, literal } from "./sql";

/** A number that a column has in each row, or something else that can be counted. */
export interface Measure {
  /** The column, or the path of a field within it. */
  label: string;
  /** Of the rows `r`. */
  sql: string;
  /** The same of the table, for a condition. */
  bare: string;
  type: string;
  kind: Kind;
}
/** `whole` numbers and times have a histogram of whole numbers; `size` is the length of a list, a map or bytes. */
export type Kind = "whole" | "number" | "time" | "flag" | "text" | "size" | "other";

const WHOLE = /^(U?(TINY|SMALL|BIG)INT|U?INTEGER)$/;
const NUMBER = /^(FLOAT|DOUBLE|DECIMAL.*)$/;
const TIME = /^(DATE|TIMESTAMP.*)$/;
const DEEPEST = 3;
const MOST = 60;

/** What can be measured of columns: fields of structs each for itself. */
export function measuresOf(columns: Column[]): Measure[] {
  return columns.flatMap(({ name, type }) => within(name, identifier(name), type, 0)).slice(0, MOST);
}

function within(label: string, bare: string, type: string, depth: number): Measure[] {
  const fields = depth < DEEPEST ? fieldsOf(type) : null;
  if (fields?.length) return fields.flatMap((field) => within(`${label}.${field.name}`, `${bare}.${identifier(field.name)}`, field.type, depth + 1));
  const size = sizeOf(type);
  const kind = size ? "size" : kindOf(type);
  const sql = (inner: string) => (size ? `${size}(${inner})` : inner);
  return [{ label, sql: sql(`r.${bare}`), bare: sql(bare), type, kind }];
}

function sizeOf(type: string): string | null {
  if (type.endsWith("]")) return "len";
  if (type.startsWith("MAP(")) return "cardinality";
  return type === "BLOB" ? "octet_length" : null;
}

function kindOf(type: string): Kind {
  if (WHOLE.test(type)) return "whole";
  if (NUMBER.test(type)) return "number";
  if (TIME.test(type)) return "time";
  if (type === "BOOLEAN") return "flag";
  return type === "VARCHAR" ? "text" : "other";
}

const TOKEN = /"(?:[^"]|"")*"|[(),]|[^"(),]+/g;

/** The fields of a struct; null for another type. */
export function fieldsOf(type: string): Column[] | null {
  if (!type.startsWith("STRUCT(") || !type.endsWith(")")) return null;
  const fields: string[] = [""];
  let depth = 0;
  for (const [token] of type.slice("STRUCT(".length, -1).matchAll(TOKEN)) {
    if (token === "(") depth += 1;
    if (token === ")") depth -= 1;
    if (token === "," && depth === 0) fields.push("");
    else fields[fields.length - 1] += token;
  }
  return fields.map((field) => field.trim()).filter(Boolean).map(columnOf);
}

function columnOf(text: string): Column {
  const [, quoted, plain, type] = /^(?:"((?:[^"]|"")*)"|(\S+))\s+(.*)$/s.exec(text) ?? [];
  return { name: quoted?.replaceAll('""', '"') ?? plain ?? text, type: type ?? "" };
}

/** The condition that a column has a value of an answer. */
export function equals({ bare, type, kind }: Measure, value: unknown): string {
  if (value === null) return `${bare} IS NULL`;
  if (kind === "whole" || kind === "size" || kind === "flag") return `${bare} = ${String(value)}`;
  const text = literal(String(value));
  return `${bare} = ${kind === "text" ? text : `CAST(${text} AS ${type})`}`;
}

const MEANINGS: Record<string, string> = {
  key: "The key that keyBy returns.",
  namespace: "The window, or another namespace of the state or timer.",
  value: "The value of the state.",
  map_key: "The key of a map entry. A map has one row per entry.",
  list_index: "The index in the list. A list has one row per element.",
  ttl_timestamp: "The last access of the entry, which its time to live starts from. UTC.",
  state_name: "The state of the entry.",
  timestamp: "When the timer fires. UTC.",
  timer_service: "The timer service of the timer.",
  time_domain: "Event time or processing time.",
  operator_id: "The id of the operator: a hash of its uid.",
  operator_uid: "The uid that the job gave to the operator.",
  _key_group: "The key group, from the hash of the key.",
  _subtask: "The subtask that wrote the entry.",
  _undecoded: "The bytes of a value whose class the savepoint does not describe.",
  _out_of_range: "Values outside the range of their columns, as JSON.",
  _checkpoint_id: "The checkpoint of the row.",
  _database: "The savepoint of the row.",
};

/** What a column is, for those who know Flink; null where its name says it. */
export function meaningOf(name: string): string | null {
  return Object.hasOwn(MEANINGS, name) ? MEANINGS[name] : null;
}
