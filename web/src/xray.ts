// Inside an operator: how its states are spread over subtasks and key groups, and its largest keys, as the xray tables have it.
import type { Operator } from "./catalog";
import { Child, fill, h, select } from "./dom";
import { bytes, count, plural, skew } from "./format";
import { measure, plainTable } from "./panel";
import { Question, Told } from "./question";
import { keysLink, linkOf } from "./route";
import { spread } from "./spread";
import { literal, table } from "./sql";

/** Sums of a state: whole, of a subtask, or of some key groups. */
interface Part {
  level: "state" | "subtask" | "key_group";
  state_name: string;
  subtask: number | null;
  bucket: number | null;
  entries: number | null;
  bytes: number | null;
  is_estimate: boolean;
  distinct_keys: number | null;
  deleted_share: number | null;
  source: string;
}
interface LargestKey {
  state_name: string;
  key: string;
  entries: number;
  bytes: number;
}
/** What one pass over the entries of a state says. */
interface Keys {
  state_name: string;
  entries: number;
  distinct_keys: number;
  is_estimate: boolean;
  largest_entry_bytes: number | null;
  garbage_share: number | null;
  oldest_update: string | null;
  median_update: string | null;
  newest_update: string | null;
}
interface Orphans {
  timer_service: string;
  time_domain: string;
  keys: number;
  timers: number;
  first_timestamp: string | null;
  example: string | null;
}
type Of = "entries" | "bytes";

/** What is read without being asked for. */
const SMALL = 256 * 1024 * 1024;
const SMALL_FOR_KEYS = 32 * 1024 * 1024;
const SKEWED = 1.5;
/** More cells in a row cannot be told apart. */
const MOST_CELLS = 256;
const LARGEST = 10;

/** How far from even: the largest over the mean. */
export function skewText(values: number[]): Child {
  const found = skew(values);
  const text = `${found.toFixed(2)} × the mean`;
  return found > SKEWED ? h("span", { class: "bad" }, `${text} · skewed`) : text;
}

export function operatorXray(database: string, operator: Operator, size: number, signal: AbortSignal): Child {
  const inTables = operator.states.some((state) => state.state_backend === "rocksdb" || state.state_backend === "forst");
  const spreads = h("div", {});
  const cells = Math.min(operator.states[0].max_parallelism, MOST_CELLS);
  const own = `operator_id = ${literal(operator.id)}`;
  const told = new Told();
  const sizes = told.add(new Question<Part>({
    holder: spreads,
    label: "Count its entries",
    what: "count",
    size: inTables ? 0 : size,
    sql:
      `SELECT level, state_name, CASE WHEN level = 'subtask' THEN subtask END AS subtask, key_group * ${cells} // ${operator.states[0].max_parallelism} AS bucket, ` +
      "sum(entries)::BIGINT AS entries, sum(bytes)::BIGINT AS bytes, bool_or(is_estimate) AS is_estimate, max(distinct_keys) AS distinct_keys, max(deleted_share) AS deleted_share, any_value(source) AS source " +
      `FROM ${table(database, "xray")} WHERE ${own} AND level IN ('state', 'subtask', 'key_group') GROUP BY ALL ORDER BY ALL`,
    show: (parts) => statesOf(parts, operator, cells, signal),
    signal,
  }, told));
  sizes.start(inTables || size <= SMALL);
  if (!operator.states.some((state) => state.key_type !== null)) return spreads;
  const passes: [HTMLElement, Question<never>][] = [];
  const pass = <T>(label: string, what: string, sql: string, show: (rows: T[]) => Child) => {
    const holder = h("div", {});
    passes.push([holder, told.add(new Question<T>({ holder, label, what, size, sql, show, signal }, told)) as Question<never>]);
  };
  const from = (name: string) => `FROM ${table(database, name)} WHERE ${own}`;
  pass<LargestKey>(
    "Find the largest keys",
    "search for large keys",
    `SELECT state_name, key, entries, bytes ${from("xray_largest")} ORDER BY bytes DESC, entries DESC, key LIMIT ${LARGEST}`,
    (keys) => (keys.length ? largestKeys(keys, (row) => keyPage(database, operator, row)) : null),
  );
  pass<Keys>("Count distinct keys", "pass over the keys", `SELECT * ${from("xray_keys")} ORDER BY state_name`, keysOf);
  if (operator.states.some((state) => state.state_kind === "TIMER"))
    pass<Orphans>(
      "Find timers without state",
      "search for timers",
      `SELECT timer_service, time_domain, count(*) AS keys, sum(timers)::BIGINT AS timers, min(first_timestamp) AS first_timestamp, any_value(key) AS example ${from("xray_orphan_timers")} GROUP BY ALL ORDER BY ALL`,
      (found) => orphansOf(found, database),
    );
  for (const [, question] of passes) question.start(size <= SMALL_FOR_KEYS);
  return h("div", { class: "view-body" }, spreads, passes.map(([holder]) => holder));
}

function statesOf(parts: Part[], operator: Operator, cells: number, signal: AbortSignal): Child {
  const wholes = parts.filter((part) => part.level === "state");
  if (!wholes.some((whole) => whole.entries || whole.bytes)) return h("p", { class: "empty" }, "Its states are empty.");
  const holder = h("div", { class: "pictures wide" });
  const show = (of: string) => fill(holder, pictures(parts, wholes, operator, cells, of as Of, signal));
  const counted = wholes.some((whole) => whole.entries !== null);
  show(counted ? "entries" : "bytes");
  const measures = [...(counted ? [{ value: "entries", text: "entries" }] : []), { value: "bytes", text: "bytes" }];
  return [select("Measure", measures, measures[0].value, show), holder];
}

