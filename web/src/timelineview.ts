// The timeline of a key: a line of checkpoints for each state, with what the key had there, and marks where it changed.
import { ApiError } from "./api";
import type { Database } from "./catalog";
import { cell, record, showValue } from "./cell";
import { keep, kept } from "./context";
import { announce, Child, fill, h } from "./dom";
import { count, moment, plural } from "./format";
import type { OfJob } from "./jobview";
import { keyField, keyForm } from "./keyform";
import { shortName } from "./jobs";
import { empty, problem } from "./panel";
import { progressBar } from "./progressbar";
import { jobLink, keysLink, remember, visit } from "./route";
import { movesOf, numbersOf, placeOf, Point, Run, runsOf, StateLine, timeline, Timeline, valueOf } from "./timeline";

/** So many runs of a state are shown at first, the newest. */
const MOST_RUNS = 60;
/** So many checkpoints are asked for at first. */
const NEWEST = 100;
const MOST_ENTRIES = 5;
/** What a chart leaves out; null would be 0. */
const NOTHING = "-";

export function timelineView(part: HTMLElement, { job, list }: OfJob, values: URLSearchParams, signal: AbortSignal): void {
  let search = new AbortController();
  signal.addEventListener("abort", () => search.abort());
  const key = keyField(values.get("key") ?? kept().key ?? "");
  const body = h("div", { class: "view-body" });

  const find = async (last: number | null = NEWEST) => {
    search.abort();
    const controller = new AbortController();
    search = controller;
    keep({ key: key.value });
    remember(jobLink(job.name, "timeline", { key: key.value }));
    if (!key.value) return fill(body, empty("Type a key to see its values in every checkpoint of the job, state by state."));
    const bar = progressBar("Progress of the search", () => controller.abort());
    const cut = last !== null && job.databases.length > last ? last : null;
    bar.show(0, 0, `${plural(cut ?? job.databases.length, "savepoint")} of ${job.title}`);
    fill(body, bar.element);
    body.setAttribute("aria-busy", "true");
    try {
      const found = await timeline(job.name, key.value, cut, controller.signal);
      const all = cut === null ? null : h("p", { class: "banner", role: "note" }, `These are the newest ${cut}. `, h("button", { type: "button", class: "link", onclick: () => void find(null) }, `All ${count(job.databases.length)}`));
      if (!controller.signal.aborted) fill(body, all, linesOf(found, list, controller.signal));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (signal.aborted || search !== controller) return;
      fill(body, error.code === "CANCELLED" ? h("p", { class: "banner", role: "note" }, "Cancelled") : problem(error));
    } finally {
      if (search === controller) body.removeAttribute("aria-busy");
    }
  };
  const about = "The values of one key in each checkpoint of this job, state by state, the oldest first. Neighbours without a change are one entry. Click a checkpoint to open it.";
  fill(part, keyForm(key, () => void find()), h("p", { class: "about" }, about), body);
  void find();
  key.focus();
}

/** The lines of all states of a key. */
export function linesOf(found: Timeline, list: Database[], signal: AbortSignal): Child {
  const known = new Map(list.map((one) => [one.name, shortName(one)]));
  const titleOf = (name: string) => known.get(name) ?? name;
  const errors = new Map(found.states.flatMap(({ points }) => points.filter((point) => point.error !== null).map((point) => [point.database, point.error])));
  const lines = found.states.filter(({ points }) => points.some((point) => point.rows.length));
  announce(lines.length ? `${plural(lines.length, "state")} with this key` : "Nothing was found");
  return [
    errors.size
      ? h("div", { class: "error", role: "alert" }, h("strong", {}, "Not every checkpoint could be read"), h("ul", {}, [...errors].map(([name, error]) => h("li", {}, `${titleOf(name)}: ${error}`))))
      : null,
    lines.length ? null : empty(errors.size ? "What could be read has no state for this key." : "No checkpoint of this job has state for this key."),
    [...Map.groupBy(lines, (line) => line.operator)].map(([operator, own]) => h("section", { class: "operator" }, h("h2", {}, operator), own.map((line) => lineOf(line, found.key, titleOf, signal)))),
  ];
}

type Titles = (name: string) => string;

