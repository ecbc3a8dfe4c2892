// What places share: where one is, their parts, and what else is at the same address.
import { ApiError, hasKey, request } from "./api";
import type { Database } from "./catalog";
import { announce, Child, copy, fill, h, save } from "./dom";
import { jobOfName, jobsOf, shortName } from "./jobs";
import { keyText } from "./lookup";
import { problem } from "./panel";
import { jobLink, jobsLink, linkOf } from "./route";

/** Shows the way from all jobs to what is seen, in the head of the page; the last is where one is. */
export function where(steps: [text: string, address: string | null][]): void {
  const item = ([text, address]: [string, string | null]) => (address === null ? h("span", { "aria-current": "page", title: text }, text) : h("a", { href: address, title: text }, text));
  fill(document.getElementById("where")!, h("ol", {}, steps.map((step) => h("li", {}, item(step)))));
}

/** The way to a savepoint, and further within it. */
export function stepsTo(list: Database[], database: string, ...within: [text: string, address: string | null][]): [string, string | null][] {
  const entry = list.find((one) => one.name === database);
  const history = jobsOf(list).find((job) => job.entry.history === database);
  const job = history ?? (entry && jobOfName(list, database));
  const title = entry && entry.alias_of === null ? shortName(entry) : history ? "all checkpoints" : database;
  return [["Jobs", jobsLink()], ...(job ? [[job.title, jobLink(job.name)] as [string, string]] : []), [title, within.length ? linkOf(database) : null], ...within];
}

/** The names of the parts of a place, as links; the part that is seen is marked. */
export function partStrip(label: string, parts: [part: string, title: string, address: string][], seen: string): HTMLElement {
  const strip = h("nav", { class: "parts", "aria-label": label }, parts.map(([part, title, address]) => h("a", { href: address, "aria-current": part === seen ? "page" : null }, title)));
  // Where there is no room for all, the one that is seen is in view.
  requestAnimationFrame(() => strip.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
  return strip;
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
    void copy(location.href).then(() => {
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
