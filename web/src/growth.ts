// How the savepoints of a job grew, operator by operator: from what `_metadata` says, so no state is read.
import { ApiError } from "./api";
import { reading, records } from "./asking";
import { fill, h } from "./dom";
import { bytes, plural } from "./format";
import { Job, shortName } from "./jobs";
import { linkOf, visit } from "./route";
import { literal, table } from "./sql";
import { colour } from "./theme";

interface Size {
  database: string;
  operator: string;
  bytes: number;
}

/** So many checkpoints are drawn, the newest, and so many operators, the largest. */
const MOST = 60;
const OPERATORS = 5;
const OTHERS = "all others";

/** A picture; null where there is nothing to compare. */
export function growth(job: Job, signal: AbortSignal): HTMLElement | null {
  const newest = job.databases.filter((one) => one.error === null).slice(0, MOST).reverse();
  if (newest.length < 2) return null;
  const canvas = h("div", { class: "canvas" });
  const caption = `Bytes by operator in ${newest.length === MOST ? "the newest " : ""}${plural(newest.length, "savepoint")}, the oldest first`;
  const figure = h("figure", {}, h("figcaption", {}, caption), canvas);
  const names = newest.map((one) => one.name);
  const sql =
    "WITH sizes AS (SELECT _database AS database, coalesce(operator_uid, operator_name, operator_uid_hash) AS operator, sum(operator_total_size_in_bytes) AS bytes " +
    `FROM ${table(job.entry.history, "operators")} WHERE _database IN (${names.map(literal).join(", ")}) GROUP BY ALL), ` +
    `largest AS (SELECT operator FROM sizes GROUP BY operator ORDER BY max(bytes) DESC, operator LIMIT ${OPERATORS}) ` +
    `SELECT database, CASE WHEN operator IN (SELECT operator FROM largest) THEN operator ELSE ${literal(OTHERS)} END AS operator, sum(bytes)::BIGINT AS bytes FROM sizes GROUP BY ALL`;
  void records<Size>(sql, reading(signal, true)).then(
    async (sizes) => {
      const { draw, axis } = await import("./charts");
      if (signal.aborted) return;
      const at = new Map(names.map((name, place) => [name, place]));
      const titles = newest.map(shortName);
      const series = [...Map.groupBy(sizes, (one) => one.operator)].map(([operator, own]) => {
        const data = new Array<number | null>(names.length).fill(null);
        for (const { database, bytes: size } of own) data[at.get(database)!] = size;
        return { name: operator, type: "line", stack: "bytes", areaStyle: { opacity: 0.35 }, showSymbol: names.length < 30, data };
      });
      const sum = (of: string) => sizes.filter((one) => one.database === of).reduce((total, one) => total + one.bytes, 0);
      draw(
        canvas,
        `Growth from ${bytes(sum(names[0]))} to ${bytes(sum(names.at(-1)!))}`,
        () => ({
          tooltip: { renderMode: "richText", confine: true, trigger: "axis", valueFormatter: (value: number | null) => (value === null ? "–" : bytes(value)) },
          legend: { type: "scroll", top: 0, textStyle: { color: colour("muted") }, pageTextStyle: { color: colour("muted") } },
          grid: { left: 8, right: 16, top: 34, bottom: 4, containLabel: true },
          xAxis: axis({ type: "category", data: titles, boundaryGap: false }),
          yAxis: axis({ type: "value", splitNumber: 3, axisLabel: { color: colour("muted"), formatter: (value: number) => bytes(value) } }),
          series,
        }),
        signal,
        (_name, place) => visit(linkOf(names[place])),
      );
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      // A picture is a courtesy: whatever fails is told where it is asked for.
      if (!signal.aborted) fill(figure, h("p", { class: "note" }, `How the job grew is not known: ${error.message}`));
    },
  );
  return figure;
}
