// The one place where the page talks to the service: headers, the key of an API, errors.
import { parse } from "./exact";
import { askForKey } from "./login";
import { awaited } from "./readiness";
import { ROOT } from "./route";

export interface Position {
  line: number;
  column: number;
}
export interface Column {
  name: string;
  type: string;
}
export interface Source {
  name: string;
  checkpoint_id: number;
  path: string;
}
/** A file that an answer has no rows of. */
export interface Unread {
  table: string;
  message: string;
}
export interface Answer {
  query_id: string;
  columns: Column[];
  rows: unknown[][];
  row_count: number;
  truncated: boolean;
  engine: string;
  engine_reason: string;
  elapsed_ms: number;
  bytes_read: number;
  databases: Source[];
  /** What the answer lacks, where it was allowed to. */
  incomplete?: Unread[] | null;
  /** What the service assumed, such as which savepoint `latest` is. */
  warnings?: string[] | null;
}
export interface Status {
  query_id: string;
  state: "queued" | "running" | "finished" | "failed" | "cancelled";
  sql: string;
  /** The one of tables without a database, as it was asked. */
  database: string | null;
  /** The ones that were read. */
  databases: Source[];
  incomplete: Unread[];
  created: number;
  elapsed_ms: number;
  row_count: number;
  progress: {
    bytes_read: number;
    bytes_total: number;
    rows_read: number | null;
    splits_read: number | null;
    splits_total: number | null;
  };
  error: { code: string; message: string } | null;
}
interface Told {
  code: string;
  message: string;
  hint?: string;
  position?: Position;
}
interface Options {
  body?: unknown;
  /** A file as the body, in place of JSON. */
  file?: Blob;
  accept?: string;
  /** Whether nothing may be there yet. */
  isNew?: boolean;
  signal?: AbortSignal;
}

export class ApiError extends Error {
  readonly code: string;
  readonly hint?: string;
  readonly position?: Position;

  constructor(
    told: Told,
    readonly status: number,
  ) {
    super(told.message);
    this.code = told.code;
    this.hint = told.hint;
    this.position = told.position;
  }
}

const UNREADABLE = new Set(["MISSING_FILE", "CORRUPT_SAVEPOINT", "UNREADABLE_SAVEPOINT", "UNSUPPORTED_VERSION", "UNSUPPORTED_SERIALIZER", "UNSUPPORTED_STATE", "PATH_OUTSIDE_ROOT", "STORAGE_ERROR", "STORAGE_ACCESS_DENIED", "SAVEPOINT_CHANGED"]);

/** Whether an answer without the files that cannot be read may be had. */
export function mayLeaveOut(code: string): boolean {
  return UNREADABLE.has(code);
}

/** The same error of a text that a prefix was put before. */
export function without(error: ApiError, prefix: string): ApiError {
  const { code, message, hint, position } = error;
  if (!position || position.line !== 1) return error;
  return new ApiError({ code, message, hint, position: { line: 1, column: Math.max(1, position.column - prefix.length) } }, error.status);
}

const KEY = "savepointdb.key";

/** Whether the service has asked this tab for a key. */
export function hasKey(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

/** The answer to a request. A 401 asks for a key, keeps it until the tab is closed, and tries again. */
export async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  for (let refused = false; ; refused = true) {
    const response = await once(method, path, options);
    if (response.status !== 401) {
      if (!response.ok) throw await errorOf(response);
      return response;
    }
    const key = await askForKey(refused);
    if (key === null) throw await errorOf(response);
    sessionStorage.setItem(KEY, key);
  }
}

async function once(method: string, path: string, { body, file, accept, isNew, signal }: Options): Promise<Response> {
  // So named, a refusal challenges nobody: the browser would ask for a password before this page can ask for a key.
  const headers = new Headers({ Accept: accept ?? "application/json", "X-Requested-With": "savepointdb" });
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  if (isNew) headers.set("If-None-Match", "*");
  if (body !== undefined) headers.set("Content-Type", "application/json");
  if (file) headers.set("Content-Type", "application/octet-stream");
  const content = file ?? (body === undefined ? undefined : JSON.stringify(body));
  try {
    return await awaited(fetch(new URL(path, ROOT), { method, headers, body: content, signal, credentials: "same-origin", cache: "no-store" }));
  } catch (error) {
    if (signal?.aborted) throw new ApiError({ code: "CANCELLED", message: "The request was cancelled." }, 0);
    const hint = "Is it running, and the network up? Try again.";
    throw new ApiError({ code: "UNREACHABLE", message: "The service does not answer.", hint }, 0);
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as { error: Told };
    return new ApiError(error, response.status);
  } catch {
    return new ApiError({ code: `HTTP_${response.status}`, message: `The service answered ${response.status}.` }, response.status);
  }
}

async function text(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch {
    throw new ApiError({ code: "UNREACHABLE", message: "The answer broke off.", hint: "Try again." }, 0);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return parse(await text(await request("GET", path, { signal }))) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return parse(await text(await request("POST", path, { body, signal }))) as T;
}

export async function send<T>(path: string, file: Blob, signal?: AbortSignal): Promise<T> {
  return parse(await text(await request("POST", path, { file, signal }))) as T;
}

export async function remove(path: string): Promise<void> {
  await request("DELETE", path);
}
