// A tree as ARIA has it: one tab stop, arrows to move, branches that load when they are opened.
import { ApiError } from "./api";
import { fill, h } from "./dom";
import { visit } from "./route";

export interface TreeNode {
  label: string;
  kind: string;
  /** Said after the label, quietly. */
  detail?: string;
  /** What the filter finds besides. */
  words?: string;
  /** Branches that are there from the beginning. */
  children?: TreeNode[];
  /** What is not as it should be. */
  warning?: string;
  title?: string;
  /** The address of its page, which Shift+Enter opens. */
  page?: string;
  load?: () => Promise<TreeNode[]>;
  /** What Enter and a click do; they open the branch where there is nothing else. */
  act?: () => void;
}

interface Item {
  node: TreeNode;
  element: HTMLLIElement;
  group: HTMLUListElement;
  children: Item[] | null;
}

export class Tree {
  readonly element: HTMLUListElement;
  private items: Item[] = [];
  private filterText = "";

  constructor(label: string) {
    this.element = h("ul", { role: "tree", "aria-label": label, class: "tree", onkeydown: (event: KeyboardEvent) => this.onKey(event) });
  }

  show(nodes: TreeNode[]): void {
    this.items = nodes.map((node) => this.item(node, 1));
    fill(this.element, ...this.items.map((item) => item.element));
    this.items[0]?.element.setAttribute("tabindex", "0");
    this.filter(this.filterText);
  }

  /** Hides what neither has the text itself nor stands over or under something that has it. */
  filter(text: string): void {
    this.filterText = text.toLowerCase();
    for (const item of this.items) this.match(item, false);
  }

  async open(item: Item): Promise<void> {
    const { node, element, group } = item;
    if (!node.load && !node.children) return;
    element.setAttribute("aria-expanded", "true");
    if (item.children || !node.load) return;
    item.children = [];
    fill(group, h("li", { role: "none", class: "note" }, "Loading …"));
    try {
      const level = Number(element.getAttribute("aria-level")) + 1;
      item.children = (await node.load()).map((child) => this.item(child, level));
      const empty = item.children.length ? [] : [h("li", { role: "none", class: "note" }, "nothing")];
      fill(group, ...item.children.map((child) => child.element), ...empty);
      this.filter(this.filterText);
    } catch (error) {
      item.children = null;
      const told = error instanceof ApiError ? error.message : String(error);
      fill(group, h("li", { role: "none", class: "note bad" }, told));
    }
  }

  /** Opens the first branch that is found so, and those above it. */
  openWhere(is: (node: TreeNode) => boolean): void {
    const path = (items: Item[]): Item[] => {
      for (const item of items) {
        if (is(item.node)) return [item];
        const below = path(item.children ?? []);
        if (below.length) return [item, ...below];
      }
      return [];
    };
    for (const item of path(this.items)) void this.open(item);
  }

  private item(node: TreeNode, level: number): Item {
    const group = h("ul", { role: "group" });
    const row = h(
      "div",
      { class: "row", title: node.title ?? node.warning },
      h("span", { class: "twisty", "aria-hidden": "true" }),
      h("span", { class: `kind ${node.kind}`, "aria-hidden": "true" }),
      h("span", { class: "label" }, node.label),
      node.warning ? h("span", { class: "warning" }, node.warning) : null,
      node.detail ? h("span", { class: "detail" }, node.detail) : null,
      node.page ? h("a", { class: "page", href: node.page, tabindex: -1, "aria-label": "Its page", title: "Its page (Shift+Enter)" }, "↗") : null,
    );
    const element = h("li", { role: "treeitem", "aria-level": level, tabindex: -1, "aria-expanded": node.load || node.children ? "false" : null }, row);
    if (node.load || node.children) element.append(group);
    const item: Item = { node, element, group, children: node.children?.map((child) => this.item(child, level + 1)) ?? null };
    fill(group, ...(item.children ?? []).map((child) => child.element));
    row.addEventListener("click", (event) => {
      this.focus(element);
      if ((event.target as Element).closest("a")) return;
      const onTwisty = (event.target as Element).classList.contains("twisty");
      if (node.act && !onTwisty) node.act();
      else this.toggle(item);
    });
    (element as { item?: Item }).item = item;
    return item;
  }

  private toggle(item: Item): void {
    if (item.element.getAttribute("aria-expanded") === "true") item.element.setAttribute("aria-expanded", "false");
    else void this.open(item);
  }

  private match(item: Item, underMatch: boolean): boolean {
    const { label, detail = "", words = "" } = item.node;
    const own = underMatch || `${label} ${detail} ${words}`.toLowerCase().includes(this.filterText);
    const below = (item.children ?? []).map((child) => this.match(child, own)).some(Boolean);
    item.element.hidden = !(own || below);
    if (below && this.filterText && !own) item.element.setAttribute("aria-expanded", "true");
    return own || below;
  }

  private focus(element: HTMLElement): void {
    for (const other of this.element.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    element.focus();
  }

  private onKey(event: KeyboardEvent): void {
    const current = document.activeElement?.closest<HTMLElement>('[role="treeitem"]');
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return;
    const { item } = current as unknown as { item: Item };
    const seen = [...this.element.querySelectorAll<HTMLElement>('[role="treeitem"]')].filter((one) => one.checkVisibility());
    const at = seen.indexOf(current);
    const open = current.getAttribute("aria-expanded");
    const parent = current.parentElement?.closest<HTMLElement>('[role="treeitem"]');
    const to: Record<string, HTMLElement | null | undefined> = {
      ArrowDown: seen[at + 1],
      ArrowUp: seen[at - 1],
      Home: seen[0],
      End: seen.at(-1),
      ArrowLeft: open === "true" ? null : parent,
      ArrowRight: open === "true" ? seen[at + 1] : null,
    };
    if (!(event.key in to) && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (to[event.key]) this.focus(to[event.key]!);
    else if (event.key === "ArrowRight") void this.open(item);
    else if (event.key === "ArrowLeft" && open) current.setAttribute("aria-expanded", "false");
    else if (event.key === "Enter" && event.shiftKey && item.node.page) visit(item.node.page);
    else if (event.key === "Enter" || event.key === " ") (item.node.act ?? (() => this.toggle(item)))();
  }
}
