// What was chosen in one view and holds in the next: the database, the ones to compare, the key.
import { hashOf, linkOf } from "./route";

export interface Chosen {
  db: string | null;
  dbs: string | null;
  key: string | null;
}

const chosen: Chosen = { db: null, dbs: null, key: null };
const OF_VIEWS: Record<string, (keyof Chosen)[]> = { keys: ["db", "key", "dbs"], offsets: ["db", "dbs"], timeline: ["key"], jobs: [], diff: [], saved: [], queries: [] };
const listeners: (() => void)[] = [];

export function kept(): Readonly<Chosen> {
  return chosen;
}

/** Keeps what is given. Another database has others to be compared with. */
export function keep(given: Partial<Chosen>): void {
  const before = chosen.db;
  Object.assign(chosen, given);
  if (given.dbs === undefined && given.db !== undefined && given.db !== before && !chosen.dbs?.split("\n").includes(given.db ?? "")) chosen.dbs = null;
  for (const listener of listeners) listener();
}

export function onKept(listener: () => void): void {
  listeners.push(listener);
}

/** The address of a view of what was chosen. */
export function hashOfView(view: string): string {
  if (view === "tables") return linkOf(chosen.db);
  return hashOf(view, Object.fromEntries((OF_VIEWS[view] ?? ["db"]).map((name) => [name, chosen[name as keyof Chosen]])));
}
