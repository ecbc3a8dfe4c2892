// A savepoint at a glance: what is in it, how large, and how evenly it is spread.
import { ApiError, Status, Unread } from "./api";
import { Reading, recordsOf, Run, records } from "./asking";
import { columns, contents, Database, Operator, operatorsOf, StateRow } from "./catalog";
import { Child, fill, h, select } from "./dom";
import { age, bytes, count, plural, skew } from "./format";
import { growth } from "./growth";
import { databaseView, lackingBox, loading, measure, plainTable, problem } from "./panel";
import { progressBar } from "./progressbar";
import { questions } from "./questions";
import { go, hashOf } from "./route";
import { spread } from "./spread";
import { OWN, table } from "./sql";
import { colour } from "./theme";

interface OperatorRow {
  checkpoint_id: number;
  operator_name: string | null;
  operator_uid: string | null;
  operator_uid_hash: string;
  operator_parallelism: number;
  operator_max_parallelism: number;
  operator_total_size_in_bytes: number;
}
interface FileRow {
  operator_id: string;
  subtask: number | null;
  files: number;
  bytes: number;
  missing: number;
}

const SMALL = 32 * 1024 * 1024;
const SKEWED = 1.5;

export function overviewView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const about = "savepointdb shows the savepoints and checkpoints of Apache Flink as tables: a database each, a table each state. This is what is in one, how large it is, and how evenly it is spread over subtasks and key groups.";
  databaseView(main, "overview", "Overview", about, values, signal, (database, list, how) => overview(database, list, values.get("operator"), how, signal));
}

async function overview(database: string, list: Database[], wanted: string | null, how: Reading, signal: AbortSignal): Promise<Child> {
  const [listed, files, found] = await Promise.all([
    records<OperatorRow>(`SELECT * FROM ${table(database, "operators")}`, how),
    records<FileRow>(
      `SELECT operator_id, subtask, count(*) AS files, sum(size_bytes)::BIGINT AS bytes, count(*) FILTER (NOT "exists") AS missing FROM ${table(database, "files")} GROUP BY ALL ORDER BY ALL`,
      how,
    ),
    contents(database),
  ]);
  const operators = operatorsOf(found);
  const labelOf = (id: string) => {
    const row = listed.find((one) => one.operator_uid_hash === id);
    return operators.find((one) => one.id === id)?.label ?? row?.operator_uid ?? row?.operator_name ?? id;
  };
  const sizes = listed.map((row) => {
    const own = files.filter((file) => file.operator_id === row.operator_uid_hash && file.subtask !== null);
    const even = Array.from({ length: Math.max(row.operator_parallelism, 1) }, (_, subtask) => own.filter((file) => file.subtask === subtask).reduce((sum, file) => sum + file.bytes, 0));
    return { row, label: labelOf(row.operator_uid_hash), subtasks: even, bytes: row.operator_total_size_in_bytes };
  });
  sizes.sort((one, other) => other.bytes - one.bytes);
  const unreadable = found.states.filter((state) => state.decode_status === "unreadable");
  const undecoded = found.states.filter((state) => state.decode_status !== "decoded" && state.decode_status !== "unreadable");
  const some = (states: StateRow[]) => states.map((state) => state.state_name).slice(0, 3).join(", ") + (states.length > 3 ? " …" : "");
  const missing = files.reduce((sum, file) => sum + file.missing, 0);
  const backends = [...new Set(found.states.map((state) => state.state_backend).filter(Boolean))];
  const entry = list.find((one) => one.name === database);
  const own = list.find((one) => one.name === (entry?.alias_of ?? database));
  const cards: [string, Child, string?][] = [
    ...(own?.of ? [["Job", h("a", { class: "link", href: hashOf("jobs", { job: own.of.name }) }, own.of.title)] as [string, Child]] : []),
    ...(own?.created_at ? [["Written", age(own.created_at)] as [string, string]] : []),
    ["Checkpoint", String(listed[0]?.checkpoint_id ?? "–")],
    ["Size", bytes(sizes.reduce((sum, one) => sum + one.bytes, 0))],
    ["Operators", count(listed.length)],
    ["States", count(found.states.length)],
    ["Files", count(files.reduce((sum, file) => sum + file.files, 0)), missing ? `${plural(missing, "file")} missing` : undefined],
    ["Not decoded", count(undecoded.length), undecoded.length ? some(undecoded) : undefined],
    ...(unreadable.length ? [["Unreadable", count(unreadable.length), some(unreadable)] as [string, string, string]] : []),
    ["Backend", backends.join(", ") || "–"],
  ];
  const detail = h("div", {});
  const pick = (id: string) => {
    const operator = operators.find((one) => one.id === id);
    if (operator) void loading(detail, () => operatorDetail(database, operator, signal), signal);
  };
  const first = operators.find((one) => one.label === wanted) ?? operators.find((one) => one.id === sizes[0]?.row.operator_uid_hash) ?? operators[0];
  if (first) queueMicrotask(() => pick(first.id));
  const picker = select(
    "Operator",
    operators.map((one) => ({ value: one.id, text: one.label })),
    first?.id ?? "",
    pick,
  );
  return [
    h("dl", { class: "cards" }, cards.map(([name, value, warning]) => h("div", {}, h("dt", {}, name), h("dd", {}, value), warning ? h("dd", { class: "bad" }, warning) : null))),
    unreadableBox(unreadable, labelOf),
    questions(database, found),
    h("div", { class: "pictures" }, sizePictures(sizes, signal)),
    plainTable(
      "Operators",
      ["Operator", "uid", "States", "Parallelism", "Size", "Largest subtask"],
      sizes.map(({ row, label, bytes: size, subtasks }) => [
        h("button", { type: "button", class: "link", onclick: () => ((picker.querySelector("select")!.value = row.operator_uid_hash), pick(row.operator_uid_hash)) }, row.operator_name ?? label),
        row.operator_uid ?? "–",
        found.states.filter((state) => state.operator_id === row.operator_uid_hash).length,
        `${row.operator_parallelism} of ${row.operator_max_parallelism}`,
        measure(bytes(size)),
        skewText(subtasks),
      ]),
    ),
    own?.of ? growth(own.of, signal) : null,
    operators.length ? h("section", { "aria-label": "One operator" }, h("div", { class: "section-head" }, h("h2", {}, "Inside an operator"), picker), detail) : null,
  ];
}

