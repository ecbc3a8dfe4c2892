// The place of questions: the editor, saved queries, and what runs.
import { h } from "./dom";
import { partStrip, where } from "./place";
import { mayOperate } from "./queriesview";
import { queryLink, RUNNING_LINK, SAVED_LINK } from "./route";

type Part = "editor" | "saved" | "running";

/** The head of the place, with the links to its parts. */
export function queryHead(seen: Part, ...within: [text: string, address: string | null][]): HTMLElement {
  const titles = { editor: "Query", saved: "Saved queries", running: "Running queries" };
  document.title = `${within.at(-1)?.[0] ?? titles[seen]} · savepointdb`;
  const steps: [string, string | null][] = seen === "editor" ? [] : [[titles[seen], within.length ? SAVED_LINK : null]];
  where([["Query", steps.length ? queryLink() : null], ...steps, ...within]);
  const strip = partStrip("Parts of the workspace", [["editor", "Editor", queryLink()], ["saved", "Saved", SAVED_LINK], ["running", "Running", RUNNING_LINK]], seen);
  const running = strip.lastElementChild as HTMLElement;
  running.hidden = seen !== "running";
  void mayOperate().then(
    (may) => (running.hidden = !may),
    () => undefined,
  );
  return h("div", { class: "query-head" }, strip);
}
