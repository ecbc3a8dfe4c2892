// A question of the page that may read much: asked at once where it reads little, else by a button, with progress and an end.
import { Answer, ApiError, Status, Unread } from "./api";
import { recordsOf, Run } from "./asking";
import { Child, fill, h } from "./dom";
import { bytes } from "./format";
import { lackingBox, problem } from "./panel";
import { progressBar } from "./progressbar";
import { OWN } from "./sql";

export interface Asked<T> {
  holder: HTMLElement;
  /** The button that asks where nobody has. */
  label: string;
  what: string;
  size: number;
  sql: string;
  show: (rows: T[], answer: Answer) => Child;
  signal: AbortSignal;
}

/** What the questions about one operator have told already: all read the same files, so what one cannot read the others cannot. */
export class Told {
  private readonly questions: Question<never>[] = [];
  private readonly messages = new Set<string>();

  add<T>(question: Question<T>): Question<T> {
    this.questions.push(question as Question<never>);
    return question;
  }

  isNew(message: string): boolean {
    const known = this.messages.has(message);
    this.messages.add(message);
    return !known;
  }

  /** Asks all that have failed for what can be read. */
  withoutThem(): void {
    this.messages.clear();
    for (const question of this.questions) if (question.failed) void question.ask(true);
  }
}

/** What is asked at once where it reads little, else by a button, with progress and an end. */
export class Question<T> {
  failed = false;

  constructor(
    private readonly asked: Asked<T>,
    private readonly told: Told,
  ) {}

  start(atOnce: boolean): void {
    if (atOnce) void this.ask();
    else this.offer();
  }

  private offer(): void {
    const { holder, label, size } = this.asked;
    fill(holder, h("p", {}, h("button", { type: "button", onclick: () => void this.ask() }, label), ` reads about ${bytes(size)}`));
  }

  async ask(partial = false): Promise<void> {
    const { holder, sql, show, signal, what } = this.asked;
    this.failed = false;
    const progress = (status: Status) => bar.show(status.progress.bytes_read, status.progress.bytes_total, status.progress.bytes_total ? `${bytes(status.progress.bytes_read)} of ${bytes(status.progress.bytes_total)}` : "");
    const run = new Run({ sql: OWN + sql, database: null, allow_partial: partial }, progress);
    const cancel = () => run.cancel();
    const bar = progressBar(`Progress of the ${what}`, cancel);
    fill(holder, bar.element);
    signal.addEventListener("abort", cancel);
    try {
      const answer = await run.answer();
      const lacking: Unread[] = (answer.incomplete ?? []).filter(({ message }) => this.told.isNew(message));
      if (!signal.aborted) fill(holder, lackingBox(lacking), show(recordsOf<T>(answer), answer));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (signal.aborted) return;
      if (error.code === "CANCELLED") this.offer();
      else {
        this.failed = true;
        fill(holder, this.told.isNew(error.message) ? problem(error, partial ? undefined : () => this.told.withoutThem()) : null);
      }
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }
}