/** States of which files cannot be read: each reason once. */
function unreadableBox(states: StateRow[], labelOf: (id: string) => string): HTMLElement | null {
  if (!states.length) return null;
  const reasons = [...Map.groupBy(states, (state) => state.decode_note ?? "")].map(([note, own]) =>
    h("li", {}, note, h("br"), h("span", { class: "note" }, own.map((state) => `${state.state_name} of ${labelOf(state.operator_id)}`).join(", "))),
  );
  return h("div", { class: "error", role: "alert" }, h("strong", {}, "Not all of this savepoint can be read"), h("ul", {}, reasons));
}

/** How far from even: the largest over the mean. */
export function skewText(values: number[]): Child {
  const found = skew(values);
  const text = `${found.toFixed(2)} × the mean`;
  return found > SKEWED ? h("span", { class: "bad" }, `${text} · skewed`) : text;
}

interface Size {
  row: OperatorRow;
  label: string;
  subtasks: number[];
  bytes: number;
}

function sizePictures(sizes: Size[], signal: AbortSignal): Child {
  const tree = h("div", { class: "canvas" });
  const heat = h("div", { class: "canvas" });
  void import("./charts").then(({ draw, axis }) => {
    if (signal.aborted) return;
    const data = sizes.map((one) => ({
      name: one.label,
      value: one.bytes,
      children: one.subtasks.map((value, subtask) => ({ name: `${one.label} · subtask ${subtask}`, value })).filter((child) => child.value > 0),
    }));
    const formatter = (item: { name: string; value: number }) => `${item.name}\n${bytes(item.value)}`;
    const border = { borderColor: "transparent", borderWidth: 1, gapWidth: 1 };
    draw(
      tree,
      `Sizes: ${sizes.map((one) => `${one.label} ${bytes(one.bytes)}`).join(", ")}`,
      () => ({
        tooltip: { renderMode: "richText", confine: true, formatter },
        series: [
          {
            type: "treemap",
            data: data.filter((one) => one.value > 0),
            roam: false,
            nodeClick: false,
            breadcrumb: { show: false },
            left: 0,
            right: 0,
            top: 0,
            bottom: 0,
            itemStyle: border,
            label: { formatter: (item: { name: string }) => item.name.replace(/^.* · /, "") },
            upperLabel: { show: false },
            levels: [{ itemStyle: { ...border, gapWidth: 3 } }, { itemStyle: border, upperLabel: { show: true, height: 22, color: colour("text") } }, { itemStyle: border }],
          },
        ],
      }),
      signal,
    );
    spread(heat, "Bytes by operator and subtask", sizes.map((one) => one.label), sizes.map((one) => one.subtasks), "subtask", bytes, { draw, axis }, signal);
  });
  return [
    h("figure", {}, h("figcaption", {}, "Bytes by operator and subtask"), tree),
    h("figure", {}, h("figcaption", {}, "Evenness: a row an operator, a cell a subtask; dark is more than the mean of the row"), heat),
  ];
}

