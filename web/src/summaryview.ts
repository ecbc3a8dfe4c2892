// The columns of a table: what each is, and on demand its least and greatest values, NULLs, distinct values, a histogram, its most frequent values.
import type { Column } from "./api";
import { textOf } from "./cell";
import { narrowed, Rows } from "./conditions";
import { Child, fill, h } from "./dom";
import { count, plural, utc } from "./format";
import { Question, Told } from "./question";
import { visit } from "./route";
import { Bar, conditionOfBar, Summary, summariesOf, summarySql, valuesSql } from "./summary";
import { equals, Measure, measuresOf, meaningOf } from "./types";

/** So many values of a column are shown. */
const MOST_VALUES = 12;
/** A column with so many values may be one to choose by. */
const FEW = 24;
const MOST_FACETS = 6;
/** What is read without being asked for. */
const SMALL = 16 * 1024 * 1024;
const LONGEST = 60;

export class Columns {
  readonly element = h("section", { class: "columns", "aria-label": "Columns" });
  private readonly cards = new Map<string, Card>();
  private readonly holder = h("div", {});

  constructor(
    columns: Column[],
    private readonly rows: Rows,
    /** The rows as SQL has them behind FROM, named `r`. */
    private readonly from: string,
    private readonly size: number,
    private readonly told: Told,
    private readonly signal: AbortSignal,
  ) {
    const measures = measuresOf(columns);
    for (const measure of measures) this.cards.set(measure.label, new Card(measure, rows, (card) => this.askValues(card)));
    const question = told.add(new Question<Record<string, unknown>>({
      holder: this.holder,
      label: "Sum up the columns",
      what: "summary",
      size: 2 * size,
      sql: summarySql(from, measures),
      show: ([record]) => void this.show(summariesOf(record, measures)),
      signal,
    }, told));
    const groups = columns.map(({ name, type }) => {
      const own = measures.filter(({ label }) => label === name || label.startsWith(`${name}.`));
      const isOne = own.length === 1 && own[0].label === name;
      return h(
        "article",
        { class: isOne ? "column" : "column wide", "aria-label": `Column ${name}` },
        h("div", { class: "column-head" }, h("h3", {}, name), h("code", { title: type }, type.length > LONGEST ? `${type.slice(0, LONGEST)}…` : type)),
        meaningOf(name) ? h("p", { class: "note" }, meaningOf(name)) : null,
        isOne ? this.cards.get(name)!.element : h("div", { class: "fields" }, own.map(({ label }) => h("div", { class: "column-field" }, h("h4", {}, label.slice(name.length)), this.cards.get(label)!.element))),
      );
    });
    fill(this.element, h("div", { class: "section-head" }, h("h2", {}, "Columns")), this.holder, h("div", { class: "column-grid" }, groups));
    question.start(size <= SMALL);
    for (const label of openOnes()) if (this.cards.has(label)) this.askValues(this.cards.get(label)!);
  }

  private show(summaries: Summary[]): Child {
    for (const summary of summaries) this.cards.get(summary.measure.label)!.show(summary);
    if (this.size <= SMALL) {
      const few = summaries.filter(({ distinct, measure, rows }) => distinct !== null && distinct > 1 && distinct <= FEW && rows > distinct && (measure.kind === "text" || measure.kind === "whole") && !openOnes().includes(measure.label));
      for (const { measure } of few.slice(0, MOST_FACETS)) this.askValues(this.cards.get(measure.label)!);
    }
    return null;
  }

  private askValues(card: Card): void {
    const { measure } = card;
    this.told
      .add(new Question<{ value: unknown; rows: number }>({
        holder: card.values,
        label: "Values",
        what: `values of ${measure.label}`,
        size: this.size,
        sql: valuesSql(this.from, measure, MOST_VALUES),
        show: (found) => facet(measure, found, this.rows),
        signal: this.signal,
      }, this.told))
      .start(true);
  }
}

/** The columns whose values were asked for, as the address has them: behind the #, where it is nobody's but the page's. */
function openOnes(): string[] {
  return new URLSearchParams(location.hash.slice(1)).getAll("values");
}

class Card {
  readonly element = h("div", { class: "measured" });
  readonly values = h("div", { class: "values" });
  private readonly facts = h("div", {});

  constructor(
    readonly measure: Measure,
    private readonly rows: Rows,
    askValues: (card: Card) => void,
  ) {
    const ask = () => {
      const hash = new URLSearchParams(openOnes().concat(measure.label).map((label) => ["values", label]));
      history.replaceState(null, "", `#${hash.toString()}`);
      askValues(this);
    };
    if (measure.kind !== "size") fill(this.values, h("button", { type: "button", class: "link", onclick: ask, "aria-label": `Values of ${measure.label}` }, "Values"));
    fill(this.element, this.facts, this.values);
  }