function pictures(parts: Part[], wholes: Part[], operator: Operator, cells: number, of: Of, signal: AbortSignal): Child {
  const [{ parallelism, max_parallelism: keyGroups }] = operator.states;
  const names = wholes.map((whole) => whole.state_name);
  const gathered = (level: Part["level"], length: number, placeOf: (part: Part) => number | null) =>
    names.map((name) => {
      const row = new Array<number>(length).fill(0);
      for (const part of parts) {
        const at = placeOf(part);
        if (part.level === level && part.state_name === name && at !== null && at < length) row[at] += part[of] ?? 0;
      }
      return row;
    });
  const subtasks = gathered("subtask", parallelism, (part) => part.subtask);
  const groups = gathered("key_group", cells, (part) => part.bucket);
  const spreadOverGroups = groups.some((row) => row.some(Boolean));
  const [bySubtask, byGroup] = [h("div", { class: "canvas" }), h("div", { class: "canvas" })];
  const told = of === "bytes" ? bytes : entriesText;
  const unit = cells === keyGroups ? "key group" : `of ${cells} ranges of key groups, range`;
  void import("./charts").then((charts) => {
    if (signal.aborted) return;
    spread(bySubtask, `${of} by state and subtask`, names, subtasks, "subtask", told, charts, signal);
    if (spreadOverGroups) spread(byGroup, `${of} by state and key group`, names, groups, unit, told, charts, signal);
  });
  const deleted = wholes.some((whole) => whole.deleted_share !== null);
  const keys = wholes.some((whole) => whole.distinct_keys !== null);
  return [
    h("figure", {}, h("figcaption", {}, "By state and subtask; a stronger colour is more than the mean"), bySubtask),
    spreadOverGroups ? h("figure", {}, h("figcaption", {}, "By state and key group; a stronger colour is more than the mean"), byGroup) : null,
    plainTable(
      "States of the operator",
      ["State", "Entries", ...(keys ? ["Keys"] : []), "Bytes", "Largest subtask", "Largest key group", ...(deleted ? ["Deleted"] : []), "Known from"],
      wholes.map((whole, at) => [
        whole.state_name,
        about(whole, whole.entries, count),
        ...(keys ? [about(whole, whole.distinct_keys, count)] : []),
        about(whole, whole.bytes, bytes),
        skewText(subtasks[at]),
        groups[at].some(Boolean) ? `${skew(groups[at]).toFixed(2)} × the mean` : "–",
        ...(deleted ? [share(whole.deleted_share)] : []),
        h("span", { class: "note" }, whole.source),
      ]),
    ),
    wholes.some((whole) => whole.is_estimate) ? h("p", { class: "note" }, "≈ is an estimate, from what the files record of themselves.") : null,
  ];
}

function entriesText(value: number): string {
  return plural(value, "entry").replace(/entrys$/, "entries");
}

/** A number, marked where it is an estimate. */
function about({ is_estimate }: { is_estimate: boolean }, value: number | null, told: (value: number) => string): Child {
  return value === null ? "–" : measure(`${is_estimate ? "≈ " : ""}${told(value)}`);
}

function keyPage(database: string, operator: Operator, { state_name, key }: LargestKey): string {
  const table = operator.states.find((state) => state.state_name === state_name)?.table_name;
  return table ? linkOf(database, table, { key }) : keysLink(database, key);
}

function largestKeys(keys: LargestKey[], pageOf: (row: LargestKey) => string): Child {
  return plainTable(
    "The largest keys",
    ["Largest keys", "State", "Entries", "Bytes"],
    keys.map((row) => [h("a", { class: "link", href: pageOf(row) }, row.key), row.state_name, row.entries, measure(bytes(row.bytes))]),
  );
}

function keysOf(states: Keys[]): Child {
  const has = (name: keyof Keys) => states.some((state) => state[name] !== null);
  const updates = has("median_update");
  const garbage = has("garbage_share");
  return plainTable(
    "Keys of the states",
    ["State", "Entries", "Distinct keys", "Largest entry", ...(garbage ? ["Garbage"] : []), ...(updates ? ["Oldest update", "Median", "Newest"] : [])],
    states.map((state) => [
      state.state_name,
      state.entries,
      about(state, state.distinct_keys, count),
      state.largest_entry_bytes === null ? "–" : measure(bytes(state.largest_entry_bytes)),
      ...(garbage ? [share(state.garbage_share)] : []),
      ...(updates ? [state.oldest_update, state.median_update, state.newest_update].map((time) => timeText(time)) : []),
    ]),
  );
}

function orphansOf(found: Orphans[], database: string): Child {
  if (!found.length) return h("p", { class: "note" }, "Each key with a timer has other state, too.");
  return [
    plainTable(
      "Timers without state",
      ["Timers without other state", "Domain", "Keys", "Timers", "First", "Such as"],
      found.map((one) => [
        one.timer_service,
        one.time_domain.toLowerCase(),
        one.keys,
        one.timers,
        timeText(one.first_timestamp),
        one.example === null ? "–" : h("a", { class: "link key", href: linkOf(database, "timers", { key: one.example }) }, one.example),
      ]),
    ),
    h("p", { class: "note" }, "This is not an error by itself: a function may clear its state and leave the timer. Many such timers, or timers years away, are a leak."),
  ];
}

function share(value: number | null): Child {
  return value === null ? "–" : measure(`${(value * 100).toFixed(0)} %`);
}

function timeText(time: string | null): string {
  return time === null ? "–" : time.replace("T", " ").replace(/(\.0+)?Z?$/, "");
}
