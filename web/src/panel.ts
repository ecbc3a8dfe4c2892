// What the views besides the query share: the choice of a database, and what is shown while something loads or fails.
import { ApiError } from "./api";
import { chosen, optionsOf, schemas } from "./catalog";
import { Child, fill, h, select } from "./dom";
import { count } from "./format";
import { go } from "./route";

/** Shows what a promise gives, a note until then, and the error where it fails. */
export async function loading(element: Element, load: () => Promise<Child>, signal: AbortSignal): Promise<void> {
  element.setAttribute("aria-busy", "true");
  fill(element, h("p", { class: "note", role: "status" }, "Loading …"));
  let shown: Child;
  try {
    shown = await load();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    shown = problem(error);
  }
  if (signal.aborted) return;
  element.removeAttribute("aria-busy");
  fill(element, shown);
}

export function problem(error: ApiError): HTMLElement {
  return h("div", { class: "error", role: "alert" }, h("strong", {}, error.message), error.hint ? h("p", {}, error.hint) : null, h("p", { class: "note" }, error.code));
}

/** A view of one database: its title, the choice, and what `load` makes of it. */
export function databaseView(
  main: HTMLElement,
  view: string,
  title: string,
  about: string,
  values: URLSearchParams,
  signal: AbortSignal,
  load: (database: string) => Promise<Child>,
): void {
  const picker = h("span", { class: "picker" });
  const body = h("div", { class: "view-body" });
  fill(main, h("div", { class: "view" }, h("div", { class: "view-head" }, h("h1", {}, title), picker), h("p", { class: "about" }, about), body));
  void loading(
    body,
    async () => {
      const list = await schemas();
      const name = chosen(list, values.get("db"));
      fill(picker, select("Database", optionsOf(list, name), name ?? "", (db) => go(view, { db })));
      return name === null ? empty("There is no savepoint that can be read.") : await load(name);
    },
    signal,
  );
}

export function empty(text: string): HTMLElement {
  return h("p", { class: "empty" }, text);
}

/** A plain table. Cells are elements or text. */
export function plainTable(caption: string, head: Child[], rows: Child[][]): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      { class: "plain" },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => typeof value === "number" ? h("td", { class: "number" }, count(value)) : h("td", {}, value))))),
    ),
  );
}
