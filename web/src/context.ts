// What was chosen in one place and holds in the next: the database, the ones to compare, the key.
export interface Chosen {
  db: string | null;
  dbs: string | null;
  key: string | null;
}

const chosen: Chosen = { db: null, dbs: null, key: null };

export function kept(): Readonly<Chosen> {
  return chosen;
}

/** Keeps what is given. Another database has others to be compared with. */
export function keep(given: Partial<Chosen>): void {
  const before = chosen.db;
  Object.assign(chosen, given);
  if (given.dbs === undefined && given.db !== undefined && given.db !== before && !chosen.dbs?.split("\n").includes(given.db ?? "")) chosen.dbs = null;
}