interface Part {
  state_name: string;
  subtask: number | null;
  key_group: number | null;
  entries: number;
  bytes: number;
}

async function operatorDetail(database: string, operator: Operator, signal: AbortSignal): Promise<Child> {
  const names = (await columns(database, operator.table).catch(() => [])).map((column) => column.name);
  if (!names.includes("_key_group")) return h("p", { class: "empty" }, "This operator has no keyed state: nothing is spread by key.");
  const size = Math.max(...operator.states.map((state) => state.size_bytes));
  const holder = h("div", {});
  const offer = () => fill(holder, h("p", {}, h("button", { type: "button", onclick: () => void counted() }, "Count its entries"), ` reads about ${bytes(size)}`));
  const counted = async (partial = false) => {
    try {
      await count_(holder, database, operator, signal, partial ? null : () => void counted(true));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "CANCELLED") offer();
      else if (!signal.aborted) fill(holder, problem(error));
    }
  };
  if (size <= SMALL) void counted();
  else offer();
  return holder;
}

interface LargestKey {
  key: string;
  entries: number;
  bytes: number;
  key_group: number;
}

/** Counts with two queries: how the states are spread, and the largest keys. Each answer is shown as it comes. `withoutThem` counts what can be read; null where this is done. */
async function count_(holder: HTMLElement, database: string, operator: Operator, signal: AbortSignal, withoutThem: (() => void) | null): Promise<void> {
  const from = table(database, operator.table);
  const measured = "count(*) AS entries, coalesce(sum(strlen(value::VARCHAR)), 0)::BIGINT AS bytes";
  const questions = [
    `SELECT state_name, _subtask AS subtask, _key_group AS key_group, ${measured} FROM ${from} WHERE _key_group IS NOT NULL GROUP BY ALL ORDER BY ALL`,
    `SELECT CASE WHEN typeof(any_value(key)) = 'VARCHAR' THEN key::VARCHAR ELSE to_json(key)::VARCHAR END AS key, ${measured}, any_value(_key_group) AS key_group FROM ${from} WHERE _key_group IS NOT NULL GROUP BY key ORDER BY bytes DESC, entries DESC LIMIT 10`,
  ];
  const told = new Map<number, Status>();
  const progress = () => {
    const sum = (name: "bytes_read" | "bytes_total") => [...told.values()].reduce((total, one) => total + one.progress[name], 0);
    bar.show(sum("bytes_read"), sum("bytes_total"), `${bytes(sum("bytes_read"))} of ${bytes(sum("bytes_total"))}`);
  };
  const runs = questions.map((sql, number) => new Run({ sql: OWN + sql, database, allow_partial: withoutThem === null }, (status) => (told.set(number, status), progress())));
  const cancel = () => runs.forEach((run) => run.cancel());
  signal.addEventListener("abort", cancel);
  const bar = progressBar("Progress of the count", cancel);
  const [states, largest, lack] = [h("div", {}), h("div", {}), h("div", {})];
  const lacking: Unread[] = [];
  const failed = new Set<string>();
  fill(holder, bar.element, lack, states, largest);
  const shown = async <T>(run: Run, element: HTMLElement, show: (rows: T[]) => Child) => {
    try {
      const answer = await run.answer();
      fill(element, show(recordsOf<T>(answer)));
      lacking.push(...(answer.incomplete ?? []));
    } catch (error) {
      // What one of them cannot say, the other may.
      if (!(error instanceof ApiError) || error.code === "CANCELLED") throw error;
      if (!failed.has(error.message)) fill(element, problem(error, withoutThem ?? undefined));
      failed.add(error.message);
    }
  };
  try {
    await Promise.all([
      shown<Part>(runs[0], states, (parts) => statesOf(parts, operator, signal)),
      shown<LargestKey>(runs[1], largest, (keys) => (keys.length ? largestKeys(keys, database) : null)),
    ]);
  } finally {
    cancel();
    bar.element.remove();
    // Both queries lack the same.
    fill(lack, lackingBox(lacking));
    signal.removeEventListener("abort", cancel);
  }
}

