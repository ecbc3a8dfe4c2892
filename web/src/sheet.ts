// What belongs to one tab of the query view: a text, its query while it runs, and what that gave.
import { ApiError, Status, without } from "./api";
import { exported, FormatName, FORMATS, Run } from "./asking";
import { announce, fill, h, save } from "./dom";
import { Editor } from "./editor";
import { bytes, count, duration } from "./format";
import { parameterNames, ParameterForm } from "./parameters";
import { Result } from "./result";
import { statement } from "./sql";
import type { Tab } from "./tabs";

export class Sheet {
  readonly result: Result;
  readonly editor: Editor;
  readonly element: HTMLElement;
  private readonly status = h("div", { class: "progress", hidden: true });
  private readonly form = new ParameterForm(() => void this.start());
  private run: Run | null = null;
  private ended = false;

  /** `onText` hears each change of the text, `onNote` what is worth a note in the address: a run, its end, another chart. */
  constructor(
    readonly tab: Tab,
    private readonly onText: () => void,
    private readonly onNote: () => void,
  ) {
    this.result = new Result(tab.chart, () => this.note());
    this.editor = new Editor(tab.text, { run: () => void this.start(), explain: () => void this.start("EXPLAIN ") });
    this.editor.onChange = () => {
      tab.edited = true;
      tab.text = this.editor.text;
      this.form.show(parameterNames(tab.text));
      this.onText();
    };
    this.element = h("div", { class: "sheet" }, this.editor.element, this.form.element, this.status, this.result.element);
    this.form.show(parameterNames(tab.text));
  }

  get runs(): boolean {
    return this.run !== null;
  }

  async start(prefix = "", partial = false): Promise<void> {
    const { text, from } = this.editor.chosen;
    const sql = prefix + statement(text);
    this.run?.cancel();
    this.editor.clearError();
    this.result.clear();
    const own = new Run({ sql, database: this.tab.database, allow_partial: partial, parameters: this.form.values(parameterNames(text)) }, (told) => progress(this.status, told));
    this.run = own;
    this.running(true);
    const clock = setInterval(() => tick(this.status, performance.now() - own.started), 100);
    try {
      const answer = await own.answer();
      if (this.run === own) this.result.show(answer, sql, this.tab.database);
    } catch (failure) {
      if (this.run !== own || this.ended) return;
      if (!(failure instanceof ApiError)) throw failure;
      const error = without(failure, prefix);
      const { position } = error;
      const at = position && (() => this.editor.showError(error.message, position, from));
      at?.();
      const show = at && (() => {
        at();
        this.editor.focus();
      });
      this.result.failed(error, show, partial ? undefined : () => void this.start(prefix, true));
    } finally {
      clearInterval(clock);
      if (this.run === own) {
        this.run = null;
        this.running(false);
      }
    }
  }

  cancel(): void {
    this.run?.cancel();
  }

  async export_(format: FormatName, partial = false): Promise<void> {
    const { text, from } = this.editor.chosen;
    announce(`Exporting as ${FORMATS[format].name}`);
    try {
      const question = { sql: statement(text), database: this.tab.database, allow_partial: partial, parameters: this.form.values(parameterNames(text)) };
      save(await exported(question, format), `${fileName(this.tab.name)}.${format}`);
      if (partial) this.result.say("The file lacks the rows of what cannot be read.");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { position } = error;
      if (position) this.editor.showError(error.message, position, from);
      this.result.failed(error, undefined, partial ? undefined : () => void this.export_(format, true));
    }
  }

  /** Puts another text in place of what is there. */
  bring(sql: string): void {
    this.editor.text = sql;
    this.result.chart = "";
    this.result.clear();
    this.note();
  }

  /** Ends what it does: it is seen no more. */
  destroy(): void {
    this.ended = true;
    this.run?.cancel();
    this.result.clear();
    this.editor.destroy();
    this.element.remove();
  }

  private note(): void {
    this.tab.chart = this.result.chart;
    this.onNote();
  }

  private running(is: boolean): void {
    this.status.hidden = !is;
    if (is) fill(this.status, h("progress", { "aria-label": "Progress of the query" }), h("span", { class: "clock" }), h("span", { class: "told" }, "starting"));
    this.result.element.setAttribute("aria-busy", String(is));
    if (!this.ended) this.note();
  }
}

function fileName(name: string): string {
  return /^Query \d+$/.test(name) ? "query" : name.replaceAll(/[^\w.-]+/g, "_");
}

function progress(element: HTMLElement, { state, progress: { bytes_read, bytes_total, rows_read, splits_read, splits_total }, row_count }: Status): void {
  const bar = element.querySelector("progress");
  const told = element.querySelector(".told");
  if (!bar || !told) return;
  if (bytes_total > 0) {
    bar.max = bytes_total;
    bar.value = Math.min(bytes_read, bytes_total);
  }
  const parts = [
    state,
    bytes_total > 0 && `${bytes(bytes_read)} of ${bytes(bytes_total)}`,
    rows_read ? `${count(rows_read)} rows read` : false,
    splits_total ? `${splits_read ?? 0} of ${splits_total} splits` : false,
    row_count ? `${count(row_count)} rows found` : false,
  ];
  told.textContent = parts.filter(Boolean).join(" · ");
}

function tick(element: HTMLElement, ms: number): void {
  const clock = element.querySelector(".clock");
  if (clock) clock.textContent = duration(ms);
}
