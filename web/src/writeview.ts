// The part where a savepoint is changed by a script, into a new one: a preview first, then a question, then the writing.
import { ApiError, Position } from "./api";
import { Database, forget, schema } from "./catalog";
import { announce, Child, fill, h, select } from "./dom";
import { Editor } from "./editor";
import { age, bytes, count, duration, plural } from "./format";
import { shortName } from "./jobs";
import { empty, plainTable } from "./panel";
import { progressBar } from "./progressbar";
import { reportOf } from "./report";
import { linkOf, partLink, remember } from "./route";
import type { At } from "./savepointview";
import { writtenView } from "./writtenview";
import { expected, Order, Report, Write, WriteRun, Writes, writes } from "./writes";

const EXAMPLE = "UPDATE source_offsets SET starting_offset = greatest(starting_offset - 1000, 0)";
const FILES = [
  { value: "link", text: "hard links, else copies" },
  { value: "copy", text: "copies" },
  { value: "reference", text: "none: it names those of the source" },
];

/** What was written, while another view is seen. */
let draft: string | null = null;

export function writeView(body: HTMLElement, { name, list }: At, values: URLSearchParams, signal: AbortSignal): void {
  void writes(signal).then(
    (found) => {
      if (signal.aborted) return;
      if (found.may_write) new WriteForm(body, found, list, name, values, signal);
      else fill(body, empty("This service writes no savepoints, or you may not: its setting write_root and a grant such as write:prod/* allow it."));
    },
    (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) fill(body, failure(error));
    },
  );
}

class WriteForm {
  private run: WriteRun | null = null;
  /** What was previewed: only that is written. */
  private previewed: { order: Order; report: Report } | null = null;
  private readonly editor: Editor;
  private readonly name = h("input", { type: "text", size: 40, spellcheck: "false", autocomplete: "off", oninput: () => this.changed() });
  private readonly result = h("section", { class: "written", "aria-label": "Result" });
  private readonly past = h("div", {});
  private readonly warning = h("p", { class: "banner", role: "note", hidden: true }, "Flink deletes the files of the source once it has claimed such a savepoint: restore it with NO_CLAIM, and keep the source until then. Its states cannot be queried here, because their files are not its own.");
  private readonly preview = h("button", { type: "button", class: "primary", title: "Ctrl+Enter; writes nothing", onclick: () => void this.look() }, "Preview");
  private readonly write = h("button", { type: "button", class: "danger", disabled: true, title: "First preview it", onclick: () => this.ask() }, "Write …");
  private root: string;
  private files = "link";

  constructor(
    body: HTMLElement,
    found: Writes,
    private readonly list: Database[],
    private readonly database: string,
    values: URLSearchParams,
    private readonly signal: AbortSignal,
  ) {
    this.root = found.write_roots[0];
    const run = () => void this.look();
    this.editor = new Editor(values.get("sql") ?? draft ?? EXAMPLE, { run, explain: run }, { placeholder: "UPDATE … SET … WHERE …; DROP TABLE …", label: "Script. Ctrl and Enter preview it; Tab leaves the editor" });
    this.editor.onChange = () => this.changed();
    const roots = found.write_roots.map((root) => ({ value: root, text: root }));
    const choose = (root: string) => ((this.root = root), this.changed());
    fill(
      body,
      h(
        "div",
        { class: "write-form" },
        h("p", { class: "about" }, "A script changes this savepoint into a new one, which Flink restores from. The savepoint itself stays as it is. Preview shows what would change; nothing is written until you confirm."),
        this.editor.element,
        h(
          "div",
          { class: "toolbar" },
          roots.length > 1 ? select("In", roots, this.root, choose) : h("span", { class: "field" }, h("span", {}, "In"), h("code", {}, this.root)),
          h("label", { class: "field" }, h("span", {}, "New savepoint"), this.name),
          select("Files", FILES, this.files, (files) => ((this.files = files), (this.warning.hidden = files !== "reference"), this.changed())),
          h("span", { class: "gap" }),
          this.preview,
          this.write,
        ),
        this.warning,
        this.result,
        this.past,
      ),
    );
    this.use();
    this.showPast(found.writes);
    signal.addEventListener("abort", () => {
      draft = this.editor.text;
      // A preview is nobody's then; a write goes on, and is listed here.
      if (!this.previewed) this.run?.cancel();
      this.editor.destroy();
    });
    this.editor.focus();
  }

  private use(): void {
    const { database, list } = this;
    const own = list.find((one) => one.name === database);
    const source = list.find((one) => one.name === (own?.alias_of ?? database));
    this.name.value = source ? `${shortName(source)}-edited` : "";
    this.changed();
    void schema(database).then(
      (tables) => !this.signal.aborted && this.editor.complete(database, tables),
      () => undefined,
    );
  }

  /** Another script, source or target is not what was previewed. */
  private changed(): void {
    remember(partLink(this.database, "write", { sql: this.editor.text }));
    if (this.run) return;
    this.previewed = null;
    this.write.disabled = true;
    this.write.title = "First preview it";
  }

