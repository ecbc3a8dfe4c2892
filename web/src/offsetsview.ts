// Where the sources stand, checkpoint beside checkpoint.
import { ApiError, mayLeaveOut } from "./api";
import { Reading, records } from "./asking";
import { cell } from "./cell";
import { compareBox, Compared, comparedOf, comparedText, several, sideBySide } from "./compare";
import { keep, kept } from "./context";
import { Child, fill, h } from "./dom";
import { count } from "./format";
import { empty, leaveOutButton, loading, plainTable } from "./panel";
import { partLink, remember } from "./route";
import type { At } from "./savepointview";
import { table } from "./sql";

interface Offset {
  operator_id: string;
  operator_uid: string | null;
  operator_name: string | null;
  subtask: number | null;
  connector: string | null;
  topic: string | null;
  partition: number | null;
  starting_offset: number | bigint | null;
  stopping_offset: number | bigint | null;
  details: string | null;
}

export function offsetsView(part: HTMLElement, { name: database, list }: At, values: URLSearchParams, signal: AbortSignal): void {
  const body = h("div", { class: "view-body" });
  const names = comparedOf(list, values.get("dbs") ?? kept().dbs, database);
  const show = (names: string[], partial = false) => {
    const again = partial ? null : () => show(names, true);
    keep({ dbs: comparedText(names) });
    remember(partLink(database, "offsets", { dbs: comparedText(names) }));
    void loading(body, (how) => offsets(sideBySide(list, names), how, again), signal, partial);
  };
  const about = "How far each source had read, checkpoint beside checkpoint. The small number is the progress since the checkpoint before.";
  fill(part, h("p", { class: "about" }, about), compareBox(list, names, show), body);
  show(names);
}

/** `withoutThem` asks again for what can be read; null where this is what is asked for. */
async function offsets(compared: Compared, how: Reading, withoutThem: (() => void) | null): Promise<Child> {
  const { names, titles } = compared;
  const errors: string[] = [];
  let mayHelp = false;
  const found = new Map<string, Offset[]>();
  await several(names, async (name) => {
    try {
      found.set(name, await records<Offset>(`SELECT * FROM ${table(name, "source_offsets")}`, how));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      mayHelp ||= mayLeaveOut(error.code);
      errors.push(`${titles.get(name) ?? name}: ${error.message}`);
    }
  });
  const used = names.filter((name) => found.get(name)?.length);
  const rows = new Map<string, { offset: Offset; values: Map<string, Offset> }>();
  for (const name of used) {
    for (const offset of found.get(name)!) {
      const place = JSON.stringify([offset.operator_id, offset.connector, offset.topic, offset.partition, offset.partition === null ? offset.details : null]);
      const row = rows.get(place) ?? { offset, values: new Map<string, Offset>() };
      row.values.set(name, offset);
      rows.set(place, row);
    }
  }
  const sorted = [...rows.values()].sort((one, other) => order(one.offset, other.offset));
  return [
    errors.length ? h("div", { class: "error", role: "alert" }, h("strong", {}, "Not everything could be read"), h("ul", {}, errors.map((error) => h("li", {}, error))), withoutThem && mayHelp ? leaveOutButton(withoutThem) : null) : null,
    sorted.length
      ? plainTable(
          "Source offsets",
          ["Source", "Connector", "Topic or split", "Partition", ...used.map((name) => h("span", { title: name }, titles.get(name)))],
          sorted.map(({ offset, values }) => [
            offset.operator_uid ?? offset.operator_name ?? offset.operator_id,
            offset.connector ?? "",
            offset.topic ?? (offset.details ? cell(offset.details, "details") : ""),
            offset.partition ?? "",
            ...cells(used, values, compared),
          ]),
        )
      : empty("No source of these savepoints keeps offsets that are known here."),
  ];
}

function order(one: Offset, other: Offset): number {
  const name = (offset: Offset) => `${offset.operator_uid ?? offset.operator_id} ${offset.topic ?? ""}`;
  return name(one).localeCompare(name(other)) || (one.partition ?? 0) - (other.partition ?? 0);
}

/** An offset a savepoint, and how far it came since the one before of the same job. */
function cells(names: string[], values: Map<string, Offset>, { jobs }: Compared): Child[] {
  const before = new Map<string | undefined, bigint>();
  return names.map((name) => {
    const job = jobs.get(name);
    const last = before.get(job);
    const offset = values.get(name);
    if (!offset) return h("span", { class: "absent", "aria-label": "not there" }, "–");
    if (offset.starting_offset === null) return cell(offset.details, `details in ${name}`);
    const now = BigInt(offset.starting_offset);
    const step = last === undefined ? null : now - last;
    before.set(job, now);
    return h("span", { class: "offset number" }, count(now), step === null ? null : h("small", {}, step === 0n ? "no change" : `${step > 0n ? "+" : "−"}${count(step < 0n ? -step : step)}`));
  });
}