function lineOf(line: StateLine, key: string, titleOf: Titles, signal: AbortSignal): HTMLElement {
  const runs = runsOf(line.points);
  const changes = runs.filter((run) => run.changed).length;
  const ordered = h("ol", { class: "runs", "aria-label": `${line.state}, checkpoint by checkpoint`, tabindex: 0 });
  const show = (from: number) => {
    const items = runs.slice(from).map((run, at) => runOf(run, runs[from + at - 1], line, key, titleOf));
    const more = h("li", { class: "run more" }, h("button", { type: "button", class: "link", onclick: () => show(0) }, `${count(from)} earlier`));
    fill(ordered, from ? more : null, items);
  };
  show(Math.max(0, runs.length - MOST_RUNS));
  // The newest is what is looked for first.
  requestAnimationFrame(() => (ordered.scrollLeft = ordered.scrollWidth));
  const numbers = numbersOf(line.points);
  const facts = [changes ? plural(changes, "change") : "no change", `in ${plural(line.points.length, "checkpoint")}`].join(" ");
  return h(
    "article",
    { class: "timeline", "aria-label": `${line.state} of ${line.operator}` },
    h("div", { class: "section-head" }, h("h3", {}, line.state), h("span", { class: "note" }, facts)),
    line.is_cut ? h("p", { class: "banner" }, "The key has more entries than are shown here.") : null,
    numbers && changes ? chartOf(line, numbers, key, titleOf, signal) : null,
    ordered,
  );
}

function runOf(run: Run, before: Run | undefined, line: StateLine, key: string, titleOf: Titles): HTMLElement {
  const [first] = run.points;
  const name = run.points.length === 1 ? titleOf(first.database) : `${titleOf(first.database)} … ${titleOf(run.last.database)}`;
  const when = [run.points.length > 1 ? plural(run.points.length, "checkpoint") : "", first.created_at ? moment(first.created_at) : ""].filter(Boolean).join(" · ");
  return h(
    "li",
    { class: ["run", run.changed ? "moved" : "", first.error === null ? "" : "broken"].filter(Boolean).join(" ") },
    h("a", { class: "link", href: keysLink(run.last.database, key), title: `Open ${run.last.database}` }, name),
    h("div", { class: "value" }, first.error === null ? valueShown(first, before?.last, line) : h("span", { class: "bad", title: first.error }, "unreadable")),
    h("small", { title: first.created_at ?? "" }, run.changed ? h("span", { class: "mark" }, "changed") : null, when),
  );
}

function valueShown(point: Point, before: Point | undefined, line: StateLine): Child {
  const title = `${line.state} in ${point.database}`;
  if (!point.rows.length) return h("span", { class: "absent" }, "not there");
  const value = valueOf(point);
  if (value !== undefined) {
    const last = before && valueOf(before);
    const shown = record(value, title, last);
    return shown.tagName === "DL" ? shown : h("span", { class: before && point.changed ? "changed" : null }, shown, stepOf(last, value));
  }
  const moves = before && movesOf(before.rows, point.rows);
  const told = moves && [moves.added ? `+${moves.added}` : "", moves.removed ? `−${moves.removed}` : "", moves.changed ? `${moves.changed} changed` : ""].filter(Boolean).join(", ");
  return [
    h("button", { type: "button", class: "link", onclick: () => showValue(point.rows, title) }, plural(point.rows.length, "entry").replace(/entrys$/, "entries")),
    told ? h("small", { class: "step" }, told) : null,
    h("ul", { class: "entries" }, point.rows.slice(0, MOST_ENTRIES).map((row) => h("li", {}, h("span", { class: "note" }, placeOf(row)), " ", "value" in row ? cell(row.value, title) : ""))),
    point.rows.length > MOST_ENTRIES ? h("span", { class: "note" }, `and ${count(point.rows.length - MOST_ENTRIES)} more`) : null,
  ];
}

/** How much a number grew. */
function stepOf(before: unknown, now: unknown): Child {
  if ((typeof before !== "number" && typeof before !== "bigint") || (typeof now !== "number" && typeof now !== "bigint")) return null;
  const step = typeof before === typeof now ? (now as number) - (before as number) : Number(now) - Number(before);
  return step ? h("small", { class: "step" }, `${step > 0 ? "+" : "−"}${count(step < 0 ? -step : step)}`) : null;
}

function chartOf(line: StateLine, numbers: (number | null)[], key: string, titleOf: Titles, signal: AbortSignal): HTMLElement {
  const canvas = h("div", { class: "canvas" });
  const names = line.points.map((point) => titleOf(point.database));
  void import("./charts").then(({ draw, axis }) => {
    if (signal.aborted) return;
    const marked = line.points.map((point, at) => ({ value: numbers[at] ?? NOTHING, symbolSize: point.changed ? 8 : 4 }));
    draw(
      canvas,
      `${line.state} by checkpoint, from ${numbers[0] ?? "nothing"} to ${numbers.at(-1) ?? "nothing"}`,
      () => ({
        tooltip: { renderMode: "richText", confine: true, trigger: "axis" },
        grid: { left: 8, right: 16, top: 12, bottom: 4, containLabel: true },
        xAxis: axis({ type: "category", data: names }),
        yAxis: axis({ type: "value", scale: true, splitNumber: 3 }),
        series: [{ name: line.state, type: "line", data: marked, showSymbol: numbers.length <= 200, connectNulls: false }],
      }),
      signal,
      (_name, place) => visit(keysLink(line.points[place].database, key)),
    );
  });
  return h("div", { class: "spark" }, canvas);
}
