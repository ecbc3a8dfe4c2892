// The choice of databases to compare: several that stand side by side, or one before and one after.
import { ApiError } from "./api";
import { reading, records } from "./asking";
import { Database, optionsOf } from "./catalog";
import { h, select } from "./dom";
import { describe, Job, jobOfName, jobsOf, shortName, titlesOf } from "./jobs";
import { literal } from "./sql";

const MOST_AT_FIRST = 6;

/** Databases side by side, the oldest of a job first, with what to call them and which job they are of. */
export interface Compared {
  names: string[];
  titles: Map<string, string>;
  jobs: Map<string, string>;
}

/** Names in the address; where it has none, the database itself behind the ones before it of its job. */
export function comparedOf(list: Database[], wanted: string | null, database: string): string[] {
  const asked = wanted?.split("\n").filter(Boolean) ?? [];
  if (asked.length) return asked;
  const own = list.find((one) => one.name === database)?.alias_of ?? database;
  const names = newest(jobOfName(list, database), own);
  return names.includes(own) ? names : [database];
}

/** The newest of a job, or the last up to one of them, the oldest first. */
function newest(job: Job | undefined, last: string | null = null): string[] {
  const readable = job?.databases.filter((database) => database.error === null) ?? [];
  const at = Math.max(0, readable.findIndex((one) => one.name === last));
  return readable.slice(at, at + MOST_AT_FIRST).map((database) => database.name).reverse();
}

export function comparedText(names: string[]): string {
  return names.join("\n");
}

export function sideBySide(list: Database[], names: string[]): Compared {
  const known = new Map(list.map((one) => [one.name, one]));
  const jobOf = (name: string) => (known.get(known.get(name)?.alias_of ?? name)?.of ?? { name: "" }).name;
  return { names, titles: titlesOf(names, list), jobs: new Map(names.map((name) => [name, jobOf(name)])) };
}

export function compareBox(list: Database[], names: string[], onChange: (names: string[]) => void): HTMLElement {
  const boxes: HTMLInputElement[] = [];
  const box = (name: string, text: string, title = "") => {
    const input = h("input", { type: "checkbox", value: name, checked: names.includes(name), onchange: () => changed() });
    boxes.push(input);
    return h("label", { title }, input, " ", text);
  };
  const jobs = jobsOf(list).map((job) => {
    const readable = job.databases.filter((database) => database.error === null);
    const labels = readable.map((database) => box(database.name, shortName(database), [database.name, describe(database)].join("\n"))).reverse();
    if (!labels.length) return null;
    const pick = () => only(newest(job));
    return h(
      "fieldset",
      {},
      h("legend", { title: job.folder }, job.title, " ", h("button", { type: "button", class: "link", onclick: pick }, readable.length > MOST_AT_FIRST ? `the newest ${MOST_AT_FIRST}` : "only these")),
      h("div", { class: "boxes" }, labels),
    );
  });
  const listed = new Set(boxes.map((one) => one.value));
  const others = names.filter((name) => !listed.has(name)).map((name) => box(name, name));
  // The boxes of a job were made from the newest on; side by side the oldest comes first.
  const order = (picked: Set<string>) => [...jobsOf(list).flatMap((job) => job.databases.map((one) => one.name).reverse()), ...names].filter((name, at, all) => picked.has(name) && all.indexOf(name) === at);
  const summary = h("summary", {});
  const told = (count: number) => (summary.textContent = `Checkpoints and savepoints: ${count} of ${boxes.length}`);
  const changed = () => {
    const picked = order(new Set(boxes.filter((one) => one.checked).map((one) => one.value)));
    told(picked.length);
    onChange(picked);
  };
  const only = (picked: string[]) => {
    for (const one of boxes) one.checked = picked.includes(one.value);
    changed();
  };
  told(names.length);
  return h(
    "details",
    { class: "compare" },
    summary,
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => only(boxes.map((one) => one.value)) }, "All"),
      h("button", { type: "button", onclick: () => only([]) }, "None"),
    ),
    jobs,
    others.length ? h("div", { class: "boxes" }, others) : null,
  );
}

/** The savepoint that a database was written from: what is written keeps the id of the checkpoint, which Flink gives once in a job, and the operators. */
export async function sourceOf(database: string, signal: AbortSignal): Promise<string | null> {
  const sql =
    "SELECT one.database FROM savepointdb.checkpoints AS one JOIN savepointdb.checkpoints AS own USING (checkpoint_id, lineage) " +
    `WHERE own.database = ${literal(database)} AND one.created_at < own.created_at AND one.readable ORDER BY one.created_at LIMIT 1`;
  try {
    const [found] = await records<{ database: string }>(sql, reading(signal));
    return found?.database ?? null;
  } catch (error) {
    // Then the one before it is as good a beginning.
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** A database and the one before it, of one job; where nothing is before it, the one after it. */
export function defaultPair(list: Database[], name: string | null): { before: string; after: string } | null {
  const readable = jobOfName(list, name)?.databases.filter((database) => database.error === null) ?? [];
  const own = list.find((one) => one.name === name)?.alias_of ?? name;
  const at = Math.max(0, readable.findIndex((one) => one.name === own));
  const from = at + 1 < readable.length ? at : at - 1;
  return from < 0 ? null : { before: readable[from + 1].name, after: readable[from].name };
}

/** The choice of two; an empty name is none yet. */
export function pairBox(list: Database[], before: string, after: string, onChange: (before: string, after: string) => void): HTMLElement {
  const options = (name: string) => (name ? optionsOf(list, name) : [{ value: "", text: "choose one" }, ...optionsOf(list, null)]);
  return h(
    "div",
    { class: "pair" },
    select("Before", options(before), before, (name) => onChange(name, after)),
    h("button", { type: "button", "aria-label": "Swap before and after", title: "Swap before and after", onclick: () => onChange(after, before) }, "⇄"),
    select("After", options(after), after, (name) => onChange(before, name)),
  );
}

/** Does a task for each item, a few at a time. */
export async function several<T>(items: T[], task: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) await task(items[at]);
  };
  await Promise.all(Array.from({ length: Math.min(3, items.length) }, worker));
}
