// What places share: plain tables, and what is shown while something loads or fails.
import { ApiError, mayLeaveOut, Unread } from "./api";
import { Reading, reading } from "./asking";
import { Child, fill, h } from "./dom";
import { count } from "./format";

/** Shows what a promise gives, a note until then, and the error where it fails; what cannot be read is left out on request. */
export async function loading(element: Element, load: (how: Reading) => Promise<Child>, signal: AbortSignal, partial = false): Promise<void> {
  const how = reading(signal, partial);
  element.setAttribute("aria-busy", "true");
  fill(element, skeleton());
  let shown: Child;
  try {
    shown = await load(how);
    shown = [lackingBox(how.lacking), shown];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    shown = problem(error, partial ? undefined : () => void loading(element, load, signal, true));
  }
  if (signal.aborted) return;
  element.removeAttribute("aria-busy");
  fill(element, shown);
}

/** An error; `withoutThem` asks again for what is left without the files that cannot be read, where that may help. */
export function problem(error: ApiError, withoutThem?: () => void): HTMLElement {
  return h(
    "div",
    { class: "error", role: "alert" },
    h("strong", {}, error.message),
    error.hint ? h("p", {}, error.hint) : null,
    withoutThem && mayLeaveOut(error.code) ? leaveOutButton(withoutThem) : null,
    h("p", { class: "note" }, error.code),
  );
}

export function leaveOutButton(withoutThem: () => void): HTMLElement {
  return h("p", {}, h("button", { type: "button", onclick: withoutThem }, "Answer without what cannot be read"));
}

const MOST_TABLES = 5;

/** What an answer lacks: each reason once, and the tables whose rows are missing. */
export function lackingBox(lacking: Unread[]): HTMLElement | null {
  if (!lacking.length) return null;
  const reasons = [...Map.groupBy(lacking, ({ message }) => message)].map(([message, own]) => {
    const tables = [...new Set(own.map((one) => one.table))];
    const more = tables.length > MOST_TABLES ? ` and ${count(tables.length - MOST_TABLES)} more` : "";
    return h("li", {}, message, h("br"), h("span", { class: "note" }, `Rows are missing in ${tables.slice(0, MOST_TABLES).join(", ")}${more}.`));
  });
  return h("div", { class: "error", role: "alert" }, h("strong", {}, "This answer is incomplete"), h("ul", {}, reasons));
}

/** What stands where something will be. */
export function skeleton(): HTMLElement {
  return h("div", { class: "skeleton", role: "status" }, h("span", { class: "unseen" }, "Loading …"), h("i"), h("i"), h("i"), h("i"));
}

/** Says that newer savepoints than the one that is seen cannot be read. */
export function skippedNote(skipped: { name: string; error: string }[], name: string | null): HTMLElement | null {
  if (!skipped.length) return null;
  return h("div", { class: "banner", role: "note" }, skipped.map((one) => h("div", {}, `${one.name} is newer than ${name}, but cannot be read: ${one.error}`)));
}

export function empty(text: string): HTMLElement {
  return h("p", { class: "empty" }, text);
}

/** Whether a cell is a number, or an element that begins with one. */
function isNumeric(value: Child): boolean {
  if (!(value instanceof Element)) return typeof value === "number";
  return value.matches(".number") || (value.firstElementChild?.matches(".number") ?? false);
}

/** A number with its unit, which stands to the right in a table. */
export function measure(text: string): HTMLElement {
  return h("span", { class: "number" }, text);
}

/** Whether a cell says nothing that could stand to the left or the right. */
function isBlank(value: Child): boolean {
  return value === "" || value === "–" || value === null || value === undefined || (value instanceof Element && (value.matches(".absent, .null") || value.textContent === ""));
}

/** A plain table. Cells are elements or text; columns of numbers stand to the right. */
export function plainTable(caption: string, head: Child[], rows: Child[][]): HTMLElement {
  const numeric = head.map((_, at) => rows.some((row) => isNumeric(row[at])) && rows.every((row) => isNumeric(row[at]) || isBlank(row[at])));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      { class: "plain" },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, head.map((name, at) => h("th", { scope: "col", class: numeric[at] ? "number" : null }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, at) => h("td", { class: numeric[at] ? "number" : null }, typeof value === "number" ? count(value) : value))))),
    ),
  );
}
