// The entries of one key as tables: one for each operator, a column for each savepoint.
import { cell, record, textOf } from "./cell";
import { Compared } from "./compare";
import { Child, h } from "./dom";
import { utc } from "./format";
import { Entry, Found, MOST } from "./lookup";
import { plainTable } from "./panel";
import { linkOf } from "./route";

/** A table an operator: a row an entry, a column a savepoint. */
export function entryTables(all: Found[], compared: Compared, key: string, level: "h2" | "h3" = "h2"): Child {
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
      ["State", (entry) => h("a", { class: "link", href: linkOf(holders.at(-1)!.database, entry.table, { key }) }, entry.state)],
      ["Kind", (entry) => h("span", { class: "note" }, entry.kind)],
      ["Window", (entry) => windowOf(entry.namespace)],
      ["Map key, index or time", placeOf],
    ];
    const used = facts.filter(([, of]) => shownRows.some(({ entry }) => of(entry) !== ""));
    return h(
      "section",
      { class: "operator" },
      h(level, {}, label),
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
  const before = new Map<string | undefined, unknown>();
  return holders.map(({ database }) => {
    const job = jobs.get(database);
    if (!values.has(database)) return h("span", { class: "absent", "aria-label": "not there" }, "–");
    const value = values.get(database);
    const changed = before.has(job) && textOf(value) !== textOf(before.get(job));
    const shown = record(value, `${state} in ${database}`, before.get(job));
    before.set(job, value);
    return shown.tagName === "DL" ? shown : h("span", { class: changed ? "changed" : null, title: changed ? "differs from the one before" : null }, shown);
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
