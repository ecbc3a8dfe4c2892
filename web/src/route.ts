// The address: it holds all that it takes to see the same again. Places have paths: `/jobs`, `/jobs/<job>`, `/db/<database>`,
// `/db/<database>/<table>?key=…`, `/query`, `/saved/<name>`. Programs read rows at `/db/…` and `/saved/…`. Behind the # stands what only
// the page knows: the part of a place and its values, `/db/<database>#timers`. Addresses of former versions, `#/view?…`, lead on.
export type Place = "jobs" | "job" | "databases" | "savepoint" | "table" | "query" | "savedList" | "saved" | "running" | "old";
export interface Route {
  place: Place;
  /** The part of the place, or the view of an old address; empty for the first. */
  part: string;
  values: URLSearchParams;
}

/** The folder of the service, which a proxy may have given another name. */
export const ROOT = new URL("..", import.meta.url);
const BASE = ROOT.pathname;
const PLACES = ["jobs", "db", "query", "saved"];
const FORMAT = /\.(?=(json|jsonl|csv|arrow|arrows|parquet)$)/;
/** The names between the slashes of a link, as JSON. */
const PLACE = "place";

export function route(): Route {
  const { pathname, search, hash } = location;
  const [part, text = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  if (hash.startsWith("#/")) return { place: "old", part, values: new URLSearchParams(text) };
  const [first, ...names] = pathname.slice(BASE.length).split("/");
  const within = new URLSearchParams(text);
  if (first === "db") return linked(names.map(decoded), new URLSearchParams(search), part, within);
  if (first === "jobs" && names[0]) return { place: "job", part, values: merged(within, { job: names.map(decoded).join("/") }) };
  if (first === "saved" && names[0]) return { place: "saved", part: "", values: new URLSearchParams({ name: decoded(names.join("/")), given: search.slice(1) }) };
  if (first === "query") return { place: names[0] === "saved" ? "savedList" : names[0] === "running" ? "running" : "query", part: "", values: new URLSearchParams(hash.slice(1)) };
  return { place: first === "saved" ? "savedList" : "jobs", part: "", values: new URLSearchParams(hash.slice(1)) };
}

function linked(names: string[], values: URLSearchParams, part: string, within: URLSearchParams): Route {
  if (values.has("sql")) return { place: "query", part: "", values: new URLSearchParams({ db: names.join("/"), sql: values.get("sql")!, run: "1" }) };
  if (!names[0]) return { place: "databases", part: "", values };
  if (names.length === 1) return { place: "savepoint", part, values: merged(within, { db: names[0] }) };
  values.set(PLACE, JSON.stringify(names));
  // Of more names than two only the service knows which are the database.
  if (names.length === 2) values.set("db", names[0]);
  return { place: "table", part: "", values };
}

function merged(values: URLSearchParams, more: Record<string, string>): URLSearchParams {
  for (const [name, value] of Object.entries(more)) values.set(name, value);
  return values;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function coded(name: string): string {
  return encodeURIComponent(name).replaceAll(/['()!*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
}

/** The names between the slashes of the link that is seen. */
export function placeOf(values: URLSearchParams): string[] {
  return JSON.parse(values.get(PLACE) ?? '[""]') as string[];
}

type Values = Record<string, string | null | undefined>;

/** Names and values as an address has them; empty ones are left out, but for those of which the empty text is a value. */
function text(values: Values, mayBeEmpty = ""): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1]) || (entry[0] === mayBeEmpty && entry[1] === ""));
  return new URLSearchParams(given).toString();
}

function query(values: Values, mayBeEmpty = ""): string {
  const found = text(values, mayBeEmpty);
  return found && `?${found}`;
}

function within(part: string, values: Values): string {
  const found = part + query(values);
  return found && `#${found}`;
}

/** All jobs; with a key, what they have of it. */
export function jobsLink(values: Values = {}): string {
  const found = text(values);
  return `${BASE}jobs${found && `#${found}`}`;
}

/** A job, or a part of its page. */
export function jobLink(job: string, part = "", values: Values = {}): string {
  return `${BASE}jobs/${coded(job)}${within(part, values)}`;
}

/** A part of the page of a savepoint. */
export function partLink(database: string, part = "", values: Values = {}): string {
  return linkOf(database) + within(part, values);
}

/** What databases have of a key, side by side; the page is that of the last. */
export function keysLink(dbs: string, key: string): string {
  return partLink(dbs.split("\n").at(-1)!, "keys", { key, dbs: dbs.includes("\n") ? dbs : null });
}

export function queryLink(values: Values = {}): string {
  const found = text(values);
  return `${BASE}query${found && `#${found}`}`;
}

export const SAVED_LINK = `${BASE}query/saved`;
export const RUNNING_LINK = `${BASE}query/running`;

/** The address of a saved query with the texts of its parameters; a format is that of a file with the rows. */
export function linkOfSaved(name: string, given: Record<string, string> = {}, format = ""): string {
  const found = new URLSearchParams(given).toString();
  return `${BASE}saved/${encodeURIComponent(name)}${format && `.${format}`}${found && `?${found}`}`;
}

/** The address of all databases, of one, of a table or of some of its rows; a format is that of a file with the rows. */
export function linkOf(database?: string | null, table?: string | null, values: Values = {}, format = ""): string {
  const names = [database, table].filter((name): name is string => Boolean(name));
  const path = [`${BASE}db`, ...names.map(coded)].join("/");
  // A dot with an escape is part of the name, and begins no format.
  return `${format ? `${path}.${format}` : path.replace(FORMAT, "%2E")}${query(values, "key")}`;
}

/** Puts what is seen into the address, without going anywhere. */
export function remember(address: string): void {
  history.replaceState(null, "", address);
}

/** Shows what is at an address of this page. */
export function visit(address: string): void {
  if (new URL(address, location.href).href !== location.href) history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Shows what links of this page lead to, without loading the page again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const { origin, pathname } = new URL(link.href);
    if (link.target || link.hasAttribute("download") || origin !== location.origin || FORMAT.test(pathname)) return;
    if (pathname !== BASE && !(pathname.startsWith(BASE) && PLACES.includes(pathname.slice(BASE.length).split("/")[0]))) return;
    event.preventDefault();
    visit(link.href);
  });
}
