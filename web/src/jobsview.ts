// Home: all jobs, the newest first, and a key in all of them.
import { ApiError } from "./api";
import { records } from "./asking";
import { schemas } from "./catalog";
import { several } from "./compare";
import { Child, fill, h } from "./dom";
import { age, bytes, plural } from "./format";
import { Job, jobsOf, kindsOf, newestIn, shortName } from "./jobs";
import { keyResults } from "./keysearch";
import { empty, problem, skeleton } from "./panel";
import { action, where } from "./place";
import { jobLink, jobsLink, linkOf, remember } from "./route";
import { failing, tested } from "./rulesview";
import { virtualList } from "./virtual";

/** Rules are tested without being asked where this many jobs have savepoints of this size at most. */
const FEW = 12;
const SMALL = 64 * 1024 * 1024;

/** What is known of the sizes of the newest savepoints of a job, the newest first. */
interface Sizes {
  job: string;
  sizes: (number | null)[];
}

export function jobsView(main: HTMLElement, values: URLSearchParams, signal: AbortSignal): void {
  document.title = "Jobs · savepointdb";
  where([["Jobs", null]]);
  const home = new Home(values.get("key") ?? "", main, signal);
  fill(main, home.element);
  void schemas().then(
    (list) => signal.aborted || home.show(jobsOf(list)),
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) home.failed(error);
    },
  );
}

class Home {
  readonly element: HTMLElement;
  private jobs: Job[] | null = null;
  private readonly sizes = new Map<string, (number | null)[]>();
  private readonly rules = new Map<string, number | null>();
  private readonly told = h("span", { class: "note" }, "\u00a0");
  private readonly filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the jobs", hidden: true, oninput: () => this.narrow() });
  private readonly ruleButton = h("button", { type: "button", hidden: true, title: "Tests the rules of savepointdb on the newest savepoint of each job", onclick: () => void this.testRules() }, "Test the rules");
  private readonly found = h("div", { class: "view-body" });
  private readonly body = h("div", {}, skeleton());
  private readonly nothing = h("div", {});
  private readonly key: HTMLInputElement;
  private search = new AbortController();
  private readonly rows;

