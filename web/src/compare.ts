// The choice of several databases, to stand side by side.
import type { Database } from "./catalog";
import { h } from "./dom";

const MOST_AT_FIRST = 24;

/** Names in the address; all that can be read, up to a few, where it has none. */
export function comparedOf(list: Database[], wanted: string | null): string[] {
  const readable = list.filter((database) => database.error === null).map((database) => database.name);
  const asked = wanted?.split("\n").filter((name) => readable.includes(name)) ?? [];
  return asked.length ? asked : readable.slice(-MOST_AT_FIRST);
}

export function comparedText(names: string[]): string {
  return names.join("\n");
}

export function compareBox(list: Database[], names: string[], onChange: (names: string[]) => void): HTMLElement {
  const boxes = list
    .filter((database) => database.error === null)
    .map((database) => h("input", { type: "checkbox", value: database.name, checked: names.includes(database.name), onchange: () => changed() }));
  const summary = h("summary", {});
  const told = (count: number) => (summary.textContent = `Checkpoints and savepoints: ${count} of ${boxes.length}`);
  const changed = () => {
    const picked = boxes.filter((box) => box.checked).map((box) => box.value);
    told(picked.length);
    onChange(picked);
  };
  const all = (checked: boolean) => () => {
    for (const box of boxes) box.checked = checked;
    changed();
  };
  told(names.length);
  return h(
    "details",
    { class: "compare" },
    summary,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: all(true) }, "All"), h("button", { type: "button", onclick: all(false) }, "None")),
    h("div", { class: "boxes" }, boxes.map((box) => h("label", {}, box, " ", box.value))),
  );
}

/** The results of a task for each item, a few at a time, in the order of the items. */
export async function several<T, R>(items: T[], task: (item: T) => Promise<R>, onEach: () => void = () => undefined): Promise<R[]> {
  const results = new Array<R>(items.length);
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) {
      results[at] = await task(items[at]);
      onEach();
    }
  };
  await Promise.all(Array.from({ length: Math.min(3, items.length) }, worker));
  return results;
}
