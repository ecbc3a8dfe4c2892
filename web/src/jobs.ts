// Which databases are of one job, and which of them is newer: as `GET /api/jobs` has it.
import type { Database } from "./catalog";
import { age, plural } from "./format";

/** What a cluster says of a job. */
export interface Live {
  state: string;
  url_label: string;
  last_seen_at: string;
  /** Why it says no more. */
  error: string | null;
  checkpoints: { completed: number; failed: number; in_progress: number };
  /** Why the last checkpoint that failed did. */
  failure: string | null;
  /** Whether this user may ask for a savepoint, now. */
  may_savepoint: boolean;
}
/** A job as the service tells it. */
export interface JobEntry {
  /** Unique. */
  name: string;
  title: string;
  label: string;
  /** The id that Flink gave to the job, and what a cluster says of it, as far as they are known. */
  job_id: string | null;
  job_name: string | null;
  state: string | null;
  /** The schema with the tables of all its checkpoints. */
  history: string;
  /** Names, the newest first. */
  databases: string[];
  live?: Live | null;
}
export interface Job {
  name: string;
  /** For people: short, and different from those of the others. */
  title: string;
  folder: string;
  entry: JobEntry;
  /** The newest first. */
  databases: Database[];
}

const LATEST = "latest";
/** The ids that Flink gives say nothing to people. */
const ID = /^[0-9a-f]{32}$/;

function folders({ path }: Database): string[] {
  return path.replace(/\?.*$/s, "").replace(/\/_metadata$/, "").split("/").filter(Boolean);
}

/** The folder that a savepoint is in. */
function above({ path }: Database): string {
  return path.replace(/\?.*$/s, "").replace(/\/_metadata$/, "").replace(/\/[^/]*\/?$/, "");
}

/** The last folder above a database that is no id. */
function namedFolder(database: Database | undefined): string | null {
  return (database && folders(database).slice(0, -1).findLast((folder) => !ID.test(folder))) ?? null;
}

/** The databases in the order of their jobs, each with its own, the newest first, then the aliases. */
export function joined(list: Database[], entries: JobEntry[]): Database[] {
  const byName = new Map(list.map((one) => [one.name, one]));
  const titleOf = (entry: JobEntry) => entry.job_name ?? (ID.test(entry.title) ? namedFolder(byName.get(entry.databases[0])) : null) ?? entry.title;
  const alike = new Map([...Map.groupBy(entries, titleOf)].map(([title, own]) => [title, own.length > 1]));
  const newest = byName.get(LATEST)?.alias_of;
  const jobs = entries.map((entry): Job => {
    const databases = entry.databases.flatMap((name) => byName.get(name) ?? []);
    const job: Job = { name: entry.name, title: alike.get(titleOf(entry)) ? entry.name : titleOf(entry), folder: databases.length ? above(databases[0]) : "", entry, databases };
    for (const database of databases) database.of = job;
    return job;
  });
  const time = ({ databases }: Job) => (databases.some((one) => one.name === newest) ? Infinity : Math.max(...databases.map(timeOf)));
  const times = new Map(jobs.map((job) => [job, time(job)]));
  jobs.sort((one, other) => compare(times.get(other)!, times.get(one)!) || one.title.localeCompare(other.title, "en", { numeric: true }));
  return [...jobs.flatMap((job) => job.databases), ...list.filter((one) => !one.of)];
}

/** The jobs of databases: the one of `latest` first, then by time. */
export function jobsOf(list: Database[]): Job[] {
  return [...new Set(list.flatMap((database) => database.of ?? []))];
}

/** The job of a database, or of what an alias stands for; the newest where there is none. */
export function jobOfName(list: Database[], name: string | null): Job | undefined {
  const found = list.find((one) => one.name === name);
  const own = found?.alias_of ? list.find((one) => one.name === found.alias_of) : found;
  return own?.of ?? newestOf(list)?.of ?? jobsOf(list)[0];
}

/** The newest database that can be read: the one that `latest` stands for, where there is one. */
export function newestOf(list: Database[]): Database | null {
  const latest = list.find((database) => database.name === LATEST && database.alias_of !== null && database.error === null);
  const found = list.find((database) => database.name === latest?.alias_of);
  return found ?? jobsOf(list).flatMap((job) => job.databases).find((database) => database.error === null) ?? null;
}

/** The newest of a job that can be read. */
export function newestIn({ databases }: Job): Database | undefined {
  return databases.find((one) => one.error === null);
}

/** "5 checkpoints, 1 savepoint". */
export function kindsOf({ databases }: Job): string {
  const readable = databases.filter((one) => one.error === null);
  const checkpoints = readable.filter((one) => one.kind === "CHECKPOINT").length;
  const savepoints = readable.length - checkpoints;
  const broken = databases.length - readable.length;
  return [checkpoints ? plural(checkpoints, "checkpoint") : "", savepoints ? plural(savepoints, "savepoint") : "", broken ? `${broken} unreadable` : ""].filter(Boolean).join(", ");
}

/** Infinity equals itself here, which its difference does not. */
function compare(one: number, other: number): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

function timeOf({ created_at }: Database): number {
  return created_at ? Date.parse(created_at) : 0;
}

/** The last folder of a database that is named after it, else its name. */
export function shortName(database: Database): string {
  const last = folders(database).at(-1);
  return last !== undefined && (database.name.endsWith(`/${last}`) || database.name.endsWith(`__${last}`)) ? last : database.name;
}

/** What to call databases that stand side by side: short where that tells them apart. */
export function titlesOf(names: string[], list: Database[]): Map<string, string> {
  const short = names.map((name) => {
    const found = list.find((database) => database.name === name);
    return found ? shortName(found) : name;
  });
  return new Map(names.map((name, number) => [name, short.filter((other) => other === short[number]).length === 1 ? short[number] : name]));
}

/** "checkpoint 4 · 3 min ago". */
export function describe(database: Database): string {
  const kind = database.kind === "CHECKPOINT" ? "checkpoint" : "savepoint";
  const id = database.checkpoint_id === null ? "" : `${kind} ${database.checkpoint_id}`;
  return [id, database.created_at ? age(database.created_at) : ""].filter(Boolean).join(" · ");
}
