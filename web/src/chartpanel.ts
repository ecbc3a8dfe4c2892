// A chart of an answer: which columns, and how.
import type { Answer } from "./api";
import { isNumber, textOf } from "./cell";
import { fill, h, select } from "./dom";

const KINDS = ["bar", "line", "scatter", "pie"] as const;
const MOST = 2000;

interface Chart {
  kind: string;
  x: string;
  y: string;
  by: string;
}

/** A chart as text for the address: its kind, and the numbers of the columns of x, y and series. */
function textOfChart({ kind, x, y, by }: Chart): string {
  return [kind, x, y, by].join(" ");
}

/** The chart that a text says, where it fits the columns. */
function chartOf(text: string, columns: number, numeric: number[]): Chart | null {
  const [kind, x, y, by] = text.split(" ");
  const isColumn = (value: string) => /^-?\d+$/.test(value ?? "") && Number(value) >= -1 && Number(value) < columns;
  return KINDS.some((one) => one === kind) && isColumn(x) && isColumn(by) && numeric.includes(Number(y)) ? { kind, x, y, by } : null;
}

/** `given` is a chart as `onChange` is told it. */
export function chartPanel(answer: Answer, signal: AbortSignal, given: string, onChange: (text: string) => void): HTMLElement {
  const numeric = answer.columns.map((column, number) => (isNumber(column) ? number : -1)).filter((number) => number >= 0 && !answer.columns[number].name.startsWith("_"));
  if (!numeric.length || !answer.rows.length) {
    return h("p", { class: "empty" }, "A chart needs rows with a column of numbers: try GROUP BY with count(*).");
  }
  const others = answer.columns.map((_, number) => number).filter((number) => !numeric.includes(number));
  const times = others.filter((number) => /^(TIMESTAMP|DATE|TIME)/.test(answer.columns[number].type));
  const first = times[0] ?? others[0] ?? (numeric.length > 1 ? numeric[0] : -1);
  const state: Chart = chartOf(given, answer.columns.length, numeric) ?? {
    kind: times.length ? "line" : "bar",
    x: String(first),
    y: String(numeric.find((number) => number !== first) ?? numeric[0]),
    by: "-1",
  };
  const holder = h("div", { class: "chart" });
  const note = h("p", { class: "note" });
  const names = answer.columns.map((column, number) => ({ value: String(number), text: column.name }));
  const numbers = numeric.map((number) => names[number]);
  let drawn = new AbortController();
  signal.addEventListener("abort", () => drawn.abort());

  const show = async () => {
    onChange(textOfChart(state));
    drawn.abort();
    drawn = new AbortController();
    const canvas = h("div", { class: "canvas" });
    fill(holder, canvas);
    note.textContent = answer.rows.length > MOST ? `The first ${MOST} of ${answer.rows.length} rows.` : "";
    const { draw, axis } = await import("./charts");
    if (signal.aborted) return;
    const label = `${state.kind} chart of ${names[Number(state.y)].text} by ${names[Number(state.x)]?.text ?? "row"}`;
    draw(canvas, label, () => optionOf(answer, state, axis), drawn.signal);
  };
  const change = (name: keyof typeof state) => (value: string) => {
    state[name] = value;
    void show();
  };
  const controls = h(
    "div",
    { class: "controls" },
    select("Chart", KINDS.map((kind) => ({ value: kind, text: kind })), state.kind, change("kind")),
    select("X", [{ value: "-1", text: "row number" }, ...names], state.x, change("x")),
    select("Y", numbers, state.y, change("y")),
    select("Series", [{ value: "-1", text: "one" }, ...names], state.by, change("by")),
  );
  void show();
  return h("div", { class: "chart-area" }, controls, holder, note);
}

function optionOf(answer: Answer, state: Chart, axis: (more: object) => object): Record<string, unknown> {
  const [x, y, by] = [Number(state.x), Number(state.y), Number(state.by)];
  const rows = answer.rows.slice(0, MOST);
  const xOf = (row: unknown[], number: number) => (x < 0 ? String(number + 1) : row[x] === null ? "NULL" : textOf(row[x]));
  const points = rows.map((row, number) => ({ x: xOf(row, number), y: row[y] === null ? null : Number(row[y]), by: by < 0 ? answer.columns[y].name : textOf(row[by]) || "NULL" }));
  if (state.kind === "pie") {
    return { tooltip: { renderMode: "richText", confine: true }, series: [{ type: "pie", radius: ["35%", "70%"], data: points.map((point) => ({ name: point.x, value: point.y })) }] };
  }
  const categories = [...new Set(points.map((point) => point.x))];
  const valueX = x >= 0 && isNumber(answer.columns[x]) && state.kind !== "bar";
  const series = [...Map.groupBy(points, (point) => point.by)].map(([name, own]) => ({
    name,
    type: state.kind,
    showSymbol: own.length < 100,
    large: true,
    data: own.map((point) => [valueX ? Number(point.x) : point.x, point.y]),
  }));
  return {
    tooltip: { renderMode: "richText", confine: true, trigger: state.kind === "scatter" ? "item" : "axis" },
    legend: series.length > 1 ? { type: "scroll", textStyle: { color: "inherit" } } : undefined,
    grid: { left: 16, right: 24, top: 40, bottom: categories.length > 40 ? 56 : 24, containLabel: true },
    dataZoom: categories.length > 40 ? [{ type: "slider", height: 20, bottom: 8 }] : [],
    xAxis: axis(valueX ? { type: "value", scale: true, name: answer.columns[x].name } : { type: "category", data: categories }),
    yAxis: axis({ type: "value", scale: state.kind !== "bar", name: answer.columns[y].name }),
    series,
  };
}
