// A savepoint at a glance: what is in it, how large, and how evenly it is spread.
import { Reading, records } from "./asking";
import { contents, Contents, Database, operatorsOf, StateRow } from "./catalog";
import { Child, fill, h, select } from "./dom";
import { age, bytes, count, plural } from "./format";
import { growth } from "./growth";
import { databaseView, measure, plainTable } from "./panel";
import { questions } from "./questions";
import { hashOf, linkOf } from "./route";
import { spread } from "./spread";
import { table } from "./sql";
import { colour } from "./theme";
import { operatorXray, skewText } from "./xray";

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
    if (operator) fill(detail, operatorXray(database, operator, sizes.find((one) => one.row.operator_uid_hash === id)?.bytes ?? 0, signal));
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
        statesOf(found, row.operator_uid_hash, database),
        `${row.operator_parallelism} of ${row.operator_max_parallelism}`,
        measure(bytes(size)),
        skewText(subtasks),
      ]),
    ),
    own?.of ? growth(own.of, signal) : null,
    operators.length ? h("section", { "aria-label": "One operator" }, h("div", { class: "section-head" }, h("h2", {}, "Inside an operator"), picker), detail) : null,
  ];
}

/** The number of states of an operator, and their tables. */
function statesOf({ states }: Contents, operator: string, database: string): Child {
  const own = states.filter((state) => state.operator_id === operator);
  const [first] = own;
  return own.length === 1 && first.table_name !== null ? h("a", { class: "link number", href: linkOf(database, first.table_name), title: first.table_name }, "1") : own.length ? h("a", { class: "link number", href: linkOf(database) }, count(own.length)) : 0;
}

/** States of which files cannot be read: each reason once. */
function unreadableBox(states: StateRow[], labelOf: (id: string) => string): HTMLElement | null {
  if (!states.length) return null;
  const reasons = [...Map.groupBy(states, (state) => state.decode_note ?? "")].map(([note, own]) =>
    h("li", {}, note, h("br"), h("span", { class: "note" }, own.map((state) => `${state.state_name} of ${labelOf(state.operator_id)}`).join(", "))),
  );
  return h("div", { class: "error", role: "alert" }, h("strong", {}, "Not all of this savepoint can be read"), h("ul", {}, reasons));
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
