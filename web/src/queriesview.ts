// For operators: everybody's queries and writes that run, wait, or ended lately, and their end on request.
import { ApiError, get, remove, Status } from "./api";
import { announce, Child, fill, h } from "./dom";
import { age, bytes, count, duration, plural } from "./format";
import { measure, plainTable, problem } from "./panel";
import { queryHead } from "./queryplace";
import { OWN } from "./sql";
import type { Write, Writes } from "./writes";

interface Listed extends Status {
  user: string;
  source: string;
  engine: string;
  queued_ms: number;
}
interface List {
  may_see_all: boolean;
  queries: Listed[];
}

interface ListedWrite extends Write {
  user: string;
  sql: string;
  queued_ms: number;
}

const LOOK_EVERY_MS = 2000;
const MOST = 200;
const LIVE = new Set(["queued", "running"]);
const MARKS: Record<Status["state"], string> = { queued: "◌ waits", running: "▶ runs", finished: "finished", failed: "✗ failed", cancelled: "■ cancelled" };

let may: Promise<boolean> | null = null;

/** Whether this user may see the queries of others: asked once. */
export function mayOperate(): Promise<boolean> {
  may ??= get<List>("api/queries?limit=0").then((list) => list.may_see_all);
  return may;
}

export function queriesView(main: HTMLElement, signal: AbortSignal): void {
  const live = h("div", { "aria-busy": "true" }, h("p", { class: "note", role: "status" }, "Loading …"));
  const past = h("div", {});
  const writing = h("div", { hidden: true });
  const writingTitle = h("h2", { hidden: true }, "Writes");
  const told = h("p", { class: "note", role: "status" });
  const failed = h("div", {});
  const filter = h("input", { type: "search", class: "wide", placeholder: "user, database, statement, state, error", "aria-label": "Filter the queries", oninput: () => show() });
  const own = h("input", { type: "checkbox", onchange: () => show() });
  let queries: Listed[] = [];
  let writes: ListedWrite[] = [];
  /** The statements that are seen whole. */
  const whole = new Set<string>();
  fill(
    main,
    queryHead("running"),
    h(
      "div",
      { class: "view" },
      h("div", { class: "head-row" }, h("h1", {}, "Queries of everybody"), h("span", { class: "gap" }), filter, h("label", { class: "field" }, own, "with those of this page itself")),
      h("p", { class: "about" }, "What runs now and what ended lately, of the databases that you operate. A query or a write that you end fails for its user, with the reason; the audit log says who ended it."),
      failed,
      told,
      h("h2", {}, "Running and waiting"),
      live,
      writingTitle,
      writing,
      h("h2", {}, "Ended"),
      past,
    ),
  );

  function show(): void {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = queries.filter((query) => (own.checked || !query.sql.startsWith(OWN)) && words.every((word) => textOf(query).includes(word)));
    const running = seen.filter(({ state }) => LIVE.has(state));
    const ended = seen.filter(({ state }) => !LIVE.has(state));
    const seenWrites = writes.filter((write) => words.every((word) => [write.user, write.sql, write.source, write.database, write.state].join("\n").toLowerCase().includes(word)));
    const liveWrites = seenWrites.filter(({ state }) => LIVE.has(state)).length;
    told.textContent = `${plural(running.length, "query", "queries")}${liveWrites ? ` and ${plural(liveWrites, "write")}` : ""} running or waiting, ${count(ended.length)} ended`;
    writing.hidden = writingTitle.hidden = !writes.length;
    if (!writing.contains(document.activeElement)) fill(writing, seenWrites.length ? writeTable(seenWrites, whole, endWrite) : h("p", { class: "empty" }, "No write matches this text."));
    // What has the focus, or is selected, is not taken away by the next look.
    if (!live.contains(document.activeElement) && getSelection()?.isCollapsed !== false) fill(live, running.length ? table("Running and waiting queries", running, whole, end) : h("p", { class: "empty" }, "Nothing runs."));
    if (getSelection()?.isCollapsed !== false) fill(past, ended.length ? table("Queries that ended", ended, whole) : h("p", { class: "empty" }, "Nothing ended lately."));
  }

  function end(query: Listed, button: HTMLButtonElement): Promise<void> {
    return endAt(`api/queries/${query.query_id}`, `The query of ${query.user} is ended`, button);
  }

  function endWrite(write: ListedWrite, button: HTMLButtonElement): Promise<void> {
    return endAt(`api/savepoints/${write.id}`, `The write of ${write.user} is ended`, button);
  }

  async function endAt(address: string, done: string, button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    try {
      await remove(address);
      announce(done);
      button.blur();
      await look();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      button.disabled = false;
      fill(failed, problem(error));
    }
  }

  async function look(): Promise<void> {
    try {
      const [asked, written] = await Promise.all([get<List>(`api/queries?all=true&limit=${MOST}`, signal), get<Omit<Writes, "writes"> & { writes: ListedWrite[] }>("api/savepoints?all=true", signal)]);
      [queries, writes] = [asked.queries, written.writes];
      fill(failed);
      live.removeAttribute("aria-busy");
      show();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(failed, problem(error));
    }
  }

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      if (!document.hidden) await look();
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
  void watch();
}

