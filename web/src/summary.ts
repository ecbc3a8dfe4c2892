// One statement that sums up the columns of a table: least and greatest values, NULLs, distinct values, histograms.
import { Kind, Measure } from "./types";

/** The most bars of a histogram. */
export const BARS = 12;

/** What one column has. */
export interface Summary {
  measure: Measure;
  rows: number;
  nulls: number;
  /** An estimate; null where nobody counts it. */
  distinct: number | null;
  least: unknown;
  greatest: unknown;
  bars: Bar[];
}
/** A range of values, without its end; of one value where `to` is null. */
export interface Bar {
  from: number | bigint;
  to: number | bigint | null;
  rows: number;
}
type Record_ = Record<string, unknown>;

/** Two passes: the first finds the bounds, the second counts between them. */
export function summarySql(rows: string, measures: Measure[]): string {
  const bounds = measures.flatMap((measure, at) => boundsOf(measure, at));
  const drawn = measures.map((measure, at) => ({ measure, at })).filter(({ measure }) => hasBars(measure.kind));
  const first = `SELECT ${["count(*) AS __rows", ...bounds].join(", ")} FROM ${rows}`;
  if (!drawn.length) return first;
  const cuts = drawn.map(({ measure, at }) => `${cutOf(measure, at)} AS __b${at}`).join(", ");
  const counts = drawn.map(({ at }) => `map_entries(histogram(__b${at})) AS __h${at}`).join(", ");
  return `WITH __bounds AS (${first}) SELECT * FROM __bounds, (SELECT ${counts} FROM (SELECT ${cuts} FROM ${rows}, __bounds) AS __cut) AS __bars`;
}

function hasBars(kind: Kind): boolean {
  return kind !== "text" && kind !== "other";
}

function boundsOf({ sql, kind, type }: Measure, at: number): string[] {
  const found = [`count(${sql}) AS __n${at}`];
  if (kind !== "size") found.push(`approx_count_distinct(${sql}) AS __d${at}`);
  // NaN and infinities have no place between others.
  const value = type === "FLOAT" || type === "DOUBLE" ? `CASE WHEN isfinite(${sql}) THEN ${sql} END` : sql;
  found.push(`min(${value}) AS __l${at}`, `max(${value}) AS __g${at}`);
  if (kind === "time") found.push(`epoch_ms(min(${sql})) AS __f${at}`, `epoch_ms(max(${sql})) AS __t${at}`);
  return found;
}

/** The number of the bar that a value is in. */
function cutOf({ sql, kind, type }: Measure, at: number): string {
  if (kind === "flag") return `CAST(${sql} AS INTEGER)`;
  if (kind === "number") {
    const finite = type.startsWith("DECIMAL") ? `${sql} IS NOT NULL` : `isfinite(${sql})`;
    const [value, least, greatest] = [sql, `__l${at}`, `__g${at}`].map((one) => `CAST(${one} AS DOUBLE)`);
    return `CASE WHEN ${finite} THEN CAST(least(${BARS - 1}, CASE WHEN ${greatest} > ${least} THEN floor((${value} - ${least}) / (${greatest} - ${least}) * ${BARS}) ELSE 0 END) AS INTEGER) END`;
  }
  const [value, least, greatest] = kind === "time" ? [`epoch_ms(${sql})`, `__f${at}`, `__t${at}`] : [sql, `__l${at}`, `__g${at}`];
  // Exact: the width of a bar is a whole number.
  const wide = (one: string) => `CAST(${one} AS HUGEINT)`;
  return `CAST((${wide(value)} - ${wide(least)}) // ((${wide(greatest)} - ${wide(least)} + ${BARS}) // ${BARS}) AS INTEGER)`;
}

export function summariesOf(record: Record_, measures: Measure[]): Summary[] {
  const rows = Number(record.__rows);
  return measures.map((measure, at) => {
    const distinct = record[`__d${at}`];
    return {
      measure,
      rows,
      nulls: rows - Number(record[`__n${at}`]),
      distinct: distinct === undefined || distinct === null ? null : Number(distinct),
      least: record[`__l${at}`] ?? null,
      greatest: record[`__g${at}`] ?? null,
      bars: barsOf(measure, record, at),
    };
  });
}

function barsOf({ kind }: Measure, record: Record_, at: number): Bar[] {
  const counted = new Map(((record[`__h${at}`] ?? []) as { key: number; value: number }[]).map(({ key, value }) => [key, value]));
  if (!counted.size) return [];
  if (kind === "flag") return [0, 1].map((from) => ({ from, to: null, rows: counted.get(from) ?? 0 }));
  const [from, to] = kind === "time" ? [record[`__f${at}`], record[`__t${at}`]] : [record[`__l${at}`], record[`__g${at}`]];
  if (kind === "number") {
    const [least, greatest] = [Number(from), Number(to)];
    if (!(greatest > least)) return [{ from: least, to: null, rows: counted.get(0) ?? 0 }];
    const edge = (number: number) => (number === BARS ? greatest : least + ((greatest - least) / BARS) * number);
    return Array.from({ length: BARS }, (_, number) => ({ from: edge(number), to: edge(number + 1), rows: counted.get(number) ?? 0 }));
  }
  const [least, greatest] = [BigInt(from as number), BigInt(to as number)];
  const width = (greatest - least + BigInt(BARS)) / BigInt(BARS);
  const number = Number((greatest - least) / width) + 1;
  const edge = (at: number) => least + width * BigInt(at);
  return Array.from({ length: number }, (_, at) => ({ from: edge(at), to: width === 1n ? null : edge(at + 1), rows: counted.get(at) ?? 0 }));
}

/** The condition of the rows of a bar; the last one has the greatest value, too. */
export function conditionOfBar({ measure, bars }: Summary, bar: Bar): string {
  const { bare, kind, type } = measure;
  const isLast = bar === bars.at(-1);
  const value = (edge: number | bigint) => {
    if (kind === "flag") return edge ? "true" : "false";
    const text = () => new Date(Number(edge)).toISOString();
    if (kind === "time") return type.endsWith("ZONE") ? `CAST('${text()}' AS ${type})` : `CAST('${text().slice(0, -1)}' AS ${type === "DATE" ? "TIMESTAMP" : type})`;
    return String(edge);
  };
  if (bar.to === null && kind !== "time") return `${bare} = ${value(bar.from)}`;
  const to = bar.to ?? BigInt(bar.from) + 1n;
  const end = kind === "number" && isLast ? "<=" : "<";
  return `${bare} >= ${value(bar.from)} AND ${bare} ${end} ${value(to)}`;
}

/** The most frequent values of a column, and one more than are shown. */
export function valuesSql(rows: string, { sql }: Measure, most: number): string {
  return `SELECT ${sql} AS value, count(*) AS rows FROM ${rows} GROUP BY ALL ORDER BY rows DESC, value LIMIT ${most + 1}`;
}
