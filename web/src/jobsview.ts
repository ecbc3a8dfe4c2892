// The jobs: how old their newest checkpoints are, what can be read, and each checkpoint of one of them.
import { ApiError } from "./api";
import { reading, records } from "./asking";
import { Database, schemas } from "./catalog";
import { keep } from "./context";
import { Child, fill, h } from "./dom";
import { age, bytes, count, plural } from "./format";
import { growth } from "./growth";
import { Job, jobsOf, shortName } from "./jobs";
import { measure, plainTable, problem } from "./panel";
import { hashOf } from "./route";
import { savepointButton } from "./savepointbutton";
import { identifier, literal } from "./sql";

const VIEW = "jobs";
/** So many checkpoints of a job, and jobs, are listed at first. */
const MOST = 100;

/** What the table of all checkpoints says of one. */
interface Fact {
  database: string;
  status: string | null;
  size_bytes: number | null;
}

export function jobsView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  const wanted = values.get("job");
  const view = h("div", { class: "view" }, h("div", { class: "view-head" }, h("h1", {}, wanted === null ? "Jobs" : "Job")), h("p", { class: "note", role: "status" }, "Loading …"));
  fill(main, view);
  void schemas().then(
    (list) => {
      if (signal.aborted) return;
      if (wanted === null) fill(view, jobList(jobsOf(list)));
      else {
        const job = jobsOf(list).find((one) => one.name === wanted);
        fill(view, job ? jobDetail(job, signal) : h("div", { class: "error", role: "alert" }, h("strong", {}, `There is no job ${wanted}.`), h("p", {}, h("a", { class: "link", href: hashOf(VIEW, {}) }, "All jobs"))));
      }
    },
    (error: unknown) => error instanceof ApiError && !signal.aborted && fill(view, problem(error)),
  );
}

function jobList(jobs: Job[]): Child {
  const total = jobs.reduce((sum, job) => sum + job.databases.length, 0);
  const list = h("ul", { class: "jobs", "aria-label": "Jobs" });
  const show = (text: string, all = false) => {
    const found = jobs.filter((job) => [job.title, job.name, job.folder, job.entry.job_id].join(" ").toLowerCase().includes(text.toLowerCase()));
    const shown = all ? found : found.slice(0, MOST);
    fill(
      list,
      shown.map(jobCard),
      shown.length < found.length ? h("li", {}, h("button", { type: "button", onclick: () => show(text, true) }, `Show all ${count(found.length)}`)) : null,
      found.length ? null : h("li", { class: "empty" }, jobs.length ? "No job is named so." : "There is no savepoint under the folders that are served."),
    );
  };
  show("");
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the jobs", oninput: () => show(filter.value) });
  return [
    h("div", { class: "view-head" }, h("h1", {}, "Jobs"), jobs.length > 8 ? filter : null),
    h("p", { class: "about" }, `${plural(jobs.length, "job")}, ${plural(total, "savepoint")} and checkpoints. The folder of a checkpoint says its job; the newest job stands first.`),
    list,
  ];
}

function jobCard(job: Job): HTMLElement {
  const newest = newestOf(job);
  const first = job.databases[0];
  return h(
    "li",
    { class: "card" },
    h("div", { class: "card-head" }, h("h2", {}, h("a", { class: "link", href: hashOf(VIEW, { job: job.name }), title: job.folder }, job.title)), liveBadge(job)),
    h(
      "p",
      {},
      newest ? h("a", { class: "link", href: hashOf("overview", { db: newest.name }) }, shortName(newest)) : h("span", { class: "bad" }, "none can be read"),
      newest?.created_at ? h("span", { title: newest.created_at }, ` ${age(newest.created_at)}`) : "",
      h("span", { class: "note" }, ` · ${plural(job.databases.length, "savepoint")}`),
    ),
    unreadableNote(job, newest, first),
    job.entry.live?.error ? h("p", { class: "note" }, `The cluster was last seen ${age(job.entry.live.last_seen_at)}: ${job.entry.live.error}`) : null,
    links(job),
  );
}

function newestOf(job: Job): Database | undefined {
  return job.databases.find((one) => one.error === null);
}

function unreadableNote(job: Job, newest: Database | undefined, first: Database): Child {
  const broken = job.databases.filter((one) => one.error !== null);
  if (!broken.length) return null;
  const told = newest && first.error !== null ? `, also the newest: ${shortName(first)}` : "";
  return h("p", { class: "bad", title: broken[0].error ?? "" }, `${count(broken.length)} unreadable${told}`);
}

