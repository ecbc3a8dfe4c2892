// The shell: which view is seen, and what is told when something goes wrong that nobody expected.
import "tabulator-tables/dist/css/tabulator_simple.min.css";
import "./style.css";
import { fill, h } from "./dom";
import { keysView } from "./keysview";
import { offsetsView } from "./offsetsview";
import { overviewView } from "./overview";
import { queryView } from "./queryview";
import { route } from "./route";
import { applyTheme, mountTheme } from "./theme";
import { timersView } from "./timersview";

type View = (main: HTMLElement, values: URLSearchParams, signal: AbortSignal) => void;

const VIEWS: Record<string, { title: string; show: View }> = {
  query: { title: "Query", show: queryView },
  overview: { title: "Overview", show: overviewView },
  keys: { title: "Key explorer", show: keysView },
  timers: { title: "Timers", show: timersView },
  offsets: { title: "Source offsets", show: offsetsView },
};

const main = document.getElementById("main")!;
const nav = document.getElementById("views")!;
let seen = new AbortController();

function show(): void {
  seen.abort();
  seen = new AbortController();
  const { view, values } = route();
  const { title, show: open } = VIEWS[view] ?? VIEWS.query;
  document.title = `${title} · savepointdb`;
  for (const link of nav.children) {
    if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
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
window.addEventListener("hashchange", show);
document.querySelector(".skip")!.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
applyTheme();
mountTheme(document.getElementById("theme") as HTMLButtonElement);
fill(nav, Object.entries(VIEWS).map(([name, { title }]) => h("a", { href: `#/${name}` }, title)));
show();
