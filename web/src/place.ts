// What the pages of databases, tables and keys share: where one is, and what else is at the same address.
import { ApiError, hasKey, request } from "./api";
import { announce, Child, copy, h, save } from "./dom";
import { keyText } from "./lookup";
import { problem } from "./panel";
import { linkOf } from "./route";

/** The way from all databases to what is seen; the last is where one is. */
export function crumbs(steps: [text: string, address: string | null][]): HTMLElement {
  const items = steps.map(([text, address]) => h("li", {}, address === null ? h("span", { "aria-current": "page" }, text) : h("a", { class: "link", href: address }, text)));
  return h("div", { class: "crumbs", role: "navigation", "aria-label": "Where this is" }, h("ol", {}, items));
}

export function actions(...children: Child[]): HTMLElement {
  return h("p", { class: "actions" }, children);
}

export function action(text: string, href: string, title?: string): HTMLElement {
  return h("a", { class: "link", href, title }, text);
}

/** Copies the address of what is seen, which a program reads, too. */
export function copyButton(): HTMLElement {
  const button = h("button", { type: "button", class: "link", title: "A program that reads this address gets the rows" }, "Copy the link");
  button.addEventListener("click", () => {
    void copy(location.href.replace(/#.*$/s, "")).then(() => {
      announce("The link is copied");
      button.textContent = "✓ Copied";
      setTimeout(() => (button.textContent = "Copy the link"), 1500);
    });
  });
  return button;
}

const FILES: [format: string, name: string][] = [
  ["csv", "CSV"],
  ["json", "JSON"],
  ["parquet", "Parquet"],
  ["arrow", "Arrow"],
];

/** Links to files with the rows; `addressOf` gives the address of a format. */
export function files(name: string, addressOf: (format: string) => string): Child {
  return FILES.map(([format, title]) => {
    const href = addressOf(format);
    const link = h("a", { class: "link", href, download: true }, title);
    link.addEventListener("click", (event) => {
      if (!hasKey()) return;
      // The browser sends no key of this page with a link.
      event.preventDefault();
      announce(`Reading ${title}`);
      void request("GET", href, { accept: "*/*" })
        .then((response) => response.blob())
        .then((content) => save(content, `${name.replaceAll(/[^\w.-]+/g, "_")}.${format}`))
        .catch((error: unknown) => {
          if (!(error instanceof ApiError)) throw error;
          link.closest(".actions")?.after(problem(error));
        });
    });
    return link;
  });
}

/** The page of a key. Of a key whose hash the service may not know, the address has the key group. */
export function keyLink({ database, table }: { database: string; table: string }, key: unknown, group: unknown): string {
  const known = typeof key === "object" && group !== undefined && group !== null;
  return linkOf(database, table, { key: keyText(key), _key_group: known ? String(group) : null });
}
