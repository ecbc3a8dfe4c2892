// The key explorer: all that Flink keeps for one key, in every operator, checkpoint beside checkpoint.
import { ApiError } from "./api";
import { Database, databases } from "./catalog";
import { cell, textOf } from "./cell";
import { compareBox, comparedOf, comparedText, several } from "./compare";
import { announce, Child, fill, h } from "./dom";
import { bytes, plural } from "./format";
import { Entry, Found, lookup, MOST } from "./lookup";
import { empty, plainTable, problem } from "./panel";
import { remember } from "./route";

export function keysView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  let names: string[] = [];
  let search = new AbortController();
  signal.addEventListener("abort", () => search.abort());
  const key = h("input", { type: "text", value: values.get("key") ?? "", "aria-label": "Key", placeholder: 'a key: key_662, 42, or {"f0": "a", "f1": 1}', spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const compared = h("div", {});
  const body = h("div", { class: "view-body" });

  const find = async () => {
    remember("keys", { key: key.value, dbs: comparedText(names) });
    search.abort();
    search = new AbortController();
    const own = search.signal;
    if (!key.value) {
      fill(body, empty("Type a key: every state, timer and window of it is shown, in every operator."));
      return;
    }
    let done = 0;
    const told = h("p", { class: "note", role: "status" }, "Looking …");
    fill(body, told);
    try {
      const all = await several(
        names,
        (name) => lookup(name, key.value, own),
        () => (told.textContent = `Looking … ${(done += 1)} of ${names.length}`),
      );
      if (!own.aborted) fill(body, shown(all));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!own.aborted) fill(body, problem(error));
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
  const about = "Every state, timer and window of one key, in every operator, checkpoint beside checkpoint. The key is read as the type of each operator’s keys; structs are written as JSON.";
  fill(main, h("div", { class: "view" }, h("div", { class: "view-head" }, h("h1", {}, "Key explorer")), h("p", { class: "about" }, about), form, compared, body));
  void databases().then(
    (list: Database[]) => {
      if (signal.aborted) return;
      names = comparedOf(list, values.get("dbs"));
      fill(compared, compareBox(list, names, (picked) => (names = picked)));
      void find();
      key.focus();
    },
    (error: unknown) => error instanceof ApiError && fill(body, problem(error)),
  );
}

function shown(all: Found[]): Child {
  const total = all.reduce((sum, found) => sum + found.entries.length, 0);
  const read = all.reduce((sum, found) => sum + found.bytesRead, 0);
  const errors = all.flatMap((found) => found.errors.map((error) => `${found.database}: ${error}`));
  announce(total ? `${total} entries found` : "Nothing was found");
  const others = new Map(all.flatMap((found) => [...found.others]));
  return [
    h("p", { class: "note" }, total ? `${plural(total, "value")} in ${plural(all.filter((found) => found.entries.length).length, "savepoint")}; ${bytes(read)} read.` : ""),
    errors.length ? h("div", { class: "error", role: "alert" }, h("strong", {}, "Not everything could be read"), h("ul", {}, errors.map((error) => h("li", {}, error)))) : null,
    total ? tables(all) : empty(all.some((found) => found.fitting) ? "No operator has state for this key." : "No operator has keys of a type that this text could be."),
    others.size
      ? h("details", { class: "compare" }, h("summary", {}, `${plural(others.size, "operator")} with keys of another type`), plainTable("Operators with keys of another type", ["Operator", "Type of its keys"], [...others]))
      : null,
  ];
}

/** A table an operator: a row an entry, a column a savepoint. */
function tables(all: Found[]): Child {
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
    const shownRows = [...rows.values()];
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
        [...used.map(([name]) => name), ...holders.map((found) => found.database)],
        shownRows.map(({ entry, values }) => [...used.map(([, of]) => of(entry)), ...cells(holders, values, entry.state)]),
      ),
    );
  });
}

function cells(holders: Found[], values: Map<string, unknown>, state: string): Child[] {
  let before: string | null = null;
  return holders.map(({ database }) => {
    const text = values.has(database) ? textOf(values.get(database)) : null;
    const changed = before !== null && text !== before;
    before = text ?? before;
    if (text === null) return h("span", { class: "absent", "aria-label": "not there" }, "–");
    return h("span", { class: changed ? "changed" : null, title: changed ? "differs from the one before" : null }, cell(values.get(database), `${state} in ${database}`));
  });
}

function windowOf(namespace: unknown): Child {
  if (namespace === null) return "";
  const { start, end } = namespace as { start?: string; end?: string };
  return start !== undefined && end !== undefined ? `${start} – ${end}` : textOf(namespace);
}

function placeOf({ mapKey, listIndex }: Entry): Child {
  if (mapKey !== null && mapKey !== undefined) return cell(mapKey, "map key");
  return listIndex === null ? "" : `#${textOf(listIndex)}`;
}
