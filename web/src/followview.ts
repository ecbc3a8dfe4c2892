// What each new checkpoint of a job changes in a state, as it comes: a table that updates itself.
import { ApiError, request } from "./api";
import { contents } from "./catalog";
import { record } from "./cell";
import { fill, h, select } from "./dom";
import { parse } from "./exact";
import { moment, plural } from "./format";
import { newestIn } from "./jobs";
import type { OfJob } from "./jobview";
import { empty, plainTable, problem, skeleton } from "./panel";
import { jobLink, remember } from "./route";

/** So many rows are shown, the newest; the stream has all of them. */
const MOST = 200;
/** The service says something at least every 15 s. */
const SILENCE_MS = 60_000;
const AGAIN_MS = 2_000;

/** A line of the stream: a row, what is to be known before the rows of a checkpoint, its end, or why the stream ends. */
interface Told {
  change?: string;
  reason?: string;
  reset?: number;
  checkpoint?: number;
  rows?: number;
  token?: string;
  error?: { code: string; message: string; hint?: string };
}
type Row = Record<string, unknown> & { checkpoint_id: number; checkpoint_at: string | null; change: string };

export function followView(body: HTMLElement, { job }: OfJob, values: URLSearchParams, signal: AbortSignal): void {
  const newest = newestIn(job);
  if (!newest) return fill(body, empty("No checkpoint of this job can be read, so nothing can be followed."));
  fill(body, skeleton());
  void contents(newest.name).then(
    ({ states }) => {
      if (signal.aborted) return;
      const tables = [...new Set(states.map((state) => state.table_name).filter((name) => name !== null))].sort();
      if (!tables.length) return fill(body, empty("This job has no state."));
      const asked = values.get("table");
      follow(body, job.name, tables, asked !== null && tables.includes(asked) ? asked : tables[0], signal);
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(body, problem(error));
    },
  );
}

function follow(body: HTMLElement, job: string, tables: string[], first: string, signal: AbortSignal): void {
  const status = h("p", { class: "about", role: "status" });
  const holder = h("div", {});
  let reading = new AbortController();
  signal.addEventListener("abort", () => reading.abort());
  const begin = (table: string) => {
    reading.abort();
    reading = new AbortController();
    remember(jobLink(job, "follow", { table }));
    fill(holder, empty("Nothing has changed yet. What the next checkpoint changes appears here."));
    void read(job, table, status, holder, reading.signal);
  };
  const options = tables.map((value) => ({ value, text: value }));
  fill(body, h("div", { class: "filters" }, select("State", options, first, begin)), status, holder);
  begin(first);
}

async function read(job: string, table: string, status: HTMLElement, holder: HTMLElement, signal: AbortSignal): Promise<void> {
  let rows: Row[] = [];
  let since = "latest";
  while (!signal.aborted) {
    let pending: Row[] = [];
    try {
      status.textContent = `Following ${table}: waiting for the next checkpoint.`;
      for await (const told of stream(job, table, since, signal)) {
        if (told.error) throw new ApiError(told.error, 0);
        if (told.reset !== undefined) rows = [];
        if (told.change !== undefined) {
          if (pending.length < MOST) pending.push(told as unknown as Row);
        } else if (told.token !== undefined) {
          // Rows count once their checkpoint is whole.
          rows = [...pending, ...rows].slice(0, MOST);
          pending = [];
          since = told.token;
          status.textContent = `Following ${table}: checkpoint ${told.checkpoint} changed ${plural(told.rows ?? 0, "row")}.`;
          if (rows.length) fill(holder, shown(rows));
        } else status.textContent = `Following ${table}: ${told.reason}.`;
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (signal.aborted) return;
      if (error.code !== "UNREACHABLE" && error.code !== "SERVICE_ENDING") return fill(status, problem(error));
      status.textContent = `${error.message} It is asked again.`;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** What the service sends, line by line. */
async function* stream(job: string, table: string, since: string, signal: AbortSignal): AsyncGenerator<Told> {
  const path = `api/jobs/${encodeURIComponent(job)}/changes?${new URLSearchParams({ table, since }).toString()}`;
  const answer = await request("GET", path, { accept: "application/jsonl", signal });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { done, value } = await within(reader.read(), reader);
    if (done) return;
    const lines = (left + value).split("\n");
    left = lines.pop()!;
    for (const line of lines) if (line) yield parse(line) as Told;
  }
}

async function within<T>(read: Promise<T>, reader: ReadableStreamDefaultReader<string>): Promise<T> {
  const late = setTimeout(() => void reader.cancel(), SILENCE_MS);
  try {
    return await read;
  } catch {
    throw new ApiError({ code: "UNREACHABLE", message: "The stream broke off." }, 0);
  } finally {
    clearTimeout(late);
  }
}

function shown(rows: Row[]): HTMLElement {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !["checkpoint_id", "checkpoint_at", "change"].includes(name) && rows.some((row) => row[name] !== null && row[name] !== undefined));
  return plainTable(
    "Changes, the newest first",
    ["Checkpoint", "Change", ...names],
    rows.map((row) => [
      h("span", { class: "nowrap", title: row.checkpoint_at ?? "" }, `chk-${row.checkpoint_id} `, h("small", { class: "note" }, row.checkpoint_at ? moment(row.checkpoint_at) : "")),
      row.change,
      ...names.map((name) => record(row[name] ?? null, name, name.endsWith("_after") ? row[name.replace(/_after$/, "_before")] : undefined)),
    ]),
  );
}
