// Savepoints that the service writes: what a script would do, and the doing.
import { ApiError, get, post, remove } from "./api";
import type { Severity } from "./checks";

export interface Sample {
  place: Record<string, string>;
  before: Record<string, string> | null;
  after: Record<string, string> | null;
}
export interface Effect {
  table: string;
  text: string;
  changed: number;
  added: number;
  removed: number;
  key_groups: number;
  samples: Sample[];
}
export interface Report {
  statements: Effect[];
  offsets: { operator: string; split: string; before: number | bigint | null; after: number | bigint }[];
  rows: number;
  /** What a restore does with the new savepoint; null for a preview. */
  check: { verdict: Severity; headline: string; advice: string; findings: { severity: Severity; operator: string | null; state: string | null; message: string; remedy: string }[] } | null;
  summary: { operators: number; files: number; file_bytes: number; metadata_bytes: number; warnings: string[] };
}
export interface Write {
  id: string;
  state: "queued" | "running" | "finished" | "failed" | "cancelled";
  /** The database to write from; null if the savepoint is made from nothing. */
  source: string | null;
  target: string | null;
  /** The name of the new database. */
  database: string | null;
  dry_run: boolean;
  created: number;
  elapsed_ms: number;
  progress: { phase: "starting" | "reading" | "writing"; statements: number; statements_done: number; files: number; bytes_written: number };
  report: Report | null;
  error: { code: string; message: string; hint?: string; position?: { line: number; column: number } } | null;
}
export interface Writes {
  may_write: boolean;
  write_roots: string[];
  writes: Write[];
}
export interface Order {
  source: string;
  target?: string;
  sql: string;
  dry_run: boolean;
  files: string;
  expect?: Record<string, number>;
}

const FIRST_LOOK_MS = 120;
const SLOWEST_LOOK_MS = 1000;

export function writes(signal?: AbortSignal): Promise<Writes> {
  return get<Writes>("api/savepoints", signal);
}

let may: Promise<boolean> | null = null;

/** Whether this user may write here: asked once. */
export function mayWrite(): Promise<boolean> {
  may ??= writes().then(({ may_write }) => may_write, () => false);
  return may;
}

/** A write, or a dry run, from its order to its end. */
export class WriteRun {
  private id: string | null = null;
  private cancelled = false;

  constructor(
    private readonly order: Order,
    private readonly onProgress: (write: Write) => void,
  ) {}

  /** How it ended, with its report; `ApiError` where it failed or was cancelled. */
  async ended(): Promise<Write> {
    let write = await post<Write>("api/savepoints", this.order);
    this.id = write.id;
    if (this.cancelled) void remove(this.address).catch(() => undefined);
    for (let pause = FIRST_LOOK_MS; write.state === "queued" || write.state === "running"; pause = Math.min(pause * 1.5, SLOWEST_LOOK_MS)) {
      this.onProgress(write);
      await new Promise((resolve) => setTimeout(resolve, pause));
      write = await get<Write>(this.address);
    }
    if (write.error) throw new ApiError(write.error, 0);
    return write;
  }

  cancel(): void {
    this.cancelled = true;
    if (this.id !== null) void remove(this.address).catch(() => undefined);
  }

  private get address(): string {
    return `api/savepoints/${this.id}`;
  }
}

/** Table → how many of its rows a preview changes: the write is to change as many, or none. */
export function expected({ statements }: Report): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { table, changed, added, removed } of statements) found[table] = (found[table] ?? 0) + changed + added + removed;
  return found;
}
