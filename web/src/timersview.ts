// When the timers of a savepoint will fire.
import { Reading, records } from "./asking";
import { contents, operatorsOf } from "./catalog";
import { Child, h } from "./dom";
import { plural, utc } from "./format";
import { empty, loading, plainTable } from "./panel";
import type { At } from "./savepointview";
import { table } from "./sql";
import { colour } from "./theme";

interface Bucket {
  operator_id: string;
  timer_service: string;
  time_domain: string;
  lo: number;
  hi: number;
  bucket: number;
  timers: number;
}

const BUCKETS = 60;

export function timersView(body: HTMLElement, { name }: At, _values: URLSearchParams, signal: AbortSignal): void {
  void loading(body, (how) => timers(name, how, signal), signal);
}

async function timers(database: string, how: Reading, signal: AbortSignal): Promise<Child> {
  const all = table(database, "timers");
  const group = "operator_id, timer_service, time_domain";
  const [buckets, found] = await Promise.all([
    records<Bucket>(
      `WITH spans AS (SELECT ${group}, min(epoch_ms("timestamp")) AS lo, max(epoch_ms("timestamp")) AS hi FROM ${all} GROUP BY ALL) ` +
        `SELECT ${group}, lo, hi, least(${BUCKETS - 1}, floor((epoch_ms("timestamp") - lo) * ${BUCKETS}.0 / greatest(hi - lo, 1)))::INTEGER AS bucket, count(*) AS timers ` +
        `FROM ${all} JOIN spans USING (${group}) GROUP BY ALL ORDER BY ALL`,
      how,
    ),
    contents(database),
  ]);
  if (!buckets.length) return empty("No timer is registered in this savepoint.");
  const labels = new Map(operatorsOf(found).map((operator) => [operator.id, operator.label]));
  const groups = [...Map.groupBy(buckets, (one) => `${one.operator_id} ${one.timer_service} ${one.time_domain}`).values()];
  const told = groups.map((own) => {
    const [{ operator_id, timer_service, time_domain, lo, hi }] = own;
    return { own, lo, hi, label: labels.get(operator_id) ?? operator_id, service: timer_service, domain: time_domain.toLowerCase(), total: own.reduce((sum, one) => sum + one.timers, 0) };
  });
  return [
    h("p", { class: "about" }, "When the registered timers fire, by operator, timer service and time domain. Times are UTC."),
    plainTable(
      "Timers by operator and service",
      ["Operator", "Service", "Domain", "Timers", "First", "Last"],
      told.map(({ label, service, domain, total, lo, hi }) => [label, service, domain, total, utc(lo), utc(hi)]),
    ),
    h(
      "div",
      { class: "pictures" },
      told.map(({ own, label, service, domain, total, lo, hi }) => {
        const canvas = h("div", { class: "canvas" });
        const caption = `${label} · ${service} · ${domain} time · ${plural(total, "timer")}`;
        void histogram(canvas, caption, own, lo, hi, signal);
        return h("figure", {}, h("figcaption", {}, caption), canvas);
      }),
    ),
  ];
}

async function histogram(canvas: HTMLElement, label: string, buckets: Bucket[], lo: number, hi: number, signal: AbortSignal): Promise<void> {
  const { draw, axis } = await import("./charts");
  if (signal.aborted) return;
  const span = Math.max(hi - lo, 1);
  const number = lo === hi ? 1 : BUCKETS;
  const heights = new Array<number>(number).fill(0);
  for (const { bucket, timers: height } of buckets) heights[Math.min(bucket, number - 1)] += height;
  const starts = heights.map((_, at) => utc(Math.round(lo + (span * at) / BUCKETS)));
  draw(
    canvas,
    `${label}, from ${utc(lo)} to ${utc(hi)}`,
    () => ({
      tooltip: { renderMode: "richText", confine: true, formatter: ({ name, value }: { name: string; value: number }) => `from ${name}\n${plural(value, "timer")}` },
      grid: { left: 8, right: 16, top: 16, bottom: 8, containLabel: true },
      xAxis: axis({ type: "category", data: starts }),
      yAxis: axis({ type: "value", minInterval: 1 }),
      series: [{ type: "bar", data: heights, barCategoryGap: "10%", barMaxWidth: 48, itemStyle: { color: colour("chart-1") } }],
    }),
    signal,
  );
}
