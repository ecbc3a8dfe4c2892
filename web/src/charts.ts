// ECharts with what is used of it. Loaded when the first chart is drawn.
import { BarChart, HeatmapChart, LineChart, PieChart, ScatterChart, TreemapChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { EChartsCoreOption, init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { colour, onTheme } from "./theme";

use([
  AriaComponent,
  BarChart,
  CanvasRenderer,
  DataZoomComponent,
  GridComponent,
  HeatmapChart,
  LegendComponent,
  LineChart,
  PieChart,
  ScatterChart,
  TooltipComponent,
  TreemapChart,
  VisualMapComponent,
]);

export type Option = EChartsCoreOption;

/** Draws, and draws again when size or colours change, until the signal. `make` is asked each time: it reads the colours. */
export function draw(element: HTMLElement, label: string, make: () => Option, signal: AbortSignal, onClick?: (name: string, place: number) => void): void {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", label);
  const chart = init(element, null, { renderer: "canvas" });
  const show = () => {
    const text = colour("text");
    const line = colour("line");
    chart.setOption(
      {
        animation: false,
        textStyle: { color: text, fontFamily: getComputedStyle(document.body).fontFamily },
        color: ["1", "2", "3", "4", "5", "6"].map((number) => colour(`chart-${number}`)),
        // Drawn on the canvas: as HTML it would be markup made of values, and need inline styles.
        tooltip: { renderMode: "richText", confine: true, backgroundColor: colour("raised"), borderColor: line, textStyle: { color: text } },
        ...make(),
      },
      true,
    );
  };
  show();
  onTheme(show, signal);
  const resized = new ResizeObserver(() => chart.resize());
  resized.observe(element);
  if (onClick) chart.on("click", (event) => onClick(event.name, event.dataIndex));
  signal.addEventListener("abort", () => {
    resized.disconnect();
    chart.dispose();
  });
}

/** An axis in our colours. */
export function axis(more: object): object {
  const quiet = { lineStyle: { color: colour("line") } };
  return { axisLine: quiet, splitLine: quiet, axisTick: quiet, axisLabel: { color: colour("muted"), hideOverlap: true }, nameTextStyle: { color: colour("muted") }, ...more };
}
