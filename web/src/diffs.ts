// What differs between two savepoints: `POST /api/diff` as a summary, and SQL's `diff(…)` for the rows of one table.
import { post } from "./api";
import { literal } from "./sql";

export type Change = "same" | "added" | "removed" | "changed";
export interface StateDiff {
  state_name: string;
  table_name: string | null;
  change: Change;
  type_before: string | null;
  type_after: string | null;
  added: number | null;
  removed: number | null;
  changed: number | null;
  rows_before: number | null;
  rows_after: number | null;
  size_before: number | null;
  size_after: number | null;
  error: string | null;
}
export interface OperatorDiff {
  operator_id: string;
  name: string;
  change: Change;
  states: StateDiff[];
}
/** A position of a source that moved. */
export interface OffsetDiff {
  operator: string;
  topic: string | null;
  partition: number | string | null;
  before: number | bigint | null;
  after: number | bigint | null;
}
export interface DiffSummary {
  before: string;
  after: string;
  is_equal: boolean;
  operators: OperatorDiff[];
  offsets: OffsetDiff[];
  /** Bytes of all states. */
  sizes: { before: number | null; after: number | null };
}

export function diff(before: string, after: string, signal: AbortSignal): Promise<DiffSummary> {
  return post<DiffSummary>("api/diff", { before, after }, signal);
}

/** The query of the rows of a table that differ. */
export function rowsSql(before: string, after: string, table: string, condition: string): string {
  return `SELECT *\nFROM diff(${[before, after, table].map(literal).join(", ")})${condition && `\nWHERE ${condition}`}`;
}
