// The view where SQL is written and run: tabs, each with a text, and what its query gave.
import { ApiError } from "./api";
import { FormatName, FORMATS } from "./asking";
import { chosen, Database, optionsOf, schema, schemas } from "./catalog";
import { keep, kept } from "./context";
import { announce, copy, fill, h, select } from "./dom";
import { openHistory } from "./historypanel";
import { queryHead } from "./queryplace";
import { STATES } from "./questions";
import { linkOfSaved, queryLink, remember, visit } from "./route";
import { savedQueries } from "./saved";
import { openSaveDialog } from "./saveddialog";
import { schemaTree } from "./schematree";
import { Sheet } from "./sheet";
import { statement } from "./sql";
import { dropTab, keepTab, keptTabs, newTab, see, seenTab, Tab } from "./tabs";
import { PANEL, tabStrip } from "./tabstrip";

const KEEP_AFTER_MS = 300;

/** The tabs that were closed since the page was opened: they can be had again. */
const closed: Tab[] = [];

export function queryView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  let list: Database[] = [];
  let tabs = keptTabs();
  let wasKept = true;
  const sheets = new Map<string, Sheet>();
  let tab = openedBy(values);
  const isFirst = !values.has("sql") && !tab.edited && tab.text === STATES.sql;
  if (values.has("db")) tab.database = values.get("db");
  tab.database ??= kept().db;

  /** The tab that an address means: one with this text, the one that nobody wrote into, or a new one. */
  function openedBy(values: URLSearchParams): Tab {
    const text = values.get("sql");
    const last = tabs.find(({ id }) => id === seenTab()) ?? tabs.at(-1);
    if (text === null) return last ?? added(newTab(tabs, STATES.sql, null));
    const same = [last, ...tabs].find((one) => one?.text === text && (!values.has("db") || one.database === null || one.database === values.get("db")));
    const chart = values.get("chart") ?? "";
    if (same) return Object.assign(same, chart && { chart });
    return last && !last.edited ? Object.assign(last, { text, chart }) : added(newTab(tabs, text, null, chart));
  }

  function added(one: Tab): Tab {
    tabs = [...tabs, one];
    return one;
  }

  const area = h("div", { class: "sheet-area", role: "tabpanel", id: PANEL });
  const picker = h("span", { class: "picker" });
  const runButton = h("button", { type: "button", class: "primary", title: "Ctrl+Enter; runs the selection where there is one", onclick: () => void sheet().start() }, "▶ Run");
  const cancelButton = h("button", { type: "button", class: "danger", hidden: true, onclick: () => sheet().cancel() }, "■ Cancel");
  const strip = tabStrip({
    pick: (one) => show(one),
    add: () => {
      show(added(newTab(tabs, "", tab.database)));
      sheet().editor.focus();
    },
    rename: (one, name) => {
      one.name = name;
      note();
    },
    close,
    reopen: () => {
      const last = closed.pop();
      if (last) show(added(last));
    },
  });

  function sheet(one = tab): Sheet {
    const found = sheets.get(one.id);
    if (found) return found;
    const made = new Sheet(one, () => keepLater(one), () => note(one));
    sheets.set(one.id, made);
    return made;
  }

  function show(one: Tab): void {
    tab = one;
    see(one);
    fill(area, sheet().element);
    // Before the list of databases is there, nobody knows which can be read.
    const name = list.length ? chosen(list, one.database) : null;
    if (name) use(name);
    note();
  }

  function close(one: Tab): void {
    sheets.get(one.id)?.destroy();
    sheets.delete(one.id);
    dropTab(one);
    if (one.text.trim()) closed.push(one);
    const at = tabs.indexOf(one);
    tabs = tabs.filter((other) => other !== one);
    if (!tabs.length) added(newTab([], "", one.database));
    show(one === tab ? tabs[Math.min(at, tabs.length - 1)] : tab);
  }

  const late = new Map<Tab, ReturnType<typeof setTimeout>>();

  /** Typing is not to be slowed down by what is kept of it. */
  function keepLater(one: Tab): void {
    clearTimeout(late.get(one));
    late.set(one, setTimeout(() => keepNow(one), KEEP_AFTER_MS));
  }

  function keepNow(one: Tab): void {
    clearTimeout(late.get(one));
    late.delete(one);
    if (keepTab(one) === wasKept) return;
    wasKept = !wasKept;
    announce(wasKept ? "Texts of tabs are kept" : "This browser has no room for the texts of tabs: they are lost when the page is closed");
    unkeptNote.hidden = wasKept;
  }

  function keepAll(): void {
    for (const one of [...late.keys()]) keepNow(one);
  }

  function note(of = tab): void {
    if (signal.aborted) return;
    keepNow(of);
    const own = sheet();
    cancelButton.hidden = !own.runs;
    runButton.disabled = own.runs;
    strip.show(tabs, tab, new Set([...sheets.values()].filter(({ runs }) => runs).map((one) => one.tab.id)), closed.length > 0);
    remember(queryLink({ db: tab.database, sql: tab.text, chart: tab.chart }));
  }

  async function share(): Promise<void> {
    const address = new URL(queryLink({ db: tab.database, sql: tab.text, run: "1", chart: tab.chart }), location.href);
    await copy(address.href);
    announce("The link is copied");
    shareButton.textContent = "✓ Copied";
    setTimeout(() => (shareButton.textContent = "Share"), 1500);
  }

  async function export_(format: FormatName): Promise<void> {
    exportMenu.value = "";
    exportMenu.disabled = true;
    await sheet().export_(format);
    exportMenu.disabled = false;
  }

  function use(name: string): void {
    tab.database = name;
    const box = picker.querySelector("select");
    if (box && [...box.options].some(({ value }) => value === name)) box.value = name;
    else fill(picker, select("Database", optionsOf(list, name), name, pickDatabase));
    keep({ db: name });
    const own = sheet();
    void schema(name).then(
      (tables) => own.tab.database === name && !signal.aborted && own.editor.complete(name, tables),
      () => undefined,
    );
  }

  function pickDatabase(name: string): void {
    use(name);
    note();
  }

  function bring(sql: string, from: string | null): void {
    // What somebody wrote stays in its tab.
    if (tab.edited && tab.text.trim() && tab.text !== sql) show(added(newTab(tabs, "", tab.database)));
    sheet().bring(sql);
    if (from !== null) use(from);
    note();
    sheet().editor.focus();
  }

  const unkeptNote = h("p", { class: "banner", role: "note", hidden: true }, "This browser has no room for the texts of tabs: they are lost when the page is closed.");
  const shareButton = h("button", { type: "button", title: "Copy a link to this query", onclick: () => void share() }, "Share");
  const saveButton = h("button", { type: "button", hidden: true, title: "Give the statement a name, and a link", onclick: () => saveIt() }, "Save …");
  void savedQueries(signal).then(
    ({ may_save }) => (saveButton.hidden = !may_save),
    () => undefined,
  );

  function saveIt(): void {
    const name = /^Query \d+$/.test(tab.name) ? "" : tab.name.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, "-");
    const query = { name, sql: statement(sheet().editor.chosen.text), description: "", database: tab.database, dialect: "duckdb", parameters: [], may_change: true };
    openSaveDialog(query, true, (saved) => visit(linkOfSaved(saved.name)));
  }

  const exportMenu = h("select", { class: "menu", "aria-label": "Export all rows", onchange: () => void export_(exportMenu.value as FormatName) }, h("option", { value: "" }, "Export …"));
  for (const [value, { name }] of Object.entries(FORMATS)) exportMenu.append(h("option", { value }, name));
  const picks = {
    query: (sql: string, from: string) => {
      bring(sql, from);
      tab.edited = false;
      void sheet().start();
    },
    insert: (text: string) => sheet().editor.insert(text),
  };
  const tree = h("details", { class: "side", open: !matchMedia("(max-width: 760px)").matches }, h("summary", {}, "Savepoints"), schemaTree(picks, () => tab.database));
  const walk = (event: KeyboardEvent) => {
    const steps = { PageUp: -1, PageDown: 1 }[event.key];
    if (!event.altKey || steps === undefined || tabs.length < 2) return;
    event.preventDefault();
    show(tabs[(tabs.indexOf(tab) + steps + tabs.length) % tabs.length]);
    sheet().editor.focus();
  };
  fill(
    main,
    queryHead("editor"),
    h(
      "div",
      { class: "query-view", onkeydown: walk },
      h("h1", { class: "unseen" }, "Query"),
      tree,
      h(
        "div",
        { class: "work" },
        strip.element,
        unkeptNote,
        h(
          "div",
          { class: "toolbar" },
          runButton,
          cancelButton,
          picker,
          h("span", { class: "gap" }),
          h("button", { type: "button", title: "Ctrl+Shift+Enter; shows what would run", onclick: () => void sheet().start("EXPLAIN ") }, "Explain"),
          h("button", { type: "button", onclick: () => openHistory(bring) }, "History"),
          saveButton,
          shareButton,
          exportMenu,
        ),
        area,
      ),
    ),
  );
  addEventListener("pagehide", keepAll, { signal });
  signal.addEventListener("abort", () => {
    keepAll();
    for (const one of sheets.values()) one.destroy();
  });
  show(tab);
  void schemas().then(
    (found) => {
      if (signal.aborted) return;
      list = found;
      const name = chosen(list, tab.database);
      if (name) use(name);
      else fill(picker, select("Database", [], "", pickDatabase));
      note();
      if (values.get("run") || (isFirst && name !== null)) void sheet().start();
      sheet().editor.focus();
    },
    (error: unknown) => error instanceof ApiError && sheet().result.failed(error),
  );
}
