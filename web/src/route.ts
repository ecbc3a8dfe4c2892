// The address: it holds all that it takes to see the same again. Views stand behind `#/view?name=value`; databases, tables and keys
// have addresses that programs read, too: `/db/database/table?key=…`, and so have saved queries: `/saved/name?key=…`.
export interface Route {
  view: string;
  values: URLSearchParams;
}

/** The folder of the service, which a proxy may have given another name. */
export const ROOT = new URL("..", import.meta.url);
const LINKS = `${ROOT.pathname}db`;
const SAVED = `${ROOT.pathname}saved/`;
const FORMAT = /\.(?=(json|jsonl|csv|arrow|arrows|parquet)$)/;
/** The names between the slashes of a link, as JSON. */
const PLACE = "place";

export function route(): Route {
  const { pathname, search, hash } = location;
  if (isLink(pathname) && !hash.startsWith("#/")) return linked(pathname.slice(LINKS.length + 1), new URLSearchParams(search));
  if (pathname.startsWith(SAVED) && !hash.startsWith("#/")) return { view: "saved", values: new URLSearchParams({ name: decoded(pathname.slice(SAVED.length)), given: search.slice(1) }) };
  const [view, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: view || "overview", values: new URLSearchParams(query) };
}

function isLink(path: string): boolean {
  return path === LINKS || path.startsWith(`${LINKS}/`);
}

/** The address of a saved query with the texts of its parameters; a format is that of a file with the rows. */
export function linkOfSaved(name: string, given: Record<string, string> = {}, format = ""): string {
  const text = new URLSearchParams(given).toString();
  return `${SAVED}${encodeURIComponent(name)}${format && `.${format}`}${text && `?${text}`}`;
}

function linked(path: string, values: URLSearchParams): Route {
  const names = path.split("/").map(decoded);
  if (values.has("sql")) return { view: "query", values: new URLSearchParams({ db: names.join("/"), sql: values.get("sql")!, run: "1" }) };
  const inTable = names.length > 1;
  values.set(PLACE, JSON.stringify(names));
  // Of more names than two only the service knows which are the database.
  if (names[0] && names.length < 3) values.set("db", names[0]);
  return { view: inTable ? "table" : "tables", values };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The names between the slashes of the link that is seen. */
export function placeOf(values: URLSearchParams): string[] {
  return JSON.parse(values.get(PLACE) ?? '[""]') as string[];
}

type Values = Record<string, string | null | undefined>;

/** Names and values behind the question mark; empty ones are left out, but for those of which the empty text is a value. */
function query(values: Values, mayBeEmpty = ""): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1]) || (entry[0] === mayBeEmpty && entry[1] === ""));
  const text = new URLSearchParams(given).toString();
  return text && `?${text}`;
}

export function hashOf(view: string, values: Values): string {
  return `${ROOT.pathname}#/${view}${query(values)}`;
}

/** The address of all databases, of one, of a table or of some of its rows; a format is that of a file with the rows. */
export function linkOf(database?: string | null, table?: string | null, values: Values = {}, format = ""): string {
  const names = [database, table].filter((name): name is string => Boolean(name));
  const path = [LINKS, ...names.map((name) => encodeURIComponent(name).replaceAll(/['()!*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`))].join("/");
  // A dot with an escape is part of the name, and begins no format.
  return `${format ? `${path}.${format}` : path.replace(FORMAT, "%2E")}${query(values, "key")}`;
}

/** Puts what is seen into the address, without going anywhere. */
export function remember(view: string, values: Values): void {
  history.replaceState(null, "", hashOf(view, values));
}

export function go(view: string, values: Values = {}): void {
  visit(hashOf(view, values));
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
    if (pathname !== ROOT.pathname && !isLink(pathname) && !pathname.startsWith(SAVED)) return;
    event.preventDefault();
    visit(link.href);
  });
}
