// The place of a job: its checkpoints on a time line, two of them compared, a key through all of them, and rules.
import { ApiError } from "./api";
import { reading, records } from "./asking";
import { Database, schemas } from "./catalog";
import { keep } from "./context";
import { diffView } from "./diffview";
import { Child, fill, h } from "./dom";
import { followView } from "./followview";
import { age, bytes, count, moment } from "./format";
import { growth } from "./growth";
import { describe, Job, jobsOf, kindsOf, newestIn, shortName } from "./jobs";
import { liveBadge } from "./jobsview";
import { measure, plainTable, problem, skeleton } from "./panel";
import { action, actions, copyButton, partStrip, where } from "./place";
import { jobLink, jobsLink, linkOf, queryLink } from "./route";
import { rulesView } from "./rulesview";
import { savepointButton } from "./savepointbutton";
import { identifier, literal } from "./sql";
import { timelineView } from "./timelineview";

/** What the parts of a job are about. */
export interface OfJob {
  job: Job;
  list: Database[];
}
type Part = (body: HTMLElement, of: OfJob, values: URLSearchParams, signal: AbortSignal) => void;

const PARTS: Record<string, { title: string; show: Part }> = {
  checkpoints: { title: "Checkpoints", show: checkpointsView },
  compare: { title: "Compare", show: diffView },
  timeline: { title: "Key timeline", show: timelineView },
  follow: { title: "Follow", show: followView },
  rules: { title: "Rules", show: rulesView },
};
/** So many checkpoints of a job are listed at first. */
const MOST = 100;

/** What the table of all checkpoints says of one. */
interface Fact {
  database: string;
  status: string | null;
  size_bytes: number | null;
}

export function jobView(main: HTMLElement, part: string, values: URLSearchParams, signal: AbortSignal): void {
  const name = values.get("job")!;
  const seen = Object.hasOwn(PARTS, part) ? part : "checkpoints";
  const { title, show } = PARTS[seen];
  const head = h("header", { class: "head" }, h("div", { class: "head-row" }, h("h1", {}, name)));
  const body = h("div", { class: "view-body" }, skeleton());
  fill(main, h("div", { class: "view" }, head, body));
  document.title = `${title} · ${name} · savepointdb`;
  where([["Jobs", jobsLink()], [name, null]]);
  void schemas().then(
    (list) => {
      if (signal.aborted) return;
      const job = jobsOf(list).find((one) => one.name === name);
      if (!job) return fill(body, h("div", { class: "error", role: "alert" }, h("strong", {}, `There is no job ${name}.`), h("p", {}, h("a", { class: "link", href: jobsLink() }, "All jobs"))));
      const newest = newestIn(job);
      if (newest) keep({ db: newest.name });
      document.title = `${title} · ${job.title} · savepointdb`;
      where([["Jobs", jobsLink()], [job.title, null]]);
      fill(head, headOf(job, seen, signal));
      show(body, { job, list }, values, signal);
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(body, problem(error));
    },
  );
}

function headOf(job: Job, seen: string, signal: AbortSignal): Child {
  const told = h("div", {});
  const { entry } = job;
  const { live } = entry;
  const about = [kindsOf(job), job.folder, entry.job_id && `job ${entry.job_id}`, live?.url_label && `cluster ${live.url_label}`].filter(Boolean).join(" · ");
  return [
    h("div", { class: "head-row" }, h("h1", {}, job.title), liveBadge(job), h("span", { class: "gap" }), live?.may_savepoint ? savepointButton(job, told, () => undefined, signal) : null, copyButton()),
    h("p", { class: "about one-line", title: about }, about),
    live?.error ? h("p", { class: "banner", role: "note" }, `The cluster was last seen ${age(live.last_seen_at)}: ${live.error}`) : null,
    live?.failure ? h("p", { class: "banner", role: "note" }, `The last checkpoint that failed: ${live.failure}`) : null,
    told,
    partStrip("Parts of the job", Object.entries(PARTS).map(([part, { title }]) => [part, title, jobLink(job.name, part === "checkpoints" ? "" : part)]), seen),
  ];
}

function historySql(job: Job): string {
  return `SELECT _checkpoint_id, _checkpoint_at, state_name, size_bytes\nFROM ${identifier(job.entry.history)}.StateMeta\nORDER BY _checkpoint_id DESC, size_bytes DESC`;
}

