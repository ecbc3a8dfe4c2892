// What a key had in each checkpoint of a job: `POST /api/jobs/…/timeline`, and its points folded into runs.
import { post } from "./api";
import { textOf } from "./cell";
import { parse } from "./exact";

export type Fields = Record<string, unknown>;
export interface Point {
  database: string;
  checkpoint_id: number | null;
  created_at: string | null;
  rows: Fields[];
  /** Whether the rows differ from those of the checkpoint before. */
  changed: boolean;
  error: string | null;
}
export interface StateLine {
  operator: string;
  state: string;
  kind: string;
  table_name: string;
  /** Whether the key has more rows than these. */
  is_cut: boolean;
  /** The oldest first. */
  points: Point[];
}
export interface Timeline {
  job: string;
  key: string;
  states: StateLine[];
}

/** Checkpoints that follow each other and have the same. */
export interface Run {
  points: Point[];
  last: Point;
  changed: boolean;
}

const PLACE = ["namespace", "map_key", "list_index"];

/** The newest checkpoints, or all of them. */
export async function timeline(job: string, key: string, last: number | null, signal: AbortSignal): Promise<Timeline> {
  const found = await post<Timeline>(`api/jobs/${encodeURIComponent(job)}/timeline`, { key, ...(last === null ? {} : { last }) }, signal);
  for (const point of found.states.flatMap(({ points }) => points)) point.rows = point.rows.map(parsed);
  return found;
}

/** A row whose JSON texts are values. */
function parsed(row: Fields): Fields {
  return Object.fromEntries(Object.entries(row).map(([name, text]) => [name, typeof text === "string" ? parse(text) : text]));
}

export function runsOf(points: Point[]): Run[] {
  const runs: Run[] = [];
  for (const point of points) {
    const open = runs.at(-1);
    const same = open && !point.changed && point.error === open.last.error;
    if (same) {
      open.points.push(point);
      open.last = point;
    } else runs.push({ points: [point], last: point, changed: open !== undefined && point.changed });
  }
  return runs;
}

/** The one value of a checkpoint; undefined where it has none, or several entries. */
export function valueOf({ rows }: Point): unknown {
  return rows.length === 1 && PLACE.every((name) => (rows[0][name] ?? null) === null) ? rows[0].value : undefined;
}

/** Numbers to draw, null where there is none; null where the state has something else. */
export function numbersOf(points: Point[]): (number | null)[] | null {
  const values = points.map((point) => (point.rows.length ? valueOf(point) : null));
  const fits = values.every((value) => value === null || typeof value === "number" || typeof value === "bigint");
  return fits && values.filter((value) => value !== null).length > 1 ? values.map((value) => (value === null ? null : Number(value))) : null;
}

/** How many entries came, went and got another value. */
export interface Moves {
  added: number;
  removed: number;
  changed: number;
}

export function movesOf(before: Fields[], after: Fields[]): Moves {
  const of = (rows: Fields[]) => new Map(rows.map((row) => [textOf(PLACE.map((name) => row[name] ?? null)), textOf(row.value)]));
  const [old, now] = [of(before), of(after)];
  const kept = [...now].filter(([place]) => old.has(place));
  return { added: now.size - kept.length, removed: old.size - kept.length, changed: kept.filter(([place, value]) => old.get(place) !== value).length };
}

/** Where an entry stands within its state: its window, key of the map, or place in the list. */
export function placeOf(row: Fields): string {
  return PLACE.filter((name) => (row[name] ?? null) !== null)
    .map((name) => (name === "list_index" ? `#${textOf(row[name])}` : textOf(row[name])))
    .join(" · ");
}
