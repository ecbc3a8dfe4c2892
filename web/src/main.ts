// The shell: which place is seen, and what is told when something goes wrong that nobody expected.
import "tabulator-tables/dist/css/tabulator_simple.min.css";
import "./style.css";
import { ApiError } from "./api";
import { schemas, SERVICE } from "./catalog";
import { keep } from "./context";
import { fill, h } from "./dom";
import { jobsView } from "./jobsview";
import { jobView } from "./jobview";
import { moved } from "./moved";
import { mountPalette } from "./palette";
import { problem, skeleton } from "./panel";
import { where } from "./place";
import { queriesView } from "./queriesview";
import { followLinks, jobsLink, Place, queryLink, remember, ROOT, route } from "./route";
import { savepointView } from "./savepointview";
import { databasesView } from "./tablesview";
import { tableView } from "./tableview";
import { applyTheme, mountTheme } from "./theme";

type View = (main: HTMLElement, values: URLSearchParams, signal: AbortSignal, part: string) => void | Promise<void>;

const VIEWS: Record<Place, View> = {
  jobs: jobsView,
  job: (main, values, signal, part) => jobView(main, part, values, signal),
  databases: (main, _values, signal) => databasesView(main, signal),
  savepoint: (main, values, signal, part) => savepointView(main, part, values, signal),
  table: tableView,
  // The editor is large, and the other places do without it.
  query: async (main, values, signal) => {
    where([["Query", null]]);
    const { queryView } = await import("./queryview");
    if (!signal.aborted) queryView(main, values, signal);
  },
  saved: savedPlace,
  savedList: savedPlace,
  running: (main, _values, signal) => queriesView(main, signal),
  old: async (main, values, signal, part) => {
    fill(main, h("div", { class: "view" }, skeleton()));
    // What an address names needs no list; where there is none, the view says why.
    const list = await schemas().catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(main, h("div", { class: "view" }, problem(error)));
      return null;
    });
    if (signal.aborted || list === null) return;
    remember(moved(part, values, list));
    show();
  },
};

async function savedPlace(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): Promise<void> {
  const { savedView } = await import("./savedview");
  if (!signal.aborted) savedView(main, values, signal);
}

const main = document.getElementById("main")!;
const places = document.getElementById("places")!;
let seen = new AbortController();

function show(): void {
  seen.abort();
  seen = new AbortController();
  const { place, part, values } = route();
  for (const [name, link] of links) {
    if ((place === "query" || place === "saved" || place === "savedList" || place === "running") === (name === "query")) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  keep(Object.fromEntries([...values].filter(([name, value]) => ["db", "dbs", "key"].includes(name) && value && (name !== "db" || value.toLowerCase() !== SERVICE))));
  main.scrollTop = 0;
  main.dataset.place = place;
  void VIEWS[place](main, values, seen.signal, part);
}

function unexpected(error: unknown): void {
  const told = error instanceof Error ? error.message : String(error);
  main.prepend(h("div", { class: "error", role: "alert" }, h("strong", {}, "The page failed"), h("p", {}, told), h("button", { type: "button", onclick: () => location.reload() }, "Load it again")));
}

window.addEventListener("error", (event) => {
  // Browsers tell so that an observer was late by a frame.
  if (!event.message.startsWith("ResizeObserver")) unexpected(event.error ?? event.message);
});
window.addEventListener("unhandledrejection", (event) => unexpected(event.reason));
window.addEventListener("popstate", () => {
  show();
  // The link that was followed may be gone.
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
});
followLinks();
// Browsers ask for the icon again when the address changes, and would look beside it.
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]')!;
icon.href = new URL("static/icon.svg", ROOT).href;
document.querySelector(".brand")!.setAttribute("href", ROOT.pathname);
document.querySelector(".skip")!.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
applyTheme();
mountTheme(document.getElementById("theme") as HTMLButtonElement);
mountPalette(document.getElementById("find") as HTMLButtonElement);
const links = new Map([
  ["jobs", h("a", { href: jobsLink() }, "Jobs")],
  ["query", h("a", { href: queryLink() }, "Query")],
]);
fill(places, [...links.values()]);
show();
