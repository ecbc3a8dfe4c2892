// What this user asked lately, as the service remembers it.
import { ApiError, get, Status } from "./api";
import { fill, h } from "./dom";
import { bytes, duration, plural, time } from "./format";
import { OWN } from "./sql";

/** A dialog with the queries; one that is picked is handed on. */
export function openHistory(pick: (sql: string) => void): void {
  const list = h("ul", { class: "history" });
  const dialog = h(
    "dialog",
    { class: "panel", "aria-labelledby": "history-title", onclose: () => dialog.remove() },
    h("h2", { id: "history-title" }, "History"),
    list,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
  fill(list, h("li", { class: "note" }, "Loading …"));
  const entry = (query: Status) =>
    h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            dialog.close();
            pick(query.sql);
          },
        },
        h("code", {}, query.sql),
        h(
          "span",
          { class: `facts-line ${query.state}` },
          [
            time(query.created),
            query.error ? `${query.state}: ${query.error.message}` : query.state,
            plural(query.row_count, "row"),
            duration(query.elapsed_ms),
            bytes(query.progress.bytes_read),
          ].join(" · "),
        ),
      ),
    );
  get<{ queries: Status[] }>("api/queries")
    .then(({ queries }) => queries.filter((query) => !query.sql.startsWith(OWN)))
    .then((queries) => fill(list, queries.length ? queries.map(entry) : h("li", { class: "note" }, "Nothing was asked yet.")))
    .catch((error: unknown) => fill(list, h("li", { class: "note bad" }, error instanceof ApiError ? error.message : String(error))));
}
