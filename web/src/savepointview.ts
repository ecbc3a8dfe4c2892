// The place of a savepoint: its head with the choice of another one, and its parts.
import { ApiError } from "./api";
import { chosen, Database, isOfService, optionsOf, schemas, skippedBy } from "./catalog";
import { checkView } from "./checkview";
import { keep } from "./context";
import { Child, fill, h, select } from "./dom";
import { describe, jobsOf, shortName } from "./jobs";
import { keysView } from "./keysview";
import { offsetsView } from "./offsetsview";
import { overviewView } from "./overview";
import { problem, skeleton, skippedNote } from "./panel";
import { copyButton, partStrip, stepsTo, where } from "./place";
import { partLink, queryLink, visit } from "./route";
import { tablesView } from "./tablesview";
import { timersView } from "./timersview";
import { mayWrite } from "./writes";
import { xrayView } from "./xrayview";

/** What the parts of a savepoint are about. */
export interface At {
  name: string;
  list: Database[];
}
type Part = (body: HTMLElement, at: At, values: URLSearchParams, signal: AbortSignal) => void;

const PARTS: Record<string, { title: string; show: Part }> = {
  overview: { title: "Overview", show: overviewView },
  tables: { title: "Tables", show: tablesView },
  keys: { title: "Keys", show: keysView },
  offsets: { title: "Offsets", show: offsetsView },
  timers: { title: "Timers", show: timersView },
  xray: { title: "X-ray", show: xrayView },
  check: { title: "Check", show: checkView },
  // It brings an editor, which the other parts do without.
  write: { title: "Write", show: (...all) => void import("./writeview").then(({ writeView }) => all[3].aborted || writeView(...all)) },
};

export function savepointView(main: HTMLElement, part: string, values: URLSearchParams, signal: AbortSignal): void {
  const name = values.get("db")!;
  const seen = Object.hasOwn(PARTS, part) ? part : "overview";
  const { title, show } = PARTS[seen];
  const head = h("header", { class: "head" });
  const body = h("div", { class: "view-body" }, skeleton());
  fill(main, h("div", { class: "view" }, head, body));
  document.title = `${title} · ${name} · savepointdb`;
  where([["Jobs", null], [name, null]]);
  fill(head, headOf(name, [], seen));
  void schemas().then(
    (list) => {
      if (signal.aborted) return;
      const isPlain = isOfService(list, name) || jobsOf(list).some((job) => job.entry.history === name);
      const own = chosen(list, name)!;
      if (!isOfService(list, name)) keep({ db: own });
      where(stepsTo(list, own));
      fill(head, headOf(own, list, isPlain ? "tables" : seen));
      (isPlain ? tablesView : show)(body, { name: own, list }, values, signal);
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(body, problem(error));
    },
  );
}

function headOf(name: string, list: Database[], seen: string): Child {
  const entry = list.find((one) => one.name === name);
  const own = list.find((one) => one.name === (entry?.alias_of ?? name));
  const history = jobsOf(list).find((job) => job.entry.history === name);
  const isService = list.length > 0 && isOfService(list, name);
  const isPlain = isService || history !== undefined;
  const go = (db: string) => visit(partLink(db, seen === "overview" ? "" : seen));
  const about = isService
    ? "The jobs and checkpoints of all databases as tables, for questions about many of them: which checkpoint is the largest, which cannot be read."
    : history
      ? `The tables of all ${history.databases.length} checkpoints of ${history.title}, each row with its checkpoint in front.`
      : own
        ? [entry?.alias_of ? `${name} is ${own.name}` : "", describe(own), own.path].filter(Boolean).join(" · ")
        : "";
  const write = h("span", { class: "of-writers", hidden: true });
  void mayWrite().then((may) => (write.hidden = !may));
  const parts = Object.entries(PARTS).map(([part, { title }]): [string, string, string] => [part, title, partLink(name, part === "overview" ? "" : part)]);
  const strip = isPlain ? null : partStrip("Parts of the savepoint", parts, seen);
  const link = strip?.lastElementChild;
  if (link) link.replaceWith((fill(write, link.cloneNode(true)), write));
  return [
    h(
      "div",
      { class: "head-row" },
      h("h1", {}, own && !entry?.alias_of ? shortName(own) : name),
      h("span", { class: "gap" }),
      isPlain || !list.length ? null : select("Database", optionsOf(list, name), name, go),
      isPlain ? null : h("a", { class: "button", href: queryLink({ db: name }) }, "Query it"),
      copyButton(),
    ),
    h("p", { class: "about one-line", title: about }, about || "\u00a0"),
    skippedNote(skippedBy(list, name), entry?.alias_of ?? name),
    strip,
  ];
}