/** Its checkpoints, the newest first; sizes, and what a cluster says of them, come a little later. */
function checkpointsView(body: HTMLElement, { job }: OfJob, _values: URLSearchParams, signal: AbortSignal): void {
  const holder = h("div", {});
  const line = h("div", {});
  const newest = newestIn(job);
  const broken = job.databases.filter((one) => one.error !== null);
  const { live } = job.entry;
  let most = MOST;
  let facts = new Map<string, Fact>();
  const size = h("span", {}, "–");
  const cards: [string, Child, string?][] = [
    ["Newest", newest ? h("a", { class: "link", href: linkOf(newest.name) }, shortName(newest)) : "none"],
    ["Written", newest?.created_at ? age(newest.created_at) : "–"],
    ["Size", size],
    ["Readable", `${count(job.databases.length - broken.length)} of ${count(job.databases.length)}`, broken.length ? `${shortName(broken[0])}${broken.length > 1 ? " …" : ""}` : undefined],
    ...(live ? ([["Failed checkpoints", count(live.checkpoints.failed)]] as [string, Child][]) : []),
  ];
  const show = () => {
    const seen = job.databases.slice(0, most);
    const statuses = [...facts.values()].some((fact) => fact.status !== null);
    size.textContent = sizeText(facts.get(newest?.name ?? "")?.size_bytes ?? null);
    fill(line, timeLine(job.databases.slice(0, MOST), facts));
    fill(
      holder,
      plainTable(
        "Checkpoints",
        ["Savepoint", "Kind", "Written (UTC)", ...(statuses ? ["Status"] : []), "Size", "Compare"],
        seen.map((one, at) => [
          one.error === null ? h("a", { class: "link", href: linkOf(one.name), title: one.name }, shortName(one)) : h("span", { title: one.name }, shortName(one)),
          one.error === null ? (one.kind ?? "").toLowerCase() : h("span", { class: "bad", title: one.error }, "unreadable"),
          one.created_at ? h("span", { class: "nowrap", title: one.created_at }, moment(one.created_at), " ", h("small", { class: "note" }, age(one.created_at))) : "–",
          ...(statuses ? [(facts.get(one.name)?.status ?? "–").toLowerCase()] : []),
          measure(sizeText(facts.get(one.name)?.size_bytes ?? null)),
          compareLink(job, one, job.databases.find((other, place) => place > at && other.error === null)),
        ]),
      ),
      seen.length < job.databases.length ? h("p", {}, h("button", { type: "button", onclick: () => ((most = job.databases.length), show()) }, `Show all ${count(job.databases.length)}`)) : null,
    );
  };
  fill(
    body,
    h("dl", { class: "cards" }, cards.map(([name, value, warning]) => h("div", {}, h("dt", {}, name), h("dd", {}, value), warning ? h("dd", { class: "bad" }, warning) : null))),
    line,
    h("div", { class: "section-head" }, h("h2", {}, "Checkpoints and savepoints"), actions(newest && job.entry.history ? [action("History as tables", linkOf(job.entry.history)), action("Query the history", queryLink({ db: newest.name, sql: historySql(job), run: "1" }))] : null)),
    holder,
    growth(job, signal),
  );
  show();
  void records<Fact>(`SELECT database, status, size_bytes FROM savepointdb.checkpoints WHERE job = ${literal(job.name)}`, reading(signal)).then(
    (found) => {
      facts = new Map(found.map((fact) => [fact.database, fact]));
      if (!signal.aborted) show();
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) holder.append(problem(error));
    },
  );
}

function sizeText(size: number | null): string {
  return size === null ? "–" : bytes(size);
}

/** The checkpoints as marks on a line, the oldest first: as high as they are large, savepoints in another shape than checkpoints. */
function timeLine(databases: Database[], facts: Map<string, Fact>): HTMLElement {
  const most = Math.max(1, ...databases.map((one) => facts.get(one.name)?.size_bytes ?? 0));
  const marks = [...databases].reverse().map((one) => {
    const size = facts.get(one.name)?.size_bytes ?? null;
    const bar = h("span", { class: "bar" });
    bar.style.height = `${one.error !== null ? 100 : Math.max(6, ((size ?? 0) / most) * 100)}%`;
    const label = [shortName(one), describe(one), one.error !== null ? "unreadable" : sizeText(size)].filter(Boolean).join(" · ");
    const kind = one.error !== null ? "broken" : one.kind === "CHECKPOINT" ? "checkpoint" : "savepoint";
    return h("li", { class: kind }, one.error === null ? h("a", { href: linkOf(one.name), title: label, "aria-label": label }, bar) : h("span", { title: `${label}: ${one.error}` }, bar));
  });
  const kinds = ["checkpoint", "savepoint", "broken"].filter((kind) => marks.some((mark) => mark.className === kind));
  const ages = [databases.at(-1), databases[0]].map((one) => (one?.created_at ? moment(one.created_at) : ""));
  const legend = h("p", { class: "note legend" }, ages[0], h("span", { class: "gap" }), kinds.length > 1 ? kinds.map((kind) => h("span", { class: kind }, kind === "broken" ? "unreadable" : kind)) : null, h("span", { class: "gap" }), ages[1]);
  return h("div", {}, h("ol", { class: "time-line", "aria-label": "Checkpoints by time, the oldest first" }, marks), legend);
}

function compareLink(job: Job, one: Database, before: Database | undefined): Child {
  if (one.error !== null || !before) return "";
  return h("a", { class: "link", href: jobLink(job.name, "compare", { before: before.name, after: one.name }), "aria-label": `Compare ${shortName(one)} with the one before` }, "with the one before");
}
