// The saved queries, and one of them: a form of its parameters, and its rows.
import { ApiError } from "./api";
import { FormatName, FORMATS } from "./asking";
import { announce, Child, copy, fill, h, save } from "./dom";
import { age, plural } from "./format";
import { loading, plainTable, problem } from "./panel";
import { queryHead } from "./queryplace";
import { Result } from "./result";
import { linkOfSaved, queryLink, SAVED_LINK, visit } from "./route";
import { drop, fileOf, Given, missing, rowsOf, savedQueries, savedQuery, SavedParameter, SavedQuery } from "./saved";
import { openSaveDialog } from "./saveddialog";

export function savedView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const name = values.get("name");
  const body = h("div", { class: "view-body" });
  if (name === null) {
    fill(main, queryHead("saved"), h("div", { class: "view" }, h("div", { class: "head-row" }, h("h1", {}, "Saved queries")), h("p", { class: "about" }, "Each is a link, for people and for programs; it reads what its reader may read."), body));
    void loading(body, () => savedQueries(signal).then(({ queries, may_save }) => listed(queries, may_save)), signal);
    return;
  }
  fill(main, queryHead("saved", [name, null]), h("div", { class: "view saved" }, body));
  const open = (given: Given) => void loading(body, () => savedQuery(name, signal).then((query) => detail(query, given, signal, () => open({}))), signal);
  open(Object.fromEntries(new URLSearchParams(values.get("given") ?? "")));
}

function listed(queries: SavedQuery[], maySave: boolean): Child {
  const how = maySave ? "Write one in the editor and save it there." : "The owner of the service writes them into a file: see the documentation of saved queries.";
  if (!queries.length) return h("p", { class: "empty" }, `There is no saved query that you may see. ${how}`);
  const list = h("div", {});
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the saved queries", oninput: () => show() });
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = queries.filter((one) => words.every((word) => [one.name, one.description, one.database, one.sql].join("\n").toLowerCase().includes(word)));
    fill(list, seen.length ? plainTable("Saved queries", ["Name", "Description", "Database", "Parameters", "Saved by"], seen.map(row)) : h("p", { class: "empty" }, "No saved query matches this text."));
  };
  show();
  return [h("div", { class: "grid-tools" }, filter, h("span", { class: "note" }, plural(queries.length, "query", "queries"))), list];
}

function row(query: SavedQuery): Child[] {
  return [
    h("a", { class: "link", href: linkOfSaved(query.name), title: query.sql }, query.name),
    query.description || "–",
    query.database ?? "–",
    query.parameters.length ? h("code", {}, query.parameters.map((one) => `:${one.name}`).join(" ")) : "–",
    [query.saved_by ?? "the file of the service", query.saved_at ? h("small", { class: "note" }, ` ${age(query.saved_at)}`) : null],
  ];
}