function textOf({ user, sql, databases, state, engine, source, error }: Listed): string {
  return [user, sql, ...databases.map(({ name }) => name), state, engine, source, error?.message ?? ""].join("\n").toLowerCase();
}

type End<T> = (one: T, button: HTMLButtonElement) => Promise<void>;

function table(caption: string, queries: Listed[], whole: Set<string>, end?: End<Listed>): HTMLElement {
  const head = ["User", ...(end ? ["End"] : []), "State", "Statement", "Database", "Engine", "Started", "Took", "Waited", "Rows", "Read"];
  return plainTable(caption, head, queries.map((query) => row(query, whole, end)));
}

function writeTable(writes: ListedWrite[], whole: Set<string>, end: End<ListedWrite>): HTMLElement {
  const head = ["User", "End", "State", "Script", "From", "To", "Started", "Took", "Waited", "Written"];
  return plainTable("Writes of everybody", head, writes.map((write) => writeRow(write, whole, end)));
}

function writeRow(write: ListedWrite, whole: Set<string>, end: End<ListedWrite>): Child[] {
  const { id, user, sql, state, error, source, database, dry_run, created, elapsed_ms, queued_ms, progress } = write;
  const button: HTMLButtonElement = h("button", { type: "button", class: "danger", "aria-label": `End the write of ${user}`, onclick: () => void end(write, button) }, "■ End");
  return [
    user || "–",
    LIVE.has(state) ? button : "–",
    [h("span", { class: `state ${state}` }, MARKS[state]), error ? h("small", {}, error.message) : null],
    statementCell(id, sql, whole),
    source ?? "nothing",
    dry_run ? h("span", { class: "nowrap" }, "a preview") : (database ?? "–"),
    h("span", { class: "nowrap", title: new Date(created * 1000).toISOString() }, age(new Date(created * 1000).toISOString())),
    measure(duration(elapsed_ms)),
    measure(duration(queued_ms)),
    measure(bytes(progress.bytes_written)),
  ];
}

/** The beginning of a statement, and all of it on request. */
function statementCell(id: string, sql: string, whole: Set<string>): HTMLElement {
  const toggled = (event: Event) => ((event.target as HTMLDetailsElement).open ? whole.add(id) : whole.delete(id));
  return h("details", { class: "statement", open: whole.has(id), ontoggle: toggled }, h("summary", {}, h("code", {}, first(sql))), h("pre", { tabindex: 0 }, sql));
}

function row(query: Listed, whole: Set<string>, end?: End<Listed>): Child[] {
  const { sql, user, source, state, error, databases, engine, created, elapsed_ms, queued_ms, row_count, progress } = query;
  const button: HTMLButtonElement = h("button", { type: "button", class: "danger", "aria-label": `End the query of ${user}`, onclick: () => void end?.(query, button) }, "■ End");
  const started = new Date(created * 1000).toISOString();
  return [
    h("span", { title: source }, user || "–"),
    ...(end ? [button] : []),
    [h("span", { class: `state ${state}` }, MARKS[state]), error ? h("small", {}, error.message) : null],
    statementCell(query.query_id, sql, whole),
    databases.map(({ name }) => name).join(", ") || (query.database ?? "–"),
    engine,
    h("span", { class: "nowrap", title: started }, age(started)),
    measure(duration(elapsed_ms)),
    measure(duration(queued_ms)),
    row_count,
    measure(bytes(progress.bytes_read)),
  ];
}

function first(sql: string): string {
  const line = sql.trim().replaceAll(/\s+/g, " ");
  return line.length > 90 ? `${line.slice(0, 90)} …` : line;
}
