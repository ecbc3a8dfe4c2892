// A list of thousands of rows of one height: only those are in the page that are seen.
import { h } from "./dom";

const BEYOND = 8;
/** Fewer are all in the page. */
const FEW = 100;

export interface VirtualList<T> {
  element: HTMLElement;
  show(items: T[]): void;
  /** Renders what is seen anew. */
  again(): void;
}

export function virtualList<T>(label: string, scroller: HTMLElement, row: (item: T) => HTMLElement, signal: AbortSignal): VirtualList<T> {
  const above = h("li", { "aria-hidden": "true", class: "room" });
  const below = h("li", { "aria-hidden": "true", class: "room" });
  const element = h("ul", { class: "jobs", "aria-label": label });
  let items: T[] = [];
  let height = 0;
  let seen = "";
  let shown = new Map<T, HTMLElement>();

  function render(force: boolean): void {
    let [from, to] = [0, items.length];
    if (items.length > FEW) {
      height ||= 64;
      const top = scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
      from = Math.max(0, Math.min(items.length - 1, Math.floor(top / height) - BEYOND));
      to = Math.min(items.length, Math.ceil((top + scroller.clientHeight) / height) + BEYOND);
      to = Math.max(to, Math.min(items.length, from + 2 * BEYOND));
    }
    if (!force && seen === `${from} ${to}`) return;
    seen = `${from} ${to}`;
    const focused = force && element.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
    const before = force ? new Map<T, HTMLElement>() : shown;
    shown = new Map(items.slice(from, to).map((item) => [item, before.get(item) ?? row(item)]));
    const rows = [...shown.values()];
    rows.forEach((one, at) => {
      one.setAttribute("aria-setsize", String(items.length));
      one.setAttribute("aria-posinset", String(from + at + 1));
    });
    above.style.height = `${from * height}px`;
    below.style.height = `${(items.length - to) * height}px`;
    place([...(from ? [above] : []), ...rows, ...(to < items.length ? [below] : [])]);
    if (!force) return;
    if (focused) [...element.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    const real = rows[0]?.getBoundingClientRect().height;
    if (items.length > FEW && real && Math.abs(real - height) > 1) {
      height = real;
      render(true);
    }
  }

  /** Makes these the children: those that stay are not touched, so the browser lays out only what is new. */
  function place(children: HTMLElement[]): void {
    const wanted = new Set<Element>(children);
    for (const child of [...element.children]) if (!wanted.has(child)) child.remove();
    children.forEach((child, at) => {
      if (element.children[at] !== child) element.insertBefore(child, element.children[at] ?? null);
    });
  }

  scroller.addEventListener("scroll", () => render(false), { signal, passive: true });
  addEventListener("resize", () => render(true), { signal });
  return {
    element,
    show(found) {
      items = found;
      render(true);
      // Where it stands is known once it is in the page.
      requestAnimationFrame(() => signal.aborted || render(true));
    },
    again: () => render(true),
  };
}