/** `again` shows the query anew, after a change. */
function detail(query: SavedQuery, first: Given, signal: AbortSignal, again: () => void): Child {
  const result = new Result("", () => undefined);
  const fields = new Map(query.parameters.map((one) => [one.name, box(one, first[one.name] ?? one.default ?? "")]));
  const kept = Object.fromEntries(Object.entries(first).filter(([name]) => name.startsWith("_")));
  let stop = new AbortController();
  let running = false;
  signal.addEventListener("abort", () => {
    stop.abort();
    result.clear();
  });
  const runButton = h("button", { class: "primary" }, "▶ Run");
  const cancelButton = h("button", { type: "button", class: "danger", hidden: true, onclick: () => stop.abort() }, "■ Cancel");
  const given = (): Given => ({ ...kept, ...Object.fromEntries([...fields].map(([name, field]) => [name, field.value])) });
  const exportMenu = h("select", { class: "menu", "aria-label": "Export all rows", onchange: () => void export_(exportMenu.value as FormatName) }, h("option", { value: "" }, "Export …"));
  for (const [value, { name }] of Object.entries(FORMATS)) exportMenu.append(h("option", { value }, name));

  async function run(): Promise<void> {
    stop.abort();
    const own = (stop = new AbortController());
    show(true);
    history.replaceState(null, "", linkOfSaved(query.name, given()));
    result.clear();
    try {
      const answer = await rowsOf(query.name, given(), own.signal);
      if (own === stop) result.show(answer);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (own === stop && !signal.aborted) result.failed(error);
    } finally {
      if (own === stop) show(false);
    }
  }

  function show(is: boolean): void {
    running = is;
    cancelButton.hidden = !running;
    runButton.disabled = running;
    result.element.setAttribute("aria-busy", String(running));
  }

  async function export_(format: FormatName): Promise<void> {
    exportMenu.value = "";
    announce(`Exporting as ${FORMATS[format].name}`);
    try {
      save(await fileOf(query.name, given(), format), `${query.name}.${format}`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      result.failed(error);
    }
  }

  async function copyLink(button: HTMLButtonElement, format = ""): Promise<void> {
    await copy(new URL(linkOfSaved(query.name, given(), format), location.href).href);
    announce("The link is copied");
    const before = button.textContent;
    button.textContent = "✓ Copied";
    setTimeout(() => (button.textContent = before), 1500);
  }

  const shareButton: HTMLButtonElement = h("button", { type: "button", title: "Copy a link to this page; programs get its rows", onclick: () => void copyLink(shareButton) }, "Copy link");
  const csvButton: HTMLButtonElement = h("button", { type: "button", title: "Copy a link that pandas and spreadsheets read", onclick: () => void copyLink(csvButton, "csv") }, "Copy CSV link");
  if (!missing(query, first).length) queueMicrotask(() => void run());
  return [
    h("div", { class: "head-row" }, h("h1", {}, query.name), changing(query, again)),
    query.description ? h("p", { class: "about" }, query.description) : null,
    h("p", { class: "note" }, [query.database ? `Of ${kept._database ?? query.database}.` : "Of the only or the newest database.", query.saved_by ? ` Saved by ${query.saved_by}${query.saved_at ? `, ${age(query.saved_at)}` : ""}.` : " From the file of the service."]),
    h("details", { class: "saved-sql", open: query.sql.length < 600 }, h("summary", {}, "SQL"), h("pre", { tabindex: 0, "aria-label": "SQL" }, query.sql)),
    h(
      "form",
      {
        class: "saved-form",
        onsubmit: (event: SubmitEvent) => {
          event.preventDefault();
          void run();
        },
      },
      [...fields].map(([name, field]) => h("label", { class: "field" }, h("code", {}, `:${name}`), field)),
      runButton,
      cancelButton,
      h("span", { class: "gap" }),
      query.dialect === "duckdb" ? h("a", { class: "button", href: queryLink({ db: query.database, sql: query.sql }) }, "Open in the editor") : null,
      shareButton,
      csvButton,
      exportMenu,
    ),
    result.element,
  ];
}

/** What a value is written into. */
function box({ type, name, default: fallback }: SavedParameter, value: string): HTMLInputElement | HTMLSelectElement {
  if (type === "boolean") {
    const choice = h("select", { name }, ["true", "false"].map((text) => h("option", { value: text }, text)));
    choice.value = value || "true";
    return choice;
  }
  const kinds: Record<string, Record<string, string>> = { integer: { inputmode: "numeric" }, number: { inputmode: "decimal" }, date: { type: "date" } };
  return h("input", { type: "text", name, spellcheck: "false", autocomplete: "off", required: type !== "text" && fallback === null, placeholder: type, value, ...kinds[type] });
}

function changing(query: SavedQuery, again: () => void): Child {
  if (!query.may_change) return null;
  return h(
    "span",
    { class: "toolbar" },
    h("button", { type: "button", onclick: () => openSaveDialog(query, false, again) }, "Change"),
    h("button", { type: "button", class: "danger", onclick: () => askToDelete(query) }, "Delete"),
  );
}

function askToDelete({ name }: SavedQuery): void {
  const failed = h("div", {});
  const gone = async () => {
    try {
      await drop(name);
      dialog.close();
      announce(`${name} is deleted`);
      visit(SAVED_LINK);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(failed, problem(error));
    }
  };
  const dialog = h(
    "dialog",
    { class: "panel", "aria-labelledby": "delete-title", onclose: () => dialog.remove() },
    h("h2", { id: "delete-title" }, `Delete ${name}?`),
    h("p", {}, "Links to it stop working. Nobody can bring it back."),
    failed,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Keep it"), h("button", { type: "button", class: "danger", onclick: () => void gone() }, "Delete it")),
  );
  document.body.append(dialog);
  dialog.showModal();
}
