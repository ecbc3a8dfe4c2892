// One value, as an element: NULL is seen, nested values open, everything is text.
import type { Column } from "./api";
import { copy, h } from "./dom";
import { jsonText } from "./exact";

const LONGEST = 200;
const MOST_FIELDS = 8;
const ONE_LINE = 40;
const WHOLE_SECONDS = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.0+$/;
const NUMBER = /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL)/;

export function isNumber(column: Column): boolean {
  return NUMBER.test(column.type) && !column.type.endsWith("]");
}

export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? jsonText(value) : String(value);
}

/** Values with tabs between and a line a row, as spreadsheets paste them. */
export function tsv(rows: unknown[][]): string {
  return rows.map((row) => row.map((value) => textOf(value).replaceAll(/[\t\n\r]/g, " ")).join("\t")).join("\n");
}

/** A value on one line, cut where it is long. */
export function shortText(value: unknown): string {
  const text = textOf(value);
  return isLong(text) ? `${text.slice(0, LONGEST).replaceAll("\n", "⏎")}…` : text;
}

function isLong(text: string): boolean {
  return text.length > LONGEST || text.includes("\n");
}

export function cell(value: unknown, title: string): HTMLElement {
  if (value === null || value === undefined) return h("span", { class: "null" }, "NULL");
  const shown = shortText(value);
  const long = isLong(textOf(value));
  if (typeof value !== "object" && !long) return h("span", { class: typeof value === "string" ? "text" : "number" }, shown);
  const open = h(
    "button",
    {
      type: "button",
      class: "expand",
      "aria-label": `Show the whole value of ${title}`,
      tabindex: -1,
      onclick: (event: Event) => {
        event.stopPropagation();
        showValue(value, title);
      },
    },
    "⤢",
  );
  return h("span", { class: "nested" }, open, shown);
}

/** A small record as a line per field, those marked that differ from the record before; anything else as a cell. */
export function record(value: unknown, title: string, before?: unknown): HTMLElement {
  const fields = fieldsOf(value);
  if (!fields.length || fields.length > MOST_FIELDS || fields.some(([, one]) => typeof one === "object" && one !== null)) return cell(value, title);
  const known = new Map(fieldsOf(before));
  return h(
    "dl",
    { class: "record" },
    fields.map(([name, one]) => [h("dt", {}, name), h("dd", { class: textOf(one).length <= ONE_LINE ? "nowrap" : null }, h("span", { class: known.size && textOf(known.get(name)) !== textOf(one) ? "changed" : null }, cell(wholeSeconds(one), `${name} of ${title}`)))]),
  );
}

/** A time without a fraction that is zero. */
function wholeSeconds(value: unknown): unknown {
  return typeof value === "string" ? value.replace(WHOLE_SECONDS, "$1") : value;
}

function fieldsOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype ? Object.entries(value) : [];
}

export function isExpandable(value: unknown): boolean {
  return (typeof value === "object" && value !== null) || (typeof value === "string" && isLong(value));
}

/** A dialog with the whole value. */
export function showValue(value: unknown, title: string): void {
  const whole = typeof value === "object" ? jsonText(value, "  ") : String(value);
  const before = document.activeElement;
  const dialog = h(
    "dialog",
    {
      class: "viewer",
      "aria-labelledby": "viewer-title",
      onclose: () => {
        dialog.remove();
        if (before instanceof HTMLElement) before.focus();
      },
    },
    h("h2", { id: "viewer-title" }, title),
    h("pre", { tabindex: 0 }, whole),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => void copy(whole) }, "Copy"),
      h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