  constructor(
    key: string,
    scroller: HTMLElement,
    private readonly signal: AbortSignal,
  ) {
    this.key = h("input", { type: "search", value: key, "aria-label": "Key", placeholder: "Find a key in the newest savepoint of every job", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
    this.rows = virtualList<Job>("Jobs", scroller, (job) => this.row(job), signal);
    signal.addEventListener("abort", () => this.search.abort());
    const submit = (event: Event) => {
      event.preventDefault();
      this.find();
    };
    this.element = h(
      "div",
      { class: "view" },
      h("div", { class: "head-row" }, h("h1", {}, "Jobs"), this.told, h("span", { class: "gap" }), this.ruleButton, this.filter, action("All savepoints", linkOf())),
      h("form", { class: "keyform hero", role: "search", "aria-label": "Find a key in all jobs", onsubmit: submit }, this.key, h("button", { class: "primary" }, "Find")),
      this.found,
      this.body,
      this.nothing,
    );
  }

  failed(error: ApiError): void {
    fill(this.body, problem(error));
  }

  show(jobs: Job[]): void {
    this.jobs = jobs;
    const total = jobs.reduce((sum, job) => sum + job.databases.length, 0);
    this.told.textContent = `${plural(jobs.length, "job")}, ${plural(total, "savepoint")} and checkpoints`;
    this.filter.hidden = jobs.length <= 8;
    const head = h("div", { class: "jobs-head", "aria-hidden": "true" }, h("span", {}, "Job"), h("span", {}, "Newest"), h("span", { class: "job-size" }, h("span", { class: "number" }, "Size"), "Trend"), h("span", {}, "State"));
    fill(
      this.body,
      jobs.length
        ? h("div", { class: "jobs-frame" }, head, this.rows.element)
        : [empty("There is no savepoint in the folders that are served."), h("p", { class: "empty" }, "Serve a folder with ", h("code", {}, "savepointdb serve PATH"), ", or try ", h("code", {}, "savepointdb demo"), ".")],
    );
    this.rows.show(jobs);
    void this.askSizes(jobs);
    if (this.key.value) this.find();
  }

  private narrow(): void {
    const text = this.filter.value.toLowerCase();
    const seen = (this.jobs ?? []).filter((job) => [job.title, job.name, job.folder, job.entry.job_id].join(" ").toLowerCase().includes(text));
    this.rows.show(seen);
    fill(this.nothing, seen.length ? null : empty("No job matches this text."));
  }

  private find(): void {
    this.search.abort();
    this.search = new AbortController();
    const text = this.key.value;
    remember(jobsLink({ key: text }));
    if (!text) fill(this.found);
    else if (this.jobs) keyResults(this.found, this.jobs, text, this.search.signal);
  }

  private async askSizes(jobs: Job[]): Promise<void> {
    try {
      const found = await records<Sizes>("SELECT job, list(size_bytes ORDER BY created_at DESC)[1:24] AS sizes FROM savepointdb.checkpoints WHERE readable GROUP BY job");
      for (const { job, sizes } of found) this.sizes.set(job, sizes);
      if (this.signal.aborted) return;
      this.rows.again();
    } catch (error) {
      // Sizes are a courtesy: whatever fails is told where it is asked for.
      if (!(error instanceof ApiError)) throw error;
    }
    if (jobs.length > FEW || [...this.sizes.values()].some(([size]) => (size ?? 0) > SMALL)) this.ruleButton.hidden = false;
    else void this.testRules();
  }

  /** Tests the rules, the newest job first. */
  private async testRules(): Promise<void> {
    this.ruleButton.disabled = true;
    await several(this.jobs ?? [], async (job) => {
      if (this.signal.aborted) return;
      try {
        this.rules.set(job.name, await (tested(job)?.then(failing) ?? null));
        this.rows.again();
      } catch (error) {
        // The page of the job says why.
        if (!(error instanceof ApiError)) throw error;
      }
    });
    this.ruleButton.hidden = true;
  }

  private row(job: Job): HTMLElement {
    const newest = newestIn(job);
    const broken = job.databases.filter((one) => one.error !== null);
    const sizes = this.sizes.get(job.name) ?? [];
    const failed = this.rules.get(job.name);
    const isNewestBroken = newest && job.databases[0].error !== null;
    return h(
      "li",
      { class: "job-row" },
      h("div", { class: "job-name" }, h("h2", {}, h("a", { href: jobLink(job.name), title: job.folder }, job.title)), h("p", { class: "note one-line" }, `${kindsOf(job)} · ${job.folder}`)),
      h(
        "div",
        { class: "job-newest" },
        newest ? h("a", { class: "link", href: linkOf(newest.name), title: newest.name }, shortName(newest)) : h("span", { class: "bad" }, "none can be read"),
        h("p", { class: "note", title: newest?.created_at ?? null }, newest?.created_at ? age(newest.created_at) : "\u00a0"),
      ),
      h("div", { class: "job-size" }, h("span", { class: "number" }, sizes.length && sizes[0] !== null ? bytes(sizes[0]) : "–"), trend(sizes)),
      h(
        "div",
        { class: "job-marks" },
        liveBadge(job),
        broken.length ? h("span", { class: "badge fails", title: broken[0].error ?? "" }, `${broken.length} unreadable${isNewestBroken ? `, also the newest: ${shortName(job.databases[0])}` : ""}`) : null,
        failed ? h("a", { class: "badge fails", href: jobLink(job.name, "rules") }, `${plural(failed, "rule")} ${failed === 1 ? "fails" : "fail"}`) : failed === 0 ? h("a", { class: "badge fine", href: jobLink(job.name, "rules") }, "rules hold") : null,
        job.entry.live?.error ? h("span", { class: "badge doubt", title: job.entry.live.error }, `seen ${age(job.entry.live.last_seen_at)}`) : null,
      ),
    );
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** How the size changed, the newest to the right. */
function trend(newestFirst: (number | null)[]): Element {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "trend");
  svg.setAttribute("viewBox", "0 0 96 24");
  svg.setAttribute("aria-hidden", "true");
  const values = newestFirst.filter((size) => size !== null).reverse();
  if (values.length < 2) return svg;
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, at) => `${(2 + (at * 92) / (values.length - 1)).toFixed(1)},${(21 - (most === least ? 0.5 : (value - least) / (most - least)) * 18).toFixed(1)}`);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}

export function liveBadge(job: Job): Child {
  const { live } = job.entry;
  const state = live?.state ?? job.entry.state;
  if (!state) return null;
  const good = state === "RUNNING" && !live?.error;
  return h("span", { class: `badge ${good ? "fine" : "unknown"}`, title: live?.last_seen_at ? `seen ${age(live.last_seen_at)}` : null }, live?.error ? "not seen" : state.toLowerCase());
}
