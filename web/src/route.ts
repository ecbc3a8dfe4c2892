// The address: `#/view?name=value`. It holds all that it takes to see the same again.
export interface Route {
  view: string;
  values: URLSearchParams;
}

export function route(): Route {
  const [view, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: view || "overview", values: new URLSearchParams(query) };
}

export function hashOf(view: string, values: Record<string, string | null>): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const text = new URLSearchParams(given).toString();
  return `#/${view}${text && `?${text}`}`;
}

/** Puts what is seen into the address, without going anywhere. */
export function remember(view: string, values: Record<string, string | null>): void {
  history.replaceState(null, "", hashOf(view, values));
}

export function go(view: string, values: Record<string, string | null> = {}): void {
  location.hash = hashOf(view, values);
}
