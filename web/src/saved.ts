// Saved queries, as the service lists them: names, parameters, addresses.
import { Answer, ApiError, get, remove, request } from "./api";
import { FormatName, FORMATS } from "./asking";
import { linkOfSaved } from "./route";

export interface SavedParameter {
  name: string;
  type: "text" | "integer" | "number" | "boolean" | "date" | "timestamp";
  /** Null where somebody must give a value. */
  default: string | null;
}
export interface SavedQuery {
  name: string;
  sql: string;
  description: string;
  database: string | null;
  dialect: string;
  parameters: SavedParameter[];
  may_change: boolean;
  saved_by?: string | null;
  saved_at?: string | null;
}
export interface SavedList {
  may_save: boolean;
  queries: SavedQuery[];
}
export const TYPES: SavedParameter["type"][] = ["text", "integer", "number", "boolean", "date", "timestamp"];

export type Given = Record<string, string>;

export function savedQueries(signal?: AbortSignal): Promise<SavedList> {
  return get<SavedList>("api/saved", signal);
}

export function savedQuery(name: string, signal?: AbortSignal): Promise<SavedQuery> {
  return get<SavedQuery>(`api/saved/${encodeURIComponent(name)}`, signal);
}

export function rowsOf(name: string, given: Given, signal: AbortSignal): Promise<Answer> {
  return get<Answer>(linkOfSaved(name, given, "json"), signal);
}

/** All rows as a file. */
export async function fileOf(name: string, given: Given, format: FormatName): Promise<Blob> {
  const own: Given = format === "csv" ? { _formulas: "escape" } : {};
  const response = await request("GET", linkOfSaved(name, { ...given, ...own }, format), { accept: FORMATS[format].accept });
  try {
    return await response.blob();
  } catch {
    throw new ApiError({ code: "UNREACHABLE", message: "The file broke off.", hint: "Try again." }, 0);
  }
}

export async function put({ name, sql, description, database, dialect, parameters }: SavedQuery, isNew: boolean): Promise<SavedQuery> {
  const body = { sql, description, database, dialect, parameters: Object.fromEntries(parameters.map((one) => [one.name, { type: one.type, default: one.default }])) };
  const response = await request("PUT", `api/saved/${encodeURIComponent(name)}`, { body, isNew });
  return (await response.json()) as SavedQuery;
}

export function drop(name: string): Promise<void> {
  return remove(`api/saved/${encodeURIComponent(name)}`);
}

/** What is missing before it can run. */
export function missing({ parameters }: SavedQuery, given: Given): string[] {
  return parameters.filter((one) => one.default === null && !(one.name in given)).map((one) => one.name);
}
