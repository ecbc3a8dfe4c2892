// A savepoint at a glance: what is in it, how large, and what is wrong with it.
import { Reading } from "./asking";
import { contents, Contents, StateRow } from "./catalog";
import { Child, h } from "./dom";
import { age, bytes, count, plural } from "./format";
import { loading, measure, plainTable } from "./panel";
import { questions } from "./questions";
import { linkOf, partLink } from "./route";
import type { At } from "./savepointview";
import { sizesOf } from "./sizes";
import { skewText } from "./xray";

export function overviewView(body: HTMLElement, at: At, _values: URLSearchParams, signal: AbortSignal): void {
  void loading(body, (how) => overview(at, how), signal);
}

async function overview({ name: database, list }: At, how: Reading): Promise<Child> {
  const [{ sizes, files, missing, checkpoint }, found] = await Promise.all([sizesOf(database, how), contents(database)]);
  const labelOf = (id: string) => sizes.find((one) => one.id === id)?.label ?? id;
  const unreadable = found.states.filter((state) => state.decode_status === "unreadable");
  const undecoded = found.states.filter((state) => state.decode_status !== "decoded" && state.decode_status !== "unreadable");
  const some = (states: StateRow[]) => states.map((state) => state.state_name).slice(0, 3).join(", ") + (states.length > 3 ? " …" : "");
  const backends = [...new Set(found.states.map((state) => state.state_backend).filter(Boolean))];
  const entry = list.find((one) => one.name === database);
  const own = list.find((one) => one.name === (entry?.alias_of ?? database));
  const cards: [string, Child, string?][] = [
    ["Size", bytes(sizes.reduce((sum, one) => sum + one.bytes, 0))],
    ...(own?.created_at ? [["Written", age(own.created_at)] as [string, string]] : []),
    ["Checkpoint", String(checkpoint ?? "–")],
    ["Operators", count(sizes.length)],
    ["States", count(found.states.length)],
    ["Files", count(files), missing ? `${plural(missing, "file")} missing` : undefined],
    ["Not decoded", count(undecoded.length), undecoded.length ? some(undecoded) : undefined],
    ...(unreadable.length ? [["Unreadable", count(unreadable.length), some(unreadable)] as [string, string, string]] : []),
    ["Backend", backends.join(", ") || "–"],
  ];
  return [
    unreadableBox(unreadable, labelOf),
    h("dl", { class: "cards" }, cards.map(([name, value, warning]) => h("div", {}, h("dt", {}, name), h("dd", {}, value), warning ? h("dd", { class: "bad" }, warning) : null))),
    h("h2", {}, "Operators"),
    plainTable(
      "Operators",
      ["Operator", "uid", "States", "Parallelism", "Size", "Largest subtask"],
      sizes.map((one) => [
        h("a", { class: "link", href: partLink(database, "xray", { operator: one.label }) }, one.name ?? one.label),
        one.uid ?? "–",
        statesOf(found, one.id, database),
        `${one.parallelism} of ${one.maxParallelism}`,
        measure(bytes(one.bytes)),
        h("span", { class: "nowrap" }, skewText(one.subtasks)),
      ]),
    ),
    questions(database, found),
  ];
}

/** The number of states of an operator, and their tables. */
function statesOf({ states }: Contents, operator: string, database: string): Child {
  const own = states.filter((state) => state.operator_id === operator);
  const [first] = own;
  return own.length === 1 && first.table_name !== null ? h("a", { class: "link number", href: linkOf(database, first.table_name), title: first.table_name }, "1") : own.length ? h("a", { class: "link number", href: partLink(database, "tables") }, count(own.length)) : 0;
}

/** States of which files cannot be read: each reason once. */
function unreadableBox(states: StateRow[], labelOf: (id: string) => string): HTMLElement | null {
  if (!states.length) return null;
  const reasons = [...Map.groupBy(states, (state) => state.decode_note ?? "")].map(([note, own]) =>
    h("li", {}, note, h("br"), h("span", { class: "note" }, own.map((state) => `${state.state_name} of ${labelOf(state.operator_id)}`).join(", "))),
  );
  return h("div", { class: "error", role: "alert" }, h("strong", {}, "Not all of this savepoint can be read"), h("ul", {}, reasons));
}
