// The key explorer: all that Flink keeps for one key, in every operator, checkpoint beside checkpoint.
import { ApiError } from "./api";
import { compareBox, Compared, comparedOf, comparedText, several, sideBySide } from "./compare";
import { keep, kept } from "./context";
import { announce, Child, fill, h } from "./dom";
import { entryTables } from "./entries";
import { bytes, plural } from "./format";
import { keyField, keyForm } from "./keyform";
import { exampleOf, Found, Keyed, lookup } from "./lookup";
import { empty, lackingBox, leaveOutButton, plainTable, problem } from "./panel";
import { progressBar } from "./progressbar";
import { jobLink, partLink, remember } from "./route";
import type { At } from "./savepointview";

export function keysView(part: HTMLElement, { name: database, list }: At, values: URLSearchParams, signal: AbortSignal): void {
  let names = comparedOf(list, values.get("dbs") ?? kept().dbs, database);
  let search = new AbortController();
  signal.addEventListener("abort", () => search.abort());
  const key = keyField(values.get("key") ?? kept().key ?? "");
  const body = h("div", { class: "view-body" });

  const find = async (partial = false) => {
    keep({ key: key.value, dbs: comparedText(names) });
    remember(partLink(database, "keys", { key: key.value, dbs: comparedText(names) }));
    search.abort();
    const controller = new AbortController();
    search = controller;
    const own = controller.signal;
    if (!key.value) {
      fill(body, empty("Type a key to see its states, timers and windows in every operator."));
      return;
    }
    const compared = sideBySide(list, names);
    const found = new Map<string, Found>();
    let cancelled = false;
    const cancel = () => {
      cancelled = true;
      controller.abort();
    };
    const bar = progressBar("Progress of the search", cancel);
    const results = h("div", { class: "view-body" });
    const told = () => `${found.size} of ${compared.names.length}`;
    const show = (done: boolean) => {
      const all = compared.names.flatMap((name) => found.get(name) ?? []);
      bar.show(all.length, compared.names.length, told());
      fill(results, shown(all, compared, done, partial ? null : () => void find(true)));
    };
    fill(body, bar.element, results);
    show(false);
    try {
      await several(compared.names, async (name) => {
        found.set(name, await lookup(name, key.value, own, partial));
        if (!own.aborted) show(false);
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (own.aborted && !cancelled) return;
      if (!own.aborted) fill(results, problem(error));
    }
    if (own.aborted && !cancelled) return;
    bar.element.remove();
    if (cancelled) body.prepend(h("p", { class: "banner", role: "note" }, `Cancelled: ${told()} were searched.`));
    else if (found.size === compared.names.length) {
      show(true);
      const all = [...found.values()];
      if (!all.some(({ entries }) => entries.length)) results.querySelector(".likeness")?.append(await likeness(all, own, (text) => ((key.value = text), void find())));
    }
  };
  const form = keyForm(key, () => void find());
  const about = "Every state, timer and window of one key, in every operator, checkpoint beside checkpoint. Write a key of several fields as JSON or as (a,1).";
  fill(part, form, h("p", { class: "about" }, about), compareBox(list, names, (picked) => (names = picked)), body);
  void find();
  key.focus();
}

/** What was found; that nothing was is only known when all have been searched. `withoutThem` searches again in what can be read; null where this is done. */
function shown(all: Found[], compared: Compared, done: boolean, withoutThem: (() => void) | null): Child {
  const total = all.reduce((sum, found) => sum + found.entries.length, 0);
  const read = all.reduce((sum, found) => sum + found.bytesRead, 0);
  const titleOf = ({ database }: Found) => compared.titles.get(database) ?? database;
  const errors = all.flatMap((found) => found.errors.map((error) => `${titleOf(found)}: ${error}`));
  const lacking = all.flatMap((found) => found.lacking.map((one) => ({ ...one, message: `${titleOf(found)}: ${one.message}` })));
  if (done) announce(total ? `${total} entries found` : "Nothing was found");
  const isWhole = !errors.length && !lacking.length;
  const fits = all.some(({ states }) => states.some(({ sql }) => sql !== null));
  const nothing = isWhole && !fits ? "No operator has keys of a type that this text could be." : isWhole ? "No operator has state for this key." : "What could be read has no state for this key.";
  const others = othersOf(all);
  return [
    h(
      "p",
      { class: "note" },
      total ? `${plural(total, "value")} in ${plural(all.filter((found) => found.entries.length).length, "savepoint")}; ${bytes(read)} read. ` : "",
      total ? [...new Set(compared.jobs.values())].filter(Boolean).map((job) => h("a", { class: "link", href: jobLink(job, "timeline", { key: kept().key }) }, "Timeline")) : null,
    ),
    errors.length
      ? h(
          "div",
          { class: "error", role: "alert" },
          h("strong", {}, "Not everything could be read"),
          h("ul", {}, errors.map((error) => h("li", {}, error))),
          withoutThem && done && all.some((found) => found.mayLeaveOut) ? leaveOutButton(withoutThem) : null,
        )
      : null,
    lackingBox(lacking),
    total ? entryTables(all, compared, kept().key ?? "") : done ? empty(nothing) : null,
    total ? null : h("div", { class: "likeness" }, closeOnes(others)),
    others.length
      ? h(
          "details",
          { class: "compare" },
          h("summary", {}, `${plural(others.length, "operator")} with keys of another type`),
          plainTable("Operators with keys of another type", ["Operator", "Type of its keys", "Why this is none"], others.map((one) => [one.operator, one.key_type, one.reason ?? ""])),
        )
      : null,
  ];
}

/** One state an operator whose keys the text is none of. */
function othersOf(all: Found[]): Keyed[] {
  const states = all.flatMap((found) => found.states).filter(({ sql }) => sql === null);
  return [...new Map(states.map((state) => [state.operator_id, state])).values()];
}

const MOST_EXAMPLES = 4;

/** Why a struct is no key of operators with structs. */
function closeOnes(others: Keyed[]): Child {
  const reasons = [...new Map(others.filter((one) => one.is_close).map((one) => [one.reason, one.operator]))].slice(0, MOST_EXAMPLES);
  return reasons.length ? reasons.map(([reason, operator]) => h("p", {}, `It is no key of ${operator}: ${reason}.`)) : null;
}

/** Keys that are there, each type once, to be searched with a click. */
async function likeness(all: Found[], signal: AbortSignal, pick: (key: string) => void): Promise<HTMLElement> {
  const states = all.flatMap((found) => found.states);
  const kinds = new Map(states.reverse().map((state) => [state.key_type, state]));
  const element = h("p", {});
  const keys: Child[] = [];
  for (const state of [...kinds.values()].reverse()) {
    if (keys.length === MOST_EXAMPLES || signal.aborted) break;
    const key = await exampleOf(state, signal);
    if (key !== null) keys.push([keys.length ? ", " : "Keys here look like ", h("button", { type: "button", class: "link", onclick: () => pick(key) }, key), ` (${state.operator})`]);
  }
  fill(element, keys);
  return element;
}
