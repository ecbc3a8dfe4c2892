// How a write ends: the command that starts a job from the new savepoint, what a restore does with it, and what differs from the source.
import { ApiError } from "./api";
import { forget, schemas } from "./catalog";
import { badge } from "./checkview";
import { diff } from "./diffs";
import { summaryOf } from "./diffview";
import { announce, Child, copy, fill, h } from "./dom";
import { duration } from "./format";
import { jobOfName } from "./jobs";
import { problem, skeleton } from "./panel";
import { reportOf } from "./report";
import { jobLink, linkOf, partLink } from "./route";
import type { Report, Write } from "./writes";

export function writtenView(done: Write, report: Report, signal: AbortSignal): Child {
  const database = done.database!;
  const changes = h("div", { class: "view-body" }, skeleton());
  if (done.source !== null) void compared(changes, done.source, database, signal);
  return [
    h("h2", {}, "Written"),
    h("p", { class: "done" }, h("code", {}, done.target ?? ""), ` in ${duration(done.elapsed_ms)}: `, h("a", { class: "link", href: linkOf(database) }, `open ${database}`)),
    command(`flink run -s ${quoted(done.target ?? "")} your-job.jar`),
    checkOf(report, database, done.source),
    done.source === null ? null : [h("h2", {}, `Difference from ${done.source}`), changes],
    h("details", { class: "statements" }, h("summary", {}, "Statements"), reportOf(report)),
  ];
}

/** A path as a shell takes it. */
function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function command(text: string): HTMLElement {
  const button = h("button", { type: "button", onclick: () => void take() }, "Copy");
  const take = async () => {
    await copy(text);
    announce("The command is copied");
    button.textContent = "✓ Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  return h("div", { class: "command" }, h("pre", { tabindex: 0, "aria-label": "Command of Flink" }, text), button);
}

function checkOf({ check }: Report, database: string, source: string | null): Child {
  if (!check) return null;
  const findings = check.findings.filter(({ severity }) => severity !== "fine");
  return h(
    "section",
    { class: "checked", "aria-label": "Check" },
    h("p", { class: `verdict ${check.verdict}` }, badge(check.verdict), " ", h("strong", {}, check.headline)),
    check.verdict === "fine" ? null : h("p", {}, h("strong", {}, "What to do: "), `${check.advice}.`),
    findings.map(({ severity, operator, state, message, remedy }) =>
      h("div", { class: `finding ${severity}` }, h("p", { class: "note" }, [operator, state].filter(Boolean).join(" · ")), h("p", {}, message), remedy ? h("p", { class: "remedy" }, `→ ${remedy}`) : null),
    ),
    h("p", {}, h("a", { class: "link", href: partLink(database, "check", { against: source, run: "1" }) }, "Check with another version or jar")),
  );
}

async function compared(holder: HTMLElement, before: string, after: string, signal: AbortSignal): Promise<void> {
  try {
    forget();
    const [found, list] = await Promise.all([diff(before, after, signal), schemas()]);
    const job = jobOfName(list, after)?.name ?? "";
    if (!signal.aborted) fill(holder, summaryOf(found, (state) => h("a", { class: "link", href: jobLink(job, "compare", { before, after, table: state.table_name }) }, state.state_name)));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (!signal.aborted) fill(holder, problem(error));
  }
}
