// What this user asked lately, as the service remembers it: searched by words, brought back with its database.
import { ApiError, get, Status } from "./api";
import { fill, h } from "./dom";
import { age, bytes, count, duration, plural } from "./format";
import { OWN } from "./sql";

const MARKS: Record<Status["state"], string> = { queued: "waits", running: "runs", finished: "", failed: "✗ failed", cancelled: "■ cancelled" };

/** A dialog with the queries; one that is picked is handed on, with the database that it was asked of. */
export function openHistory(pick: (sql: string, database: string | null) => void): void {
  const list = h("ul", { class: "history" });
  const found = h("p", { class: "note", role: "status" });
  const search = h("input", { type: "search", "aria-label": "Search the history", placeholder: "words of a statement, a database, an error, failed, cancelled", oninput: () => filter() });
  const dialog = h(
    "dialog",
    { class: "panel", "aria-labelledby": "history-title", onclose: () => dialog.remove() },
    h("h2", { id: "history-title" }, "History"),
    search,
    found,
    list,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")),
  );
  let entries: { query: Status; text: string; element: HTMLElement }[] = [];
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = entries.filter(({ text }) => words.every((word) => text.includes(word)));
    found.textContent = seen.length === entries.length ? plural(entries.length, "statement") : `${count(seen.length)} of ${plural(entries.length, "statement")}`;
    fill(list, seen.map(({ element }) => element));
  };
  const entry = (query: Status) => {
    const databases = databasesOf(query);
    const mark = MARKS[query.state] || (query.incomplete.length ? "◐ incomplete" : "");
    const facts = [
      age(new Date(query.created * 1000).toISOString()),
      databases.join(", "),
      query.state === "finished" ? plural(query.row_count, "row") : "",
      query.elapsed_ms > 0 ? duration(query.elapsed_ms) : "",
      query.progress.bytes_read > 0 ? bytes(query.progress.bytes_read) : "",
    ];
    const element = h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: query.state,
          onclick: () => {
            dialog.close();
            pick(query.sql, query.database ?? (query.databases.length === 1 ? query.databases[0].name : null));
          },
        },
        h("code", {}, query.sql),
        h("span", { class: "facts-line" }, mark ? h("strong", { class: "mark" }, mark) : null, mark ? " · " : "", facts.filter(Boolean).join(" · ")),
        query.error && query.state === "failed" ? h("span", { class: "facts-line why" }, query.error.message) : null,
      ),
    );
    return { query, element, text: [query.sql, ...databases, query.state, mark, query.error?.message ?? ""].join("\n").toLowerCase() };
  };
  document.body.append(dialog);
  dialog.showModal();
  fill(list, h("li", { class: "note" }, "Loading …"));
  get<{ queries: Status[] }>("api/queries")
    .then(({ queries }) => queries.filter((query) => !query.sql.startsWith(OWN)))
    .then((queries) => {
      entries = queries.map(entry);
      filter();
      search.focus();
      if (!entries.length) fill(list, h("li", { class: "note" }, "Nothing was asked yet."));
    })
    .catch((error: unknown) => fill(list, h("li", { class: "note bad" }, error instanceof ApiError ? error.message : String(error))));
}

/** The databases that a statement read; where it did not come to that, the one that it was asked of. */
function databasesOf({ database, databases }: Status): string[] {
  const names = databases.map((one) => one.name);
  return names.length || database === null ? names : [database];
}
