// The key explorer: all that Flink keeps for one key, in every operator, checkpoint beside checkpoint.
import { ApiError } from "./api";
import { Database, schemas } from "./catalog";
import { cell, textOf } from "./cell";
import { compareBox, Compared, comparedOf, comparedText, several, sideBySide } from "./compare";
import { keep, kept } from "./context";
import { announce, Child, fill, h } from "./dom";
import { bytes, plural, utc } from "./format";
import { Entry, exampleOf, Found, Keyed, lookup, MOST } from "./lookup";
import { empty, lackingBox, leaveOutButton, plainTable, problem } from "./panel";
import { progressBar } from "./progressbar";
import { hashOf, remember } from "./route";

export function keysView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  let list: Database[] = [];
  let names: string[] = [];
  let search = new AbortController();
  signal.addEventListener("abort", () => search.abort());
  const key = h("input", { type: "text", value: values.get("key") ?? "", "aria-label": "Key", placeholder: 'a key: key_662, 42, or {"f0": "a", "f1": 1}', spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const compared = h("div", {});
  const body = h("div", { class: "view-body" });

  const find = async (partial = false) => {
    keep({ key: key.value, dbs: comparedText(names) });
    remember("keys", { db: kept().db, key: key.value, dbs: comparedText(names) });
    search.abort();
    const controller = new AbortController();
    search = controller;
    const own = controller.signal;
    if (!key.value) {
      fill(body, empty("Type a key: every state, timer and window of it is shown, in every operator."));
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
  const form = h(
    "form",
    {
      class: "keyform",
      role: "search",
      onsubmit: (event: Event) => {
        event.preventDefault();
        void find();
      },
    },
    key,
    h("button", { class: "primary" }, "Find"),
  );
  const about = "Every state, timer and window of one key, in every operator, checkpoint beside checkpoint. The key is read as the type of each operator’s keys; a struct may be written as JSON or as (a,1).";
  fill(main, h("div", { class: "view" }, h("div", { class: "view-head" }, h("h1", {}, "Key explorer")), h("p", { class: "about" }, about), form, compared, body));
  void schemas().then(
    (schemas) => {
      if (signal.aborted) return;
      list = schemas;
      names = comparedOf(list, values.get("dbs") ?? kept().dbs);
      fill(compared, compareBox(list, names, (picked) => (names = picked)));
      void find();
      key.focus();
    },
    (error: unknown) => error instanceof ApiError && fill(body, problem(error)),
  );
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
      total ? [...new Set(compared.jobs.values())].filter(Boolean).map((job) => h("a", { class: "link", href: hashOf("timeline", { job, key: kept().key }) }, "Timeline")) : null,
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
    total ? tables(all, compared) : done ? empty(nothing) : null,
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

/** A table an operator: a row an entry, a column a savepoint. */
function tables(all: Found[], compared: Compared): Child {
  const operators = new Map<string, string>();
  for (const { operatorId, operator } of all.flatMap((found) => found.entries)) {
    // Not every savepoint knows the name.
    if ((operators.get(operatorId) ?? operatorId) === operatorId) operators.set(operatorId, operator);
  }
  return [...operators].map(([id, label]) => {
    const holders = all.filter((found) => found.entries.some((entry) => entry.operatorId === id));
    const rows = new Map<string, { entry: Entry; values: Map<string, unknown> }>();
    for (const found of holders) {
      for (const entry of found.entries.filter((one) => one.operatorId === id)) {
        const place = textOf([entry.state, entry.namespace, entry.mapKey, entry.listIndex]);
        const row = rows.get(place) ?? { entry, values: new Map<string, unknown>() };
        row.values.set(found.database, entry.value);
        rows.set(place, row);
      }
    }
    const full = holders.some((found) => [...Map.groupBy(found.entries, (entry) => entry.operatorId + entry.state).values()].some((own) => own.length >= MOST));
    const shownRows = sorted([...rows.values()]);
    const facts: [string, (entry: Entry) => Child][] = [
      ["State", (entry) => entry.state],
      ["Kind", (entry) => h("span", { class: "note" }, entry.kind)],
      ["Window", (entry) => windowOf(entry.namespace)],
      ["Map key, index or time", placeOf],
    ];
    const used = facts.filter(([, of]) => shownRows.some(({ entry }) => of(entry) !== ""));
    return h(
      "section",
      { class: "operator" },
      h("h2", {}, label),
      full ? h("p", { class: "banner" }, `At most ${MOST} entries of a state are shown.`) : null,
      plainTable(
        `Entries of ${label}`,
        [...used.map(([name]) => name), ...holders.map((found) => h("span", { title: found.database }, compared.titles.get(found.database)))],
        shownRows.map(({ entry, values }) => [...used.map(([, of]) => of(entry)), ...cells(holders, values, entry.state, compared)]),
      ),
    );
  });
}

/** States as they were found, each with its namespaces, keys of maps and places in lists in order. */
function sorted<R extends { entry: Entry }>(rows: R[]): R[] {
  const states = [...new Set(rows.map(({ entry }) => entry.state))];
  const natural = (one: unknown, other: unknown) => textOf(one).localeCompare(textOf(other), "en", { numeric: true });
  return rows.sort(
    ({ entry: one }, { entry: other }) =>
      states.indexOf(one.state) - states.indexOf(other.state) ||
      natural(one.namespace, other.namespace) ||
      natural(one.mapKey, other.mapKey) ||
      natural(one.listIndex, other.listIndex),
  );
}

/** A value a savepoint, marked where it differs from the one before of the same job. */
function cells(holders: Found[], values: Map<string, unknown>, state: string, { jobs }: Compared): Child[] {
  const before = new Map<string | undefined, string>();
  return holders.map(({ database }) => {
    const job = jobs.get(database);
    const text = values.has(database) ? textOf(values.get(database)) : null;
    const changed = before.has(job) && text !== before.get(job);
    if (text === null) return h("span", { class: "absent", "aria-label": "not there" }, "–");
    before.set(job, text);
    return h("span", { class: changed ? "changed" : null, title: changed ? "differs from the one before" : null }, cell(values.get(database), `${state} in ${database}`));
  });
}

/** The start and the end of a window; its end alone for SQL's windows, which are stored as that, in milliseconds. */
function windowOf(namespace: unknown): Child {
  if (namespace === null) return "";
  if (typeof namespace === "number") return `– ${utc(namespace)}`;
  const { start, end } = namespace as { start?: string; end?: string };
  return start !== undefined && end !== undefined ? `${start} – ${end}` : textOf(namespace);
}

function placeOf({ mapKey, listIndex }: Entry): Child {
  if (mapKey !== null && mapKey !== undefined) return cell(mapKey, "map key");
  return listIndex === null ? "" : `#${textOf(listIndex)}`;
}