  private async look(): Promise<void> {
    if (this.run) return;
    // An alias may soon mean another savepoint.
    const source = this.list.find((one) => one.name === this.database)?.alias_of ?? this.database;
    const order = { source, target: `${this.root}/${this.name.value}`, sql: this.editor.text, files: this.files, dry_run: true };
    this.previewed = null;
    const done = await this.runs(order, "Progress of the preview");
    if (!done?.report) return;
    this.previewed = { order, report: done.report };
    this.write.disabled = false;
    this.write.title = "Asks once more";
    announce(`Preview: ${plural(done.report.rows, "row")}`);
    fill(this.result, h("h2", {}, "Preview"), h("p", { class: "note" }, `Nothing was written. It took ${duration(done.elapsed_ms)}.`), reportOf(done.report));
  }

  private ask(): void {
    const { order, report } = this.previewed!;
    const dialog = h(
      "dialog",
      { class: "panel", "aria-labelledby": "write-title", onclose: () => dialog.remove() },
      h("h2", { id: "write-title" }, "Write this savepoint?"),
      h("p", {}, h("code", {}, order.target!)),
      h("p", {}, `${plural(report.statements.length, "statement")}, ${plural(report.rows, "row")} of ${order.source}, which stays as it is. Nothing is written if other numbers of rows change than in the preview.`),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Do not write"),
        h("button", { type: "button", class: "danger", onclick: () => (dialog.close(), void this.writes(order, report)) }, "Write it"),
      ),
    );
    document.body.append(dialog);
    this.signal.addEventListener("abort", () => dialog.close());
    dialog.showModal();
  }

  private async writes(order: Order, report: Report): Promise<void> {
    const done = await this.runs({ ...order, dry_run: false, expect: expected(report) }, "Progress of the write");
    this.changed();
    // Whatever became of it is in the list; after a write there is a database more.
    forget();
    void writes(this.signal).then((found) => this.showPast(found.writes), () => undefined);
    if (!done?.report || done.database === null) return;
    announce("The savepoint is written");
    fill(this.result, writtenView(done, done.report, this.signal));
  }

  /** Runs an order and shows how far it is; null where it failed, which is shown, too. */
  private async runs(order: Order, label: string): Promise<Write | null> {
    const bar = progressBar(label, () => this.run?.cancel());
    this.editor.clearError();
    fill(this.result, bar.element);
    this.run = new WriteRun(order, (write) => bar.show(write.progress.statements_done, write.progress.phase === "reading" ? write.progress.statements : 0, told(write)));
    this.busy(true);
    try {
      const done = await this.run.ended();
      return this.signal.aborted ? null : done;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!this.signal.aborted) this.failed(error);
      return null;
    } finally {
      this.run = null;
      this.busy(false);
    }
  }

  private busy(is: boolean): void {
    this.preview.disabled = is;
    if (is) this.write.disabled = true;
    this.result.setAttribute("aria-busy", String(is));
  }

  private failed(error: ApiError): void {
    const at = error.position;
    const show = at && (() => this.editor.showError(error.message, at, 0));
    show?.();
    announce(`Failed: ${error.message}`);
    fill(this.result, error.code === "CANCELLED" ? h("p", { class: "banner", role: "note" }, "Cancelled: nothing was written") : failure(error, at, show && (() => (show(), this.editor.focus()))));
  }

  private showPast(found: Write[]): void {
    const rows = found
      .filter((write) => !write.dry_run)
      .slice(0, 10)
      .map((write): Child[] => [
        write.state === "finished" && write.database ? h("a", { class: "link", href: linkOf(write.database) }, write.database) : (write.database ?? ""),
        write.source,
        write.error && write.state === "failed" ? h("span", { class: "bad", title: write.error.message }, write.error.code) : write.state,
        age(new Date(write.created * 1000).toISOString()),
      ]);
    fill(this.past, rows.length ? [h("h2", {}, "Your last writes"), plainTable("Your last writes", ["New savepoint", "From", "State", "When"], rows)] : null);
  }
}

function failure(error: ApiError, position?: Position, goTo?: () => void): HTMLElement {
  return h(
    "div",
    { class: "error", role: "alert" },
    h("strong", {}, error.message),
    position && goTo ? h("button", { type: "button", class: "link", onclick: goTo }, `line ${position.line}, column ${position.column}`) : null,
    error.hint ? h("p", {}, error.hint) : null,
    h("p", { class: "note" }, error.code),
  );
}

function told({ state, progress: { phase, statements, statements_done, files, bytes_written }, elapsed_ms }: Write): string {
  const parts = [
    state === "queued" ? "waits for other writes" : phase,
    phase === "reading" && statements ? `statement ${count(Math.min(statements_done + 1, statements))} of ${count(statements)}` : "",
    phase === "writing" ? `${plural(files, "file")}, ${bytes(bytes_written)}` : "",
    duration(elapsed_ms),
  ];
  return parts.filter(Boolean).join(" · ");
}
