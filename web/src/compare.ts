// The choice of databases to compare: several that stand side by side, or one before and one after.
import { Database, optionsOf } from "./catalog";
import { kept } from "./context";
import { h, select } from "./dom";
import { describe, Job, jobOfName, jobsOf, shortName, titlesOf } from "./jobs";

const MOST_AT_FIRST = 6;

/** Databases side by side, the oldest of a job first, with what to call them and which job they are of. */
export interface Compared {
  names: string[];
  titles: Map<string, string>;
  jobs: Map<string, string>;
}

/** Names in the address; where it has none, the newest of the job of the database that was chosen, else of the newest job. */
export function comparedOf(list: Database[], wanted: string | null): string[] {
  const asked = wanted?.split("\n").filter(Boolean) ?? [];
  return asked.length ? asked : newest(jobOfName(list, kept().db));
}

/** The newest of a job, the oldest of them first. */
function newest(job: Job | undefined): string[] {
  const readable = job?.databases.filter((database) => database.error === null) ?? [];
  return readable.slice(0, MOST_AT_FIRST).map((database) => database.name).reverse();
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
