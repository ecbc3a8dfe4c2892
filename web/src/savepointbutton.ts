// The button that asks a live job for a savepoint, and what is seen until it is there.
import { ApiError, get, post } from "./api";
import { forget } from "./catalog";
import { announce, fill, h, select } from "./dom";
import { duration, plural } from "./format";
import type { Job } from "./jobs";
import { problem } from "./panel";
import { linkOf } from "./route";

interface Status {
  id: string;
  status: "running" | "finished" | "failed";
  /** Subtasks that have done their part, of how many; 0 while Flink does not say. */
  acknowledged: number;
  subtasks: number;
  /** Null where it is not below a folder that is served, or the user may not see it. */
  database: string | null;
  error: { code: string; message: string; hint?: string } | null;
  elapsed_ms: number;
}

const FORMATS = [
  { value: "canonical", text: "canonical: any state backend reads it" },
  { value: "native", text: "native: faster, for the same state backend" },
];
const FIRST_LOOK_MS = 200;
const SLOWEST_LOOK_MS = 2000;

/** The button; `told` is filled with the progress and the result. */
export function savepointButton(job: Job, told: HTMLElement, onDone: () => void, signal: AbortSignal): HTMLElement {
  const button = h("button", { type: "button", class: "primary", onclick: () => ask() }, "Take a savepoint");
  const ask = () => {
    let format = FORMATS[0].value;
    const dialog = h(
      "dialog",
      { class: "panel", "aria-labelledby": "savepoint-title", onclose: () => (dialog.remove(), button.focus()) },
      h("h2", { id: "savepoint-title" }, `Take a savepoint of ${job.title}?`),
      h("p", {}, "Flink writes it to the directory of savepoints that the service or the cluster names. The job keeps running, and its checkpoints stay."),
      select("Format", FORMATS, format, (picked) => (format = picked)),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Do not take one"),
        h("button", { type: "button", class: "primary", onclick: () => (dialog.close(), void take(format)) }, "Take it"),
      ),
    );
    document.body.append(dialog);
    signal.addEventListener("abort", () => dialog.close());
    dialog.showModal();
  };
  const take = async (format: string) => {
    button.disabled = true;
    const bar = h("progress", { "aria-label": "Progress of the savepoint" });
    const text = h("span", { class: "told", role: "status" }, "asked for");
    fill(told, h("div", { class: "progress" }, bar, text));
    const show = ({ acknowledged, subtasks, elapsed_ms }: Status) => {
      if (subtasks) [bar.max, bar.value] = [subtasks, acknowledged];
      text.textContent = [subtasks ? `${acknowledged} of ${plural(subtasks, "subtask")}` : "asked for", duration(elapsed_ms)].join(" · ");
    };
    try {
      const done = await ended(job.name, format, show, signal);
      if (signal.aborted) return;
      forget();
      const open = done.database && h("a", { class: "link", href: linkOf(done.database) }, `Open ${done.database}`);
      if (done.error) return fill(told, problem(new ApiError(done.error, 0)), open);
      announce("The savepoint is taken");
      fill(told, h("p", { class: "done" }, `The savepoint is taken, in ${duration(done.elapsed_ms)}. `, open ?? "It is not below a folder that is served here."));
      onDone();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(told, problem(error));
    } finally {
      button.disabled = false;
    }
  };
  return button;
}

/** Asks for a savepoint, and for how far it is until it is there. */
async function ended(job: string, format: string, show: (status: Status) => void, signal: AbortSignal): Promise<Status> {
  const address = `api/jobs/${encodeURIComponent(job)}/savepoints`;
  let found = await post<Status>(address, { format }, signal);
  for (let pause = FIRST_LOOK_MS; found.status === "running"; pause = Math.min(pause * 1.5, SLOWEST_LOOK_MS)) {
    show(found);
    await new Promise((resolve) => setTimeout(resolve, pause));
    found = await get<Status>(`${address}/${found.id}`, signal);
  }
  return found;
}
