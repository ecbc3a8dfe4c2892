// Where the bytes of a savepoint are: its operators and their subtasks as pictures, one operator from within, and how the job grew.
import { Reading } from "./asking";
import { contents, operatorsOf } from "./catalog";
import { Child, fill, h, select } from "./dom";
import { bytes } from "./format";
import { growth } from "./growth";
import { loading } from "./panel";
import { partLink, remember } from "./route";
import type { At } from "./savepointview";
import { Size, sizesOf } from "./sizes";
import { spread } from "./spread";
import { colour } from "./theme";
import { operatorXray } from "./xray";

export function xrayView(body: HTMLElement, at: At, values: URLSearchParams, signal: AbortSignal): void {
  void loading(body, (how) => xray(at, values.get("operator"), how, signal), signal);
}

async function xray({ name: database, list }: At, wanted: string | null, how: Reading, signal: AbortSignal): Promise<Child> {
  const [{ sizes }, found] = await Promise.all([sizesOf(database, how), contents(database)]);
  const operators = operatorsOf(found);
  const entry = list.find((one) => one.name === database);
  const own = list.find((one) => one.name === (entry?.alias_of ?? database));
  const detail = h("div", {});
  const pick = (id: string) => {
    const operator = operators.find((one) => one.id === id);
    if (operator) fill(detail, operatorXray(database, operator, sizes.find((one) => one.id === id)?.bytes ?? 0, signal));
  };
  const first = operators.find((one) => one.label === wanted) ?? operators.find((one) => one.id === sizes[0]?.id) ?? operators[0];
  if (first) queueMicrotask(() => pick(first.id));
  const chosen = (id: string) => {
    remember(partLink(database, "xray", { operator: operators.find((one) => one.id === id)?.label }));
    pick(id);
  };
  const picker = select(
    "Operator",
    operators.map((one) => ({ value: one.id, text: one.label })),
    first?.id ?? "",
    chosen,
  );
  return [
    h("div", { class: "pictures" }, sizePictures(sizes, signal)),
    operators.length ? h("section", { "aria-label": "One operator" }, h("div", { class: "section-head" }, h("h2", {}, "Inside an operator"), picker), detail) : null,
    own?.of ? growth(own.of, signal) : null,
  ];
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
            label: { color: colour("on-accent"), formatter: (item: { name: string }) => item.name.replace(/^.* · /, "") },
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
    h("figure", {}, h("figcaption", {}, "Balance: one row per operator, one cell per subtask; a stronger colour is more than the row’s average"), heat),
  ];
}
