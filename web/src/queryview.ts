// The view where SQL is written and run.
import { ApiError, Status, without } from "./api";
import { exported, FormatName, FORMATS, Run } from "./asking";
import { chosen, Database, optionsOf, schema, schemas } from "./catalog";
import { keep, kept } from "./context";
import { announce, copy, fill, h, save, select } from "./dom";
import { Editor } from "./editor";
import { bytes, count, duration } from "./format";
import { openHistory } from "./historypanel";
import { Result } from "./result";
import { STATES } from "./questions";
import { hashOf, remember } from "./route";
import { schemaTree } from "./schematree";
import { statement } from "./sql";

const VIEW = "query";

/** What was written, while another view is seen. */
let draft: string | null = null;

export function queryView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  let database = values.get("db") ?? kept().db;
  let list: Database[] = [];
  let run: Run | null = null;
  const result = new Result(values.get("chart") ?? "", () => note());
  const status = h("div", { class: "progress", hidden: true });
  const first = values.get("sql") ?? draft;
  const editor: Editor = new Editor(first ?? STATES.sql, { run: () => void start(), explain: () => void start("EXPLAIN ") });
  const picker = h("span", { class: "picker" });
  const runButton = h("button", { type: "button", class: "primary", title: "Ctrl+Enter; runs the selection where there is one", onclick: () => void start() }, "▶ Run");
  const cancelButton = h("button", { type: "button", class: "danger", hidden: true, onclick: () => run?.cancel() }, "■ Cancel");

  async function start(prefix = "", partial = false): Promise<void> {
    const { text, from } = editor.chosen;
    const sql = prefix + statement(text);
    run?.cancel();
    editor.clearError();
    result.clear();
    note();
    const own = new Run({ sql, database, allow_partial: partial }, (told) => progress(status, told));
    run = own;
    running(true);
    const clock = setInterval(() => tick(status, performance.now() - own.started), 100);
    try {
      const answer = await own.answer();
      if (run === own) result.show(answer);
    } catch (failure) {
      if (run !== own || signal.aborted) return;
      if (!(failure instanceof ApiError)) throw failure;
      const error = without(failure, prefix);
      const { position } = error;
      const at = position && (() => editor.showError(error.message, position, from));
      at?.();
      result.failed(error, at && (() => {
        at();
        editor.focus();
      }), partial ? undefined : () => void start(prefix, true));
    } finally {
      clearInterval(clock);
      if (run === own) {
        run = null;
        running(false);
      }
    }
  }

  function running(is: boolean): void {
    cancelButton.hidden = !is;
    runButton.disabled = is;
    status.hidden = !is;
    if (is) fill(status, h("progress", { "aria-label": "Progress of the query" }), h("span", { class: "clock" }), h("span", { class: "told" }, "starting"));
    result.element.setAttribute("aria-busy", String(is));
  }

  function note(): void {
    remember(VIEW, { db: database, sql: editor.text, chart: result.chart });
  }

  async function share(): Promise<void> {
    const address = new URL(hashOf(VIEW, { db: database, sql: editor.text, run: "1", chart: result.chart }), location.href);
    await copy(address.href);
    announce("The link is copied");
    shareButton.textContent = "✓ Copied";
    setTimeout(() => (shareButton.textContent = "Share"), 1500);
  }

  async function export_(format: FormatName, partial = false): Promise<void> {
    exportMenu.value = "";
    const sql = statement(editor.chosen.text);
    announce(`Exporting as ${FORMATS[format].name}`);
    exportMenu.disabled = true;
    try {
      save(await exported({ sql, database, allow_partial: partial }, format), `query.${format}`);
      if (partial) result.say("The file lacks the rows of what cannot be read.");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { position } = error;
      if (position) editor.showError(error.message, position, editor.chosen.from);
      result.failed(error, undefined, partial ? undefined : () => void export_(format, true));
    } finally {
      exportMenu.disabled = false;
    }
  }

  function use(name: string): void {
    database = name;
    const box = picker.querySelector("select");
    if (box && [...box.options].some(({ value }) => value === name)) box.value = name;
    else fill(picker, select("Database", optionsOf(list, name), name, use));
    keep({ db: name });
    note();
    void schema(name).then(
      (tables) => database === name && !signal.aborted && editor.complete(name, tables),
      () => undefined,
    );
  }

  function bring(sql: string, from: string | null): void {
    editor.text = sql;
    result.chart = "";
    result.clear();
    if (from !== null) use(from);
    note();
    editor.focus();
  }

  const shareButton = h("button", { type: "button", title: "Copy a link to this query", onclick: () => void share() }, "Share");
  const exportMenu = h("select", { class: "menu", "aria-label": "Export all rows", onchange: () => void export_(exportMenu.value as FormatName) }, h("option", { value: "" }, "Export …"));
  for (const [value, { name }] of Object.entries(FORMATS)) exportMenu.append(h("option", { value }, name));
  const picks = {
    query: (sql: string, from: string) => {
      editor.text = sql;
      result.chart = "";
      use(from);
      void start();
    },
    insert: (text: string) => editor.insert(text),
  };
  const tree = h("details", { class: "side", open: !matchMedia("(max-width: 760px)").matches }, h("summary", {}, "Savepoints"), schemaTree(picks, () => database));
  fill(
    main,
    h(
      "div",
      { class: "query-view" },
      h("h1", { class: "unseen" }, "Query"),
      tree,
      h(
        "div",
        { class: "work" },
        h(
          "div",
          { class: "toolbar" },
          runButton,
          cancelButton,
          picker,
          h("span", { class: "gap" }),
          h("button", { type: "button", title: "Ctrl+Shift+Enter; shows what would run", onclick: () => void start("EXPLAIN ") }, "Explain"),
          h("button", { type: "button", onclick: () => openHistory(bring) }, "History"),
          shareButton,
          exportMenu,
        ),
        editor.element,
        status,
        result.element,
      ),
    ),
  );
  signal.addEventListener("abort", () => {
    draft = editor.text;
    run?.cancel();
    result.clear();
    editor.destroy();
  });
  void schemas().then(
    (found) => {
      if (signal.aborted) return;
      list = found;
      const name = chosen(list, database);
      if (name) use(name);
      else fill(picker, select("Database", [], "", use));
      if (values.get("run") || (first === null && name !== null)) void start();
      editor.focus();
    },
    (error: unknown) => error instanceof ApiError && result.failed(error),
  );
}

function progress(element: HTMLElement, { state, progress: { bytes_read, bytes_total, rows_read, splits_read, splits_total }, row_count }: Status): void {
  const bar = element.querySelector("progress");
  const told = element.querySelector(".told");
  if (!bar || !told) return;
  if (bytes_total > 0) {
    bar.max = bytes_total;
    bar.value = Math.min(bytes_read, bytes_total);
  }
  const parts = [
    state,
    bytes_total > 0 && `${bytes(bytes_read)} of ${bytes(bytes_total)}`,
    rows_read ? `${count(rows_read)} rows read` : false,
    splits_total ? `${splits_read ?? 0} of ${splits_total} splits` : false,
    row_count ? `${count(row_count)} rows found` : false,
  ];
  told.textContent = parts.filter(Boolean).join(" · ");
}

function tick(element: HTMLElement, ms: number): void {
  const clock = element.querySelector(".clock");
  if (clock) clock.textContent = duration(ms);
}
