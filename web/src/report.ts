// What a script does to a savepoint, or would do: each statement, its rows before and after, and the new savepoint in numbers.
import { Child, h } from "./dom";
import { bytes, count, plural } from "./format";
import { measure, plainTable } from "./panel";
import type { Effect, Report, Sample } from "./writes";

const MOST_OFFSETS = 100;

export function reportOf(report: Report): Child {
  const { operators, files, file_bytes, metadata_bytes, warnings } = report.summary;
  const cards: [string, string][] = [
    ["Rows", count(report.rows)],
    ["Operators", count(operators)],
    ["Files", count(files)],
    ["Bytes of files", bytes(file_bytes)],
    ["Metadata", bytes(metadata_bytes)],
  ];
  return [
    warnings.length ? h("div", { class: "banner", role: "note", "aria-label": "Warnings" }, warnings.map((warning) => h("div", {}, warning))) : null,
    h("ol", { class: "effects", "aria-label": "Statements" }, report.statements.map((effect) => h("li", {}, effectOf(effect)))),
    offsetsOf(report),
    h("dl", { class: "cards", "aria-label": "The new savepoint" }, cards.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  ];
}

function effectOf(effect: Effect): Child {
  const counts: [number, string][] = [
    [effect.changed, "changed"],
    [effect.added, "added"],
    [effect.removed, "removed"],
  ];
  const parts = counts.filter(([rows]) => rows > 0).map(([rows, what]) => `${plural(rows, "row")} ${what}`);
  if (effect.key_groups) parts.push(`in ${plural(effect.key_groups, "key group")}`);
  return [
    h("p", {}, h("strong", {}, effect.table), " ", effect.text),
    parts.length ? h("p", { class: "note" }, parts.join(" · ")) : null,
    effect.samples.length ? samplesOf(effect) : null,
  ];
}

function samplesOf({ table, samples, changed, added, removed }: Effect): Child {
  const rows = samples.map((sample) => [valuesOf(sample.place), valuesOf(sample.before), valuesOf(sample.after)]);
  const more = changed + added + removed - samples.length;
  return [plainTable(`Rows of ${table} before and after`, ["Row", "Before", "After"], rows), more > 0 ? h("p", { class: "note" }, `and ${count(more)} more`) : null];
}

function valuesOf(values: Sample["before"]): Child {
  if (values === null) return h("span", { class: "absent" }, "–");
  const several = Object.keys(values).length > 1;
  return Object.entries(values).map(([name, value]) => h("div", { class: "value" }, several || name !== "value" ? `${name} ` : "", h("code", {}, value)));
}

function offsetsOf({ offsets }: Report): Child {
  if (!offsets.length) return null;
  const rows = offsets.slice(0, MOST_OFFSETS).map((one) => [one.operator, one.split, measure(one.before === null ? "–" : count(one.before)), measure(count(one.after))]);
  const more = offsets.length - MOST_OFFSETS;
  return [plainTable("Offsets before and after", ["Operator", "Split", "Before", "After"], rows), more > 0 ? h("p", { class: "note" }, `and ${count(more)} more`) : null];
}
