// How far something is that takes time, and the button that ends it.
import { h } from "./dom";

export interface Bar {
  element: HTMLElement;
  show: (done: number, all: number, text: string) => void;
}

export function progressBar(label: string, onCancel: () => void): Bar {
  const bar = h("progress", { "aria-label": label });
  const told = h("span", { class: "told", role: "status" });
  const element = h("div", { class: "progress" }, bar, told, h("button", { type: "button", class: "danger", onclick: onCancel }, "■ Cancel"));
  const show = (done: number, all: number, text: string) => {
    if (all > 0) {
      bar.max = all;
      bar.value = Math.min(done, all);
    }
    told.textContent = text;
  };
  return { element, show };
}
