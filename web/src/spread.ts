// How evenly something is spread: a row of cells for each name, coloured by how far each is from the mean of its row.
import type { Option } from "./charts";
import { skew } from "./format";
import { colour } from "./theme";

/** So many times the mean is as dark as it gets. */
const FAR = 3;

interface Charts {
  draw: (element: HTMLElement, label: string, make: () => Option, signal: AbortSignal) => void;
  axis: (more: object) => object;
}
interface Item {
  data: [x: number, y: number, value: number, times: number];
}

export function spread(
  element: HTMLElement,
  label: string,
  names: string[],
  cells: number[][],
  unit: string,
  told: (value: number) => string,
  { draw, axis }: Charts,
  signal: AbortSignal,
): void {
  const width = Math.max(1, ...cells.map((row) => row.length));
  const data = cells.flatMap((row, y) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / Math.max(row.length, 1);
    return row.map((value, x): Item["data"] => [x, y, value, mean ? value / mean : 0]);
  });
  const said = names.map((name, y) => `${name}: largest ${unit} has ${skew(cells[y]).toFixed(2)} times the mean`);
  element.style.height = `${Math.min(520, 70 + 30 * names.length)}px`;
  draw(
    element,
    `${label}. ${said.join("; ")}`,
    () => ({
      tooltip: {
        renderMode: "richText",
        confine: true,
        formatter: ({ data: [x, y, value, times] }: Item) => `${names[y]}\n${unit} ${x}: ${told(value)}\n${times.toFixed(2)} × the mean`,
      },
      grid: { left: 8, right: 8, top: 8, bottom: 34, containLabel: true },
      xAxis: axis({ type: "category", data: Array.from({ length: width }, (_, x) => String(x)), name: unit, nameLocation: "middle", nameGap: 24, splitLine: { show: false } }),
      yAxis: axis({
        type: "category",
        data: names,
        inverse: true,
        axisLabel: { color: colour("text"), width: 130, overflow: "truncate" },
      }),
      visualMap: {
        show: false,
        dimension: 3,
        min: 0,
        max: FAR,
        inRange: { color: [colour("heat-0"), colour("heat-1"), colour("heat-2")] },
      },
      series: [{ type: "heatmap", data, itemStyle: { borderColor: colour("surface"), borderWidth: width > 64 ? 0 : 1 } }],
    }),
    signal,
  );
}
