// Pieces of SQL.
import { jsonText, parse } from "./exact";

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function table(database: string, name: string): string {
  return `${identifier(database)}.${identifier(name)}`;
}

/** What the page asks for itself begins so: it is not listed among what people asked. */
export const OWN = "/* page */ ";

/** The statement without the semicolons and spaces at its end. */
export function statement(text: string): string {
  return text.replace(/[\s;]+$/, "");
}

const RANGES: Record<string, bigint> = { TINYINT: 7n, SMALLINT: 15n, INTEGER: 31n, BIGINT: 63n };
const FLOATING = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^-?inf(inity)?$|^nan$/i;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A condition that a column is the value that a text says; null if the text is none of the type. Nested values are JSON. */
export function keyCondition(column: string, text: string, type: string): string | null {
  if (!type.startsWith("STRUCT(") || type.endsWith("]")) {
    const value = keyLiteral(text, type);
    return value === null ? null : `${column} = ${value}`;
  }
  // Rows of SQL jobs have their kind in a field, which no key differs by.
  const fields = fieldsOf(type).filter((field) => field.name !== ROW_KIND);
  const given = valuesOf(text, fields);
  if (given === null) return null;
  const conditions = fields.map(({ name, type: own }, number) => {
    const value = given[number];
    const place = `struct_extract(${column}, ${literal(name)})`;
    if (value === null) return `${place} IS NULL`;
    return keyCondition(place, typeof value === "string" ? value : jsonText(value), own);
  });
  return conditions.includes(null) ? null : conditions.join(" AND ");
}

const ROW_KIND = "__row_kind";
const INSERT = '"+I"';

/** The text as the service writes a key of this type in JSON; null if it is none. Keys of SQL jobs are insertions. */
export function keyJson(text: string, type: string): string | null {
  if (!type.startsWith("STRUCT(") || type.endsWith("]")) {
    if (keyLiteral(text, type) === null) return null;
    if (/^MAP\(|\[\d*\]$/.test(type)) return jsonText(parse(text));
    if (type === "BOOLEAN") return text.toLowerCase();
    return type in RANGES || type === "FLOAT" || type === "DOUBLE" ? text : JSON.stringify(text);
  }
  const all = fieldsOf(type);
  const given = valuesOf(text, all.filter((field) => field.name !== ROW_KIND));
  if (given === null) return null;
  const values = given.values();
  const fields = all.map(({ name, type: own }) => {
    const value = name === ROW_KIND ? undefined : values.next().value;
    const json = name === ROW_KIND ? INSERT : value === null ? "null" : keyJson(typeof value === "string" ? value : jsonText(value), own);
    return json === null ? null : `${JSON.stringify(name)}:${json}`;
  });
  return fields.includes(null) ? null : `{${fields.join(",")}}`;
}

/** The values of the fields: of an object, of an array, or the text itself where there is one field. */
function valuesOf(text: string, fields: Field[]): unknown[] | null {
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    value = null;
  }
  if (Array.isArray(value)) return value.length === fields.length ? value : null;
  if (value !== null && typeof value === "object") {
    const object = value as Record<string, unknown>;
    const known = fields.every(({ name }) => name in object) && Object.keys(object).every((name) => name === ROW_KIND || fields.some((field) => field.name === name));
    return known ? fields.map(({ name }) => object[name]) : null;
  }
  return fields.length === 1 ? [text] : null;
}

/** The text as a value of a SQL type; null if it is none. */
export function keyLiteral(text: string, type: string): string | null {
  if (type === "VARCHAR") return literal(text);
  if (type in RANGES) {
    if (!/^-?\d+$/.test(text)) return null;
    const value = BigInt(text);
    const limit = 1n << RANGES[type];
    return value >= -limit && value < limit ? value.toString() : null;
  }
  if (type === "BOOLEAN") return /^(true|false)$/i.test(text) ? text.toUpperCase() : null;
  if (type === "BLOB") return BASE64.test(text) ? `from_base64(${literal(text)})` : null;
  if (type === "FLOAT" || type === "DOUBLE" || type.startsWith("DECIMAL")) {
    return FLOATING.test(text) ? `TRY_CAST(${literal(text)} AS ${type})` : null;
  }
  if (/^(TIMESTAMP|DATE|TIME)/.test(type)) return /^[\d:T .+Z-]+$/.test(text) ? `TRY_CAST(${literal(text)} AS ${type})` : null;
  if (!/^MAP\(|\[\d*\]$/.test(type)) return null;
  try {
    return Array.isArray(JSON.parse(text)) ? `TRY_CAST(CAST(${literal(text)} AS JSON) AS ${type})` : null;
  } catch {
    return null;
  }
}

export interface Field {
  name: string;
  type: string;
}

/** The fields of `STRUCT(name TYPE, "other name" TYPE)`. */
export function fieldsOf(type: string): Field[] {
  const fields: Field[] = [];
  let depth = 0;
  let start = 0;
  let quoted = false;
  const inside = type.slice("STRUCT(".length, -1);
  const take = (end: number) => {
    const [, name, bare, own] = /^\s*(?:"((?:[^"]|"")*)"|(\S+)) (.*)$/s.exec(inside.slice(start, end)) ?? [];
    fields.push({ name: name?.replaceAll('""', '"') ?? bare, type: own });
    start = end + 1;
  };
  [...inside.matchAll(/[",()]/g)].forEach(({ 0: mark, index }) => {
    if (mark === '"') quoted = !quoted;
    else if (quoted) return;
    else if (mark === "(") depth += 1;
    else if (mark === ")") depth -= 1;
    else if (depth === 0) take(index);
  });
  take(inside.length);
  return fields;
}
