// The palette (Ctrl+K): jobs, savepoints, tables, keys, saved queries and documentation, found by a few letters.
import { contents, schemas } from "./catalog";
import { kept } from "./context";
import { fill, h } from "./dom";
import { describe, jobsOf, newestIn, shortName } from "./jobs";
import { jobLink, jobsLink, keysLink, linkOf, linkOfSaved, partLink, queryLink, ROOT, SAVED_LINK, visit } from "./route";
import { savedQueries } from "./saved";
import { mayWrite } from "./writes";

interface Choice {
  kind: string;
  title: string;
  detail: string;
  address: string;
  /** Opened by the browser: no place of the page. */
  leaves?: boolean;
}

const MOST = 11;
const MOST_OF_JOB = 50;
const PARTS_OF_SAVEPOINT = ["Tables", "Keys", "Offsets", "Timers", "X-ray", "Check", "Write"];
const KINDS = ["job", "place", "savepoint", "saved query", "table", "help"];
const ALWAYS: Choice[] = [
  { kind: "place", title: "Jobs", detail: "all jobs", address: jobsLink() },
  { kind: "place", title: "Query", detail: "the editor", address: queryLink() },
  { kind: "place", title: "Saved queries", detail: "", address: SAVED_LINK },
  { kind: "place", title: "All savepoints", detail: "one database per savepoint", address: linkOf() },
  { kind: "help", title: "HTTP API", detail: "documentation of all calls", address: new URL("docs", ROOT).pathname, leaves: true },
];

export function mountPalette(button: HTMLButtonElement): void {
  const isMac = navigator.platform.startsWith("Mac");
  fill(button, h("span", { class: "find-icon", "aria-hidden": "true" }), h("span", { class: "find-text" }, "Search"), h("kbd", {}, isMac ? "⌘K" : "Ctrl K"));
  button.title = "Jobs, savepoints, tables, keys, saved queries";
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
}

function open(): void {
  if (document.querySelector("dialog[open]")) return;
  let choices = ALWAYS;
  let seen: Choice[] = [];
  let at = 0;
  const before = document.activeElement;
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
  const field = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Search",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    placeholder: "A job, a savepoint, a table, a key …",
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    oninput: () => ((at = 0), show()),
    onkeydown: (event: KeyboardEvent) => onKey(event),
  });
  const dialog = h(
    "dialog",
    {
      class: "palette",
      "aria-label": "Search",
      onclose: () => {
        dialog.remove();
        if (before instanceof HTMLElement) before.focus();
      },
      onclick: (event: Event) => event.target === dialog && dialog.close(),
    },
    field,
    list,
    h("p", { class: "note keys" }, h("kbd", {}, "↑"), h("kbd", {}, "↓"), " choose ", h("kbd", {}, "Enter"), " open ", h("kbd", {}, "Esc"), " close"),
  );

  function show(): void {
    seen = found(choices, field.value);
    at = Math.min(at, Math.max(0, seen.length - 1));
    fill(
      list,
      seen.map((one, number) =>
        h(
          "li",
          { id: `palette-${number}`, role: "option", "aria-selected": String(number === at), onclick: () => take(one), onmousemove: () => number !== at && ((at = number), mark()) },
          h("span", { class: "choice-kind" }, one.kind),
          " ",
          h("span", { class: "choice-title" }, one.title),
          " ",
          h("span", { class: "choice-detail" }, one.detail),
        ),
      ),
    );
    mark();
  }

  function mark(): void {
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    field.setAttribute("aria-activedescendant", seen.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function onKey(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && seen.length) {
      event.preventDefault();
      at = (at + step + seen.length) % seen.length;
      mark();
    }
    if (event.key === "Enter" && seen[at]) {
      event.preventDefault();
      take(seen[at]);
    }
  }

  function take(one: Choice): void {
    dialog.close();
    if (one.leaves) location.assign(one.address);
    else visit(one.address);
  }

  document.body.append(dialog);
  dialog.showModal();
  show();
  void gathered((more) => {
    choices = [...more, ...choices];
    if (dialog.open) show();
  });
}

/** What there is, as it becomes known; what cannot be asked is left out. */
async function gathered(add: (choices: Choice[]) => void): Promise<void> {
  const jobs = schemas().then((list) => {
    const found = jobsOf(list);
    add([
      ...found.map((job) => ({ kind: "job", title: job.title, detail: job.folder, address: jobLink(job.name) })),
      ...found.flatMap((job) => job.databases.slice(0, MOST_OF_JOB).filter((one) => one.error === null).map((one) => ({ kind: "savepoint", title: shortName(one), detail: [job.title, describe(one)].join(" · "), address: linkOf(one.name) }))),
    ]);
    return kept().db ?? (found[0] && newestIn(found[0])?.name) ?? null;
  });
  const tables = jobs.then(async (database) => {
    if (database === null) return;
    const may = await mayWrite();
    const parts = PARTS_OF_SAVEPOINT.filter((title) => title !== "Write" || may);
    add(parts.map((title) => ({ kind: "place", title, detail: database, address: partLink(database, title.toLowerCase().replace("-", "")) })));
    const { tables } = await contents(database);
    add(tables.map((entry) => ({ kind: "table", title: entry.name, detail: database, address: linkOf(database, entry.name) })));
  });
  const saved = savedQueries().then(({ queries }) => add(queries.map((one) => ({ kind: "saved query", title: one.name, detail: one.description, address: linkOfSaved(one.name) }))));
  await Promise.allSettled([tables, saved]);
}

/** The choices that have all words, those with a title that begins so first; and the text itself as a key. */
function found(choices: Choice[], text: string): Choice[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = ({ title, kind }: Choice) => {
    const name = title.toLowerCase();
    const [first = ""] = words;
    const how = name === text.toLowerCase() ? 0 : name.startsWith(first) ? 1 : name.includes(first) ? 2 : 3;
    return how * KINDS.length + KINDS.indexOf(kind);
  };
  const fitting = choices.filter((one) => words.every((word) => `${one.kind} ${one.title} ${one.detail}`.toLowerCase().includes(word)));
  const listed = fitting.sort((one, other) => rank(one) - rank(other));
  const key = text.trim();
  const { db } = kept();
  const keys: Choice[] = key
    ? [
        { kind: "key", title: key, detail: "in the newest savepoint of every job", address: jobsLink({ key }) },
        ...(db ? [{ kind: "key", title: key, detail: `in ${db}`, address: keysLink(db, key) }] : []),
      ]
    : [];
  return [...listed.slice(0, MOST - keys.length), ...keys];
}
