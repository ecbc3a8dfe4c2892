// The rows of an answer: sorted and filtered here, copied by Ctrl+C, walked through by arrows.
import {
  CellComponent,
  FilterModule,
  FormatModule,
  FrozenColumnsModule,
  InteractionModule,
  KeybindingsModule,
  ResizeColumnsModule,
  ResizeTableModule,
  SelectRangeModule,
  SortModule,
  Tabulator,
} from "tabulator-tables";
import type { Answer, Column } from "./api";
import { cell, isExpandable, isNumber, shortText, showValue, textOf, tsv } from "./cell";
import { copy, h } from "./dom";

/** Ranges that take the focus only from within the grid: rows appear while somebody writes elsewhere. */
class QuietRanges extends (SelectRangeModule as unknown as new (...all: unknown[]) => { initializeFocus(cell: unknown): void }) {
  static moduleName = "selectRange";
  declare readonly table: { element: HTMLElement };

  override initializeFocus(cell: unknown): void {
    if (this.table.element.contains(document.activeElement)) super.initializeFocus(cell);
  }
}

Tabulator.registerModule([
  FilterModule,
  FormatModule,
  FrozenColumnsModule,
  InteractionModule,
  KeybindingsModule,
  ResizeColumnsModule,
  ResizeTableModule,
  QuietRanges as never,
  SortModule,
]);

type Row = Record<string, unknown>;
const DECIMAL = /^(DECIMAL|U?HUGEINT)/;
const WIDEST = 420;

/** Where a value of a column leads to; null where it leads nowhere. */
export type Leads = (column: string, value: unknown, row: (name: string) => unknown) => string | null;

/** The grid of an answer, and what ends it. */
export function grid(answer: Answer, leads: Leads = () => null): { element: HTMLElement; destroy: () => void } {
  const holder = h("div", { class: "grid" });
  const filter = h("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter the rows" });
  const shown = h("span", { class: "note", role: "status" });
  const element = h("div", { class: "grid-area" }, h("div", { class: "grid-tools" }, filter, shown), holder);
  const rows = answer.rows.map((row, number): Row => Object.fromEntries([["number", number], ...row.map((value, at) => [`c${at}`, value])]));
  const options = {
    data: rows,
    index: "number",
    layout: "fitDataFill",
    height: "100%",
    columns: answer.columns.map((column, at) => definition(column, at, answer.columns, leads)),
    rowHeader: { formatter: "rownum", headerSort: false, resizable: false, frozen: true, hozAlign: "right", width: 56, cssClass: "rownum" },
    columnDefaults: { maxInitialWidth: WIDEST, minWidth: 60, resizable: "header" },
    placeholder: "No rows",
    rowHeight: 32,
    selectableRange: 1,
    selectableRangeRows: true,
    selectableRangeClearCells: false,
    keybindings: { navNext: false, navPrev: false }, // Tab leaves the grid
  };
  let table: Tabulator | null = null;
  filter.addEventListener("input", () => {
    if (!table) return;
    const wanted = filter.value.toLowerCase();
    if (wanted) table.setFilter((row: Row) => answer.columns.some((_, at) => (row[`c${at}`] === null ? "null" : textOf(row[`c${at}`])).toLowerCase().includes(wanted)));
    else table.clearFilter(true);
  });
  const open = (cells: CellComponent[]) => {
    const column = answer.columns[Number(cells[0]?.getField()?.slice(1))];
    if (column && isExpandable(cells[0].getValue())) showValue(cells[0].getValue(), column.name);
  };
  const selected = () => (table?.getRanges()[0]?.getStructuredCells() ?? []) as CellComponent[][];
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) {
      event.stopPropagation(); // Tabulator would edit
      const chosen = selected().flat();
      const link = chosen.length === 1 ? chosen[0].getElement().querySelector("a") : null;
      if (link) link.click();
      else open(chosen);
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "c") {
      event.preventDefault();
      void copy(tsv(selected().map((row) => row.map((each) => each.getValue() as unknown))));
    }
  };
  holder.addEventListener("keydown", onKey, { capture: true });
  // Tabulator renders as many rows as the holder has room for, and in no page it has none.
  const room = new ResizeObserver(() => {
    if (!holder.clientHeight) return;
    room.disconnect();
    table = new Tabulator(holder, options as never);
    table.on("dataFiltered", (_filters: unknown, found: unknown[]) => {
      shown.textContent = filter.value ? `${found.length} of ${rows.length}` : "";
    });
    table.on("cellDblClick", (_event, clicked) => open([clicked]));
    table.on("tableBuilt", () => describe(holder, answer));
  });
  room.observe(holder);
  const destroy = () => {
    room.disconnect();
    table?.destroy();
  };
  return { element, destroy };
}

function definition(column: Column, at: number, columns: Column[], leads: Leads): object {
  const numeric = isNumber(column);
  return {
    field: `c${at}`,
    title: column.name,
    titleFormatter: () => h("button", { type: "button", class: "title", title: `${column.type}. Sort` }, column.name, h("small", {}, column.type)),
    formatter: (each: CellComponent) => {
      const value: unknown = each.getValue();
      const row = each.getData() as Row;
      const href = leads(column.name, value, (name) => row[`c${columns.findIndex((one) => one.name === name)}`]);
      return href === null ? cell(value, column.name) : h("a", { class: "link", href, tabindex: -1 }, shortText(value) || "(empty)");
    },
    hozAlign: numeric ? "right" : "left",
    sorter: (one: unknown, other: unknown, _a: unknown, _b: unknown, _c: unknown, direction: string) => compare(one, other, direction, column),
  };
}

/** NULL comes last, whichever way. */
function compare(one: unknown, other: unknown, direction: string, column: Column): number {
  if (one === null || other === null) {
    const order = Number(one === null) - Number(other === null);
    return direction === "asc" ? order : -order;
  }
  if (DECIMAL.test(column.type)) return Number(one) - Number(other);
  if (typeof one === typeof other && typeof one !== "object") return (one as number) < (other as number) ? -1 : Number(one !== other);
  if (isNumber(column)) return Number(one) - Number(other); // BIGINT: some are numbers, some too long for it
  return textOf(one) < textOf(other) ? -1 : 1;
}

function describe(holder: HTMLElement, answer: Answer): void {
  holder.setAttribute("aria-label", `Result: ${answer.row_count} rows, ${answer.columns.length} columns`);
  holder.setAttribute("aria-rowcount", String(answer.row_count));
  // What is scrolled has the focus, so it has to have a role between the grid and its rows.
  const body = holder.querySelector(".tabulator-tableholder")!;
  body.setAttribute("role", "rowgroup");
  body.setAttribute("aria-label", "Rows; arrows move, Enter opens a nested value");
  body.querySelector(".tabulator-table")?.setAttribute("role", "presentation");
}