function statesOf(parts: Part[], operator: Operator, signal: AbortSignal): Child {
  if (!parts.length) return h("p", { class: "empty" }, "Its keyed states are empty.");
  const [first] = operator.states;
  const states = [...new Set(parts.map((part) => part.state_name))];
  const holder = h("div", { class: "pictures wide" });
  const show = (of: string) => fill(holder, spreads(parts, states, first.parallelism, first.max_parallelism, of as "entries" | "bytes", signal));
  show("entries");
  const measures = [
    { value: "entries", text: "entries" },
    { value: "bytes", text: "bytes of values, as text" },
  ];
  return [select("Measure", measures, "entries", show), holder];
}

function largestKeys(keys: LargestKey[], database: string): Child {
  return plainTable(
    "The largest keys",
    ["Largest keys", "Entries", "Bytes of values, as text", "Key group"],
    keys.map((row) => [h("button", { type: "button", class: "link", onclick: () => go("keys", { key: row.key, dbs: database }) }, row.key), row.entries, measure(bytes(row.bytes)), row.key_group]),
  );
}

function spreads(parts: Part[], states: string[], parallelism: number, keyGroups: number, of: "entries" | "bytes", signal: AbortSignal): Child {
  const gathered = (length: number, placeOf: (part: Part) => number | null) =>
    states.map((state) => {
      const cells = new Array<number>(length).fill(0);
      for (const part of parts) {
        const at = placeOf(part);
        if (part.state_name === state && at !== null && at < length) cells[at] += part[of];
      }
      return cells;
    });
  const subtasks = gathered(parallelism, (part) => part.subtask);
  const groups = gathered(keyGroups, (part) => part.key_group);
  const [bySubtask, byGroup] = [h("div", { class: "canvas" }), h("div", { class: "canvas" })];
  const told = of === "bytes" ? bytes : (value: number) => plural(value, "entry").replace(/entrys$/, "entries");
  void import("./charts").then((charts) => {
    if (signal.aborted) return;
    spread(bySubtask, `${of} by state and subtask`, states, subtasks, "subtask", told, charts, signal);
    spread(byGroup, `${of} by state and key group`, states, groups, "key group", told, charts, signal);
  });
  return [
    h("figure", {}, h("figcaption", {}, "By state and subtask; dark is more than the mean"), bySubtask),
    h("figure", {}, h("figcaption", {}, "By state and key group; dark is more than the mean"), byGroup),
    plainTable(
      "States of the operator",
      ["State", "Entries", "Bytes of values, as text", "Largest subtask", "Largest key group"],
      states.map((state, number) => {
        const own = parts.filter((part) => part.state_name === state);
        const sum = (name: "entries" | "bytes") => own.reduce((total, part) => total + part[name], 0);
        return [state, sum("entries"), measure(bytes(sum("bytes"))), skewText(subtasks[number]), `${skew(groups[number]).toFixed(2)} × the mean`];
      }),
    ),
  ];
}