  show(summary: Summary): void {
    const { measure, nulls, rows, distinct } = summary;
    const isSize = measure.kind === "size";
    const unit = isSize ? (measure.type === "BLOB" ? "bytes" : measure.type.endsWith("]") ? "elements" : "entries") : "";
    const range = summary.least === null ? [] : [[isSize ? `fewest ${unit}` : "least", shown(summary.least)], [isSize ? `most ${unit}` : "greatest", shown(summary.greatest)]];
    const facts: [string, Child][] = [...(range as [string, Child][]), ...(distinct === null ? [] : [["distinct", told(distinct, mostOf(summary))] as [string, Child]])];
    const share = rows && nulls ? ` (${percent(nulls / rows)})` : "";
    fill(
      this.facts,
      h(
        "dl",
        { class: "measures" },
        facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
        h("div", {}, h("dt", {}, "NULL"), h("dd", {}, nulls ? [filterButton(count(nulls) + share, narrowed(this.rows, equals({ ...measure, bare: bareOf(measure) }, null)), `Rows without ${measure.label}`)] : "none")),
      ),
      summary.bars.length > 1 ? histogram(summary, this.rows) : null,
    );
  }
}

/** The column itself, where its size is what is measured. */
function bareOf({ bare, kind }: Measure): string {
  return kind === "size" ? bare.replace(/^\w+\(/, "").slice(0, -1) : bare;
}

/** How many distinct values there may be. */
function mostOf({ measure, rows, nulls, least, greatest }: Summary): number {
  const between = measure.kind === "whole" && least !== null ? Number(greatest) - Number(least) + 1 : Infinity;
  return Math.min(rows - nulls, between);
}

/** An estimate, which is never more than there are values. */
function told(distinct: number, values: number): string {
  return distinct <= 1 ? count(distinct) : `≈ ${count(Math.min(distinct, values))}`;
}

function shown(value: unknown): HTMLElement {
  const text = typeof value === "number" || typeof value === "bigint" ? count(value) : textOf(value).replace(/^(\d{4}-\d\d-\d\d)T/, "$1 ");
  return h("span", { title: text }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`;
}

function filterButton(text: string, address: string, title: string): HTMLElement {
  return h("a", { class: "link", href: address, title }, text);
}

/** Bars that are buttons: a click leaves the rows of one. One tab stop, arrows move. */
function histogram(summary: Summary, rows: Rows): HTMLElement {
  const { bars, measure } = summary;
  const most = Math.max(...bars.map((bar) => bar.rows), 1);
  const element = h("div", { class: "histogram", role: "group", "aria-label": `Histogram of ${measure.label}; arrows move, Enter leaves the rows of a bar` });
  const buttons = bars.map((bar, at) => {
    const label = `${rangeText(bar, summary)}: ${plural(bar.rows, "row")}`;
    const fillOf = h("span", { class: "bar" });
    fillOf.style.height = `${bar.rows ? Math.max(3, (bar.rows / most) * 100) : 0}%`;
    const condition = conditionOfBar(summary, bar);
    return h("button", { type: "button", title: label, "aria-label": label, tabindex: at ? -1 : 0, onclick: () => visit(narrowed(rows, condition)) }, fillOf);
  });
  element.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    const next = to === undefined ? undefined : buttons[to];
    if (!next) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  fill(element, buttons);
  return element;
}

function rangeText({ from, to }: Bar, { measure }: Summary): string {
  const told = (value: number | bigint) => {
    if (measure.kind === "flag") return value ? "true" : "false";
    if (measure.kind === "time") return utc(Number(value));
    return typeof value === "bigint" ? count(value) : String(Number(value.toPrecision(6)));
  };
  return to === null ? told(from) : `${told(from)} to ${told(to)}`;
}

/** Values with the number of their rows, each a filter. */
function facet(measure: Measure, found: { value: unknown; rows: number }[], rows: Rows): Child {
  const most = Math.max(...found.map((one) => one.rows), 1);
  const items = found.slice(0, MOST_VALUES).map(({ value, rows: number }) => {
    const text = value === null ? "NULL" : textOf(value) || "(empty)";
    const bar = h("span", { class: "bar" });
    bar.style.width = `${Math.max(1, (number / most) * 100)}%`;
    const link = h("a", { class: value === null ? "link null" : "link", href: narrowed(rows, equals(measure, value)), title: text }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
    return h("li", {}, link, h("span", { class: "share" }, bar), h("span", { class: "number" }, count(number)));
  });
  return [
    h("ul", { class: "facet", "aria-label": `Values of ${measure.label}` }, items),
    found.length > MOST_VALUES ? h("p", { class: "note" }, "and others with fewer rows") : null,
    found.length ? null : h("p", { class: "note" }, "no values"),
  ];
}