/** What can be done with a job. */
function links(job: Job): HTMLElement {
  const newest = newestOf(job);
  const readable = job.databases.filter((one) => one.error === null);
  const all: [string, string | null][] = [
    ["Timeline of a key", newest ? hashOf("timeline", { job: job.name }) : null],
    ["Diff of the newest", readable.length > 1 ? hashOf("diff", { before: readable[1].name, after: readable[0].name }) : null],
    ["History", newest && job.entry.history ? hashOf("query", { db: newest.name, sql: historySql(job), run: "1" }) : null],
  ];
  return h("p", { class: "actions" }, all.map(([text, address]) => (address === null ? null : h("a", { class: "link", href: address }, text))));
}

function historySql(job: Job): string {
  return `SELECT _checkpoint_id, _checkpoint_at, state_name, size_bytes\nFROM ${identifier(job.entry.history)}.StateMeta\nORDER BY _checkpoint_id DESC, size_bytes DESC`;
}

function liveBadge(job: Job): Child {
  const { live } = job.entry;
  const state = live?.state ?? job.entry.state;
  if (!state) return null;
  const good = state === "RUNNING" && !live?.error;
  return h("span", { class: `badge ${good ? "fine" : "unknown"}`, title: live?.last_seen_at ? `seen ${age(live.last_seen_at)}` : null }, live?.error ? "not seen" : state.toLowerCase());
}

function jobDetail(job: Job, signal: AbortSignal): Child {
  const newest = newestOf(job);
  const told = h("div", {});
  const entry = job.entry;
  if (newest) keep({ db: newest.name });
  const { live } = entry;
  const cards: [string, Child][] = [
    ["Newest", newest ? h("a", { class: "link", href: hashOf("overview", { db: newest.name }) }, shortName(newest)) : "none"],
    ["Written", newest?.created_at ? age(newest.created_at) : "–"],
    ["Savepoints", count(job.databases.length)],
    ["Readable", count(job.databases.filter((one) => one.error === null).length)],
    ...(live ? ([["Cluster", live.url_label], ["Checkpoints that failed", count(live.checkpoints.failed)]] as [string, Child][]) : []),
  ];
  return [
    h("div", { class: "view-head" }, h("h1", {}, job.title), liveBadge(job), h("span", { class: "gap" }), live?.may_savepoint ? savepointButton(job, told, () => undefined, signal) : null),
    h("p", { class: "about" }, [job.folder, entry.job_id].filter(Boolean).join(" · ")),
    live?.error ? h("p", { class: "banner", role: "note" }, `The cluster was last seen ${age(live.last_seen_at)}: ${live.error}`) : null,
    live?.failure ? h("p", { class: "banner", role: "note" }, `The last checkpoint that failed: ${live.failure}`) : null,
    told,
    h("dl", { class: "cards" }, cards.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    links(job),
    growth(job, signal),
    checkpoints(job, signal),
    h("p", {}, h("a", { class: "link", href: hashOf(VIEW, {}) }, "All jobs")),
  ];
}

/** Its checkpoints, the newest first; sizes, and what a cluster says of them, come a little later. */
function checkpoints(job: Job, signal: AbortSignal): Child {
  const holder = h("div", {});
  let most = MOST;
  let facts = new Map<string, Fact>();
  const show = () => {
    const seen = job.databases.slice(0, most);
    const statuses = [...facts.values()].some((fact) => fact.status !== null);
    fill(
      holder,
      plainTable(
        "Checkpoints",
        ["Savepoint", "Kind", "Written", ...(statuses ? ["Status"] : []), "Size", "Compare"],
        seen.map((one, at) => [
          one.error === null ? h("a", { class: "link", href: hashOf("overview", { db: one.name }), title: one.name }, shortName(one)) : h("span", { title: one.name }, shortName(one)),
          one.error === null ? (one.kind ?? "").toLowerCase() : h("span", { class: "bad", title: one.error }, "unreadable"),
          one.created_at ? h("span", { title: one.created_at }, age(one.created_at)) : "–",
          ...(statuses ? [(facts.get(one.name)?.status ?? "–").toLowerCase()] : []),
          sizeText(facts.get(one.name)?.size_bytes ?? null),
          compareLink(one, job.databases.find((other, place) => place > at && other.error === null)),
        ]),
      ),
      seen.length < job.databases.length ? h("p", {}, h("button", { type: "button", onclick: () => ((most = job.databases.length), show()) }, `Show all ${count(job.databases.length)}`)) : null,
    );
  };
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
  return [h("h2", {}, "Checkpoints and savepoints"), holder];
}

function sizeText(size: number | null): Child {
  return size === null ? "–" : measure(bytes(size));
}

function compareLink(one: Database, before: Database | undefined): Child {
  if (one.error !== null || !before) return "";
  return h("a", { class: "link", href: hashOf("diff", { before: before.name, after: one.name }), "aria-label": `Diff of ${shortName(one)} with the one before` }, "with the one before");
}
