// A key in the newest savepoint of every job, job by job as the answers come.
import { ApiError } from "./api";
import { textOf } from "./cell";
import { several } from "./compare";
import { keep } from "./context";
import { announce, fill, h } from "./dom";
import { plural } from "./format";
import { Job, newestIn, shortName } from "./jobs";
import { Found, lookup } from "./lookup";
import { empty, plainTable } from "./panel";
import { progressBar } from "./progressbar";
import { jobLink, keysLink, linkOf } from "./route";

const MOST_VALUES = 3;
const LONGEST = 80;

export function keyResults(holder: HTMLElement, jobs: Job[], key: string, signal: AbortSignal): void {
  const stopped = new AbortController();
  signal.addEventListener("abort", () => stopped.abort());
  keep({ key });
  const readable = jobs.flatMap((job) => {
    const newest = newestIn(job);
    return newest ? [{ job, newest: newest.name, title: shortName(newest) }] : [];
  });
  const found = new Map<string, Found>();
  const bar = progressBar("Progress of the search", () => stopped.abort());
  const results = h("div", {});
  const show = () => {
    bar.show(found.size, readable.length, `${found.size} of ${plural(readable.length, "job")}`);
    const hits = readable.filter(({ newest }) => found.get(newest)?.entries.length);
    if (hits.length)
      fill(
        results,
        plainTable(
          "Jobs with this key",
          ["Job", "Savepoint", "State", "Values", "Over time"],
          hits.map(({ job, newest, title }) => {
            const { entries } = found.get(newest)!;
            const states = [...new Set(entries.map((entry) => `${entry.operator} · ${entry.state}`))];
            const values = entries.slice(0, MOST_VALUES).map((entry) => short(textOf(entry.value))).join(", ");
            return [
              h("a", { class: "link", href: jobLink(job.name) }, job.title),
              h("a", { class: "link", href: linkOf(newest) }, title),
              h("a", { class: "link", href: keysLink(newest, key) }, states.length > 1 ? plural(states.length, "state") : states[0]),
              h("code", {}, entries.length > MOST_VALUES ? `${values}, …` : values),
              h("a", { class: "link", href: jobLink(job.name, "timeline", { key }) }, "Timeline"),
            ];
          }),
        ),
      );
  };
  const ended = () => {
    bar.element.remove();
    const all = [...found.values()];
    const failed = all.filter(({ errors }) => errors.length);
    const hits = all.filter(({ entries }) => entries.length).length;
    announce(hits ? `${plural(hits, "job")} with this key` : "Nothing was found");
    if (!hits) fill(results, empty(`No job has state for the key ${short(key)} in its newest savepoint.`));
    if (failed.length) results.append(h("div", { class: "error", role: "alert" }, h("strong", {}, "Not everything could be read"), h("ul", {}, failed.flatMap(({ database, errors }) => errors.map((error) => h("li", {}, `${database}: ${error}`))))));
    if (stopped.signal.aborted) results.prepend(h("p", { class: "banner", role: "note" }, `Cancelled: ${found.size} of ${plural(readable.length, "job")} were searched.`));
  };
  fill(holder, bar.element, results);
  show();
  void several(readable, async ({ newest }) => {
    if (stopped.signal.aborted) return;
    found.set(newest, await lookup(newest, key, stopped.signal, false));
    if (!stopped.signal.aborted) show();
  }).then(
    () => signal.aborted || ended(),
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) ended();
    },
  );
}

function short(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
