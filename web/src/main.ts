// The shell: which view is seen, and what is told when something goes wrong that nobody expected.
import "tabulator-tables/dist/css/tabulator_simple.min.css";
import "./style.css";
import { SERVICE } from "./catalog";
import { checkView } from "./checkview";
import { hashOfView, keep, onKept } from "./context";
import { diffView } from "./diffview";
import { fill, h } from "./dom";
import { jobsView } from "./jobsview";
import { keysView } from "./keysview";
import { offsetsView } from "./offsetsview";
import { overviewView } from "./overview";
import { mayOperate, queriesView } from "./queriesview";
import { queryView } from "./queryview";
import { followLinks, hashOf, ROOT, route } from "./route";
import { savedView } from "./savedview";
import { tablesView } from "./tablesview";
import { tableView } from "./tableview";
import { applyTheme, mountTheme } from "./theme";
import { timelineView } from "./timelineview";
import { timersView } from "./timersview";
import { writes } from "./writes";
import { writeView } from "./writeview";

type View = (main: HTMLElement, values: URLSearchParams, signal: AbortSignal) => void;

const VIEWS: Record<string, { title: string; show: View }> = {
  jobs: { title: "Jobs", show: jobsView },
  overview: { title: "Overview", show: overviewView },
  tables: { title: "Tables", show: tablesView },
  query: { title: "Query", show: queryView },
  saved: { title: "Saved", show: savedView },
  keys: { title: "Key explorer", show: keysView },
  timeline: { title: "Timeline", show: timelineView },
  diff: { title: "Diff", show: diffView },
  timers: { title: "Timers", show: timersView },
  offsets: { title: "Source offsets", show: offsetsView },
  check: { title: "Check", show: checkView },
  write: { title: "Write", show: writeView },
  queries: { title: "Queries", show: queriesView },
};

/** Views that are entered from others, and the one that they are part of. */
const INNER: Record<string, { title: string; show: View; within: string }> = {
  table: { title: "Table", show: tableView, within: "tables" },
};

const main = document.getElementById("main")!;
const nav = document.getElementById("views")!;
let seen = new AbortController();

function show(): void {
  seen.abort();
  seen = new AbortController();
  const { view, values } = route();
  const { title, show: open } = VIEWS[view] ?? INNER[view] ?? VIEWS.overview;
  const listed = INNER[view]?.within ?? view;
  document.title = `${title} · savepointdb`;
  for (const [name, link] of links) {
    if (name === listed) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  links.get(listed)?.scrollIntoView({ block: "nearest", inline: "center" });
  keep(Object.fromEntries([...values].filter(([name, value]) => ["db", "dbs", "key"].includes(name) && value && (name !== "db" || value.toLowerCase() !== SERVICE))));
  main.scrollTop = 0;
  open(main, values, seen.signal);
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
document.querySelector(".brand")!.setAttribute("href", hashOf("overview", {}));
document.querySelector(".skip")!.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
applyTheme();
mountTheme(document.getElementById("theme") as HTMLButtonElement);
const links = new Map(Object.entries(VIEWS).map(([name, { title }]) => [name, h("a", {}, title)]));
const address = () => links.forEach((link, name) => link.setAttribute("href", hashOfView(name)));
onKept(address);
address();
fill(nav, [...links.values()]);
// Only for those who may write, here; the view itself says so, too.
links.get("write")!.hidden = true;
void writes().then(
  ({ may_write }) => (links.get("write")!.hidden = !may_write),
  () => undefined,
);
links.get("queries")!.hidden = true;
void mayOperate().then(
  (may) => (links.get("queries")!.hidden = !may),
  () => undefined,
);
// A sign at each edge behind which there is more.
const cut = () => {
  nav.classList.toggle("more-left", nav.scrollLeft > 1);
  nav.classList.toggle("more-right", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 1);
};
nav.addEventListener("scroll", cut);
new ResizeObserver(cut).observe(nav);
show();
