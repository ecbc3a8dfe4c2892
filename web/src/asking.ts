// Queries: those of people, with progress and an end on request, and the page's own.
import { Answer, ApiError, get, post, remove, request, Status, Unread } from "./api";
import { OWN } from "./sql";

/** How the page asks for what it shows: whether what cannot be read may be left out, and what was. */
export interface Reading {
  signal?: AbortSignal;
  partial: boolean;
  lacking: Unread[];
}

export function reading(signal?: AbortSignal, partial = false): Reading {
  return { signal, partial, lacking: [] };
}

/** The rows of a query that the page itself asks. */
export async function ask(sql: string, how: Reading = reading()): Promise<Answer> {
  const answer = await post<Answer>("api/query", { sql: OWN + sql, allow_partial: how.partial }, how.signal);
  how.lacking.push(...(answer.incomplete ?? []));
  return answer;
}

/** As objects by the name of the column. */
export async function records<T>(sql: string, how?: Reading): Promise<T[]> {
  return recordsOf(await ask(sql, how));
}

export function recordsOf<T>(answer: Answer): T[] {
  const names = answer.columns.map((column) => column.name);
  return answer.rows.map((row) => Object.fromEntries(names.map((name, number) => [name, row[number]])) as T);
}

export interface Question {
  sql: string;
  database: string | null;
  /** Whether what cannot be read is left out of the answer, which says so. */
  allow_partial: boolean;
  /** The texts for `:name` in the statement. */
  parameters?: Record<string, string>;
}

const FIRST_LOOK_MS = 120;
const SLOWEST_LOOK_MS = 1000;

/** A query of a person's. */
export class Run {
  readonly started = performance.now();
  private readonly stopped = new AbortController();
  private id: string | null = null;
  private done = false;

  constructor(
    private readonly question: Question,
    private readonly onProgress: (status: Status) => void,
  ) {}

  /** Its rows; `ApiError` of code CANCELLED after `cancel`. */
  async answer(): Promise<Answer> {
    const { signal } = this.stopped;
    try {
      const { query_id } = await post<Status>("api/queries", { ...this.question }, signal);
      this.id = query_id;
      if (signal.aborted) void remove(this.address).catch(() => undefined);
      void this.watch();
      return await get<Answer>(`${this.address}/result`, signal);
    } finally {
      this.done = true;
    }
  }

  cancel(): void {
    if (this.id !== null && !this.done) void remove(this.address).catch(() => undefined);
    this.stopped.abort();
  }

  private get address(): string {
    return `api/queries/${this.id}`;
  }

  private async watch(): Promise<void> {
    for (let pause = FIRST_LOOK_MS; ; pause = Math.min(pause * 1.5, SLOWEST_LOOK_MS)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (this.done) return;
      try {
        const status = await get<Status>(this.address, this.stopped.signal);
        if (!this.done) this.onProgress(status);
      } catch (error) {
        // Only the result tells how a query ended; progress is a courtesy.
        if (!(error instanceof ApiError)) throw error;
      }
    }
  }
}

export const FORMATS = {
  csv: { name: "CSV", accept: "text/csv; formulas=escape" },
  jsonl: { name: "JSON lines", accept: "application/jsonl" },
  parquet: { name: "Parquet", accept: "application/vnd.apache.parquet" },
  arrow: { name: "Arrow", accept: "application/vnd.apache.arrow.stream" },
} as const;
export type FormatName = keyof typeof FORMATS;

/** All rows of a query as a file. */
export async function exported(question: Question, format: FormatName): Promise<Blob> {
  const response = await request("POST", "api/query", { body: question, accept: FORMATS[format].accept });
  try {
    return await response.blob();
  } catch {
    throw new ApiError({ code: "UNREACHABLE", message: "The file broke off.", hint: "Try again." }, 0);
  }
}
