// The rules that come with the service, tested on the newest savepoint of a job.
import { post } from "./api";
import { Child, h } from "./dom";
import { count, plural } from "./format";
import { Job, newestIn, shortName } from "./jobs";
import type { OfJob } from "./jobview";
import { empty, loading } from "./panel";
import { linkOf, queryLink } from "./route";

interface Outcome {
  rule: string;
  severity: "error" | "warning" | "info";
  description: string;
  table: string | null;
  status: "passed" | "violated" | "skipped" | "error";
  message: string | null;
  rows: unknown[] | null;
  sql: string | null;
}
interface Tested {
  counts: Record<string, number>;
  savepoints: { name: string; previous: string | null; error: { message: string } | null; results: Outcome[] }[];
}
const ORDER = ["error", "violated", "passed", "skipped"];
const BADGES: Record<Outcome["status"], string> = { violated: "fails", error: "doubt", passed: "fine", skipped: "same" };

const known = new Map<string, Promise<Tested>>();

/** What the rules say of the newest savepoint of a job: asked once for each savepoint. */
export function tested(job: Job): Promise<Tested> | null {
  const newest = newestIn(job);
  if (!newest) return null;
  let found = known.get(newest.name);
  if (!found) {
    found = post<Tested>("api/tests", { standard: true, database: newest.name });
    known.set(newest.name, found);
    found.catch(() => known.delete(newest.name));
  }
  return found;
}

export function failing({ counts }: Tested): number {
  return (counts.violated ?? 0) + (counts.error ?? 0);
}

export function rulesView(body: HTMLElement, { job }: OfJob, _values: URLSearchParams, signal: AbortSignal): void {
  const newest = newestIn(job);
  const asked = tested(job);
  if (!newest || !asked) return body.replaceChildren(empty("No savepoint of this job can be read, so no rule can be tested."));
  void loading(body, async () => shown(await asked, newest.name, shortName(newest)), signal);
}

function shown(found: Tested, database: string, title: string): Child {
  const results = found.savepoints.flatMap((one) => one.results);
  const sorted = [...results].sort((one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status));
  const failed = failing(found);
  return [
    h("p", { class: `verdict ${failed ? "fails" : "fine"}` }, h("strong", {}, failed ? `${plural(failed, "rule")} of ${count(results.length)} ${failed === 1 ? "fails" : "fail"} for ` : `All ${count(results.length - (found.counts.skipped ?? 0))} rules hold for `), h("a", { class: "link", href: linkOf(database) }, title)),
    h("ul", { class: "rules", "aria-label": "Rules" }, sorted.map((one) => ruleOf(one, database))),
    h("p", { class: "note" }, "These rules come with savepointdb. Run your own with `savepointdb test rules.toml`."),
  ];
}

function ruleOf({ rule, status, description, message, table, rows, sql }: Outcome, database: string): HTMLElement {
  const word = status === "violated" ? "fails" : status === "passed" ? "holds" : status;
  return h(
    "li",
    {},
    h("span", { class: `badge ${BADGES[status]}` }, word),
    h("div", {}, h("strong", {}, rule, table ? ` · ${table}` : ""), h("p", { class: "note" }, description), message && status !== "skipped" ? h("p", { class: status === "violated" ? "bad" : null }, message) : null),
    sql && rows?.length ? h("a", { class: "link", href: queryLink({ db: database, sql, run: "1" }) }, "Show the rows") : null,
  );
}
