// Which databases are of one job, and which of them is newer.
import type { Database } from "./catalog";
import { age } from "./format";

export interface Job {
  /** Tells jobs apart, also those of one name. */
  key: string;
  name: string;
  folder: string;
  /** The newest first. */
  databases: Database[];
}

const LATEST = "latest";
const CHECKPOINT = /chk-(\d+)$/;

function folders({ path }: Database): string[] {
  return path.replace(/\?.*$/s, "").replace(/\/_metadata$/, "").split("/").filter(Boolean);
}

/** What tells the job of a database: the folder that it is in, and what the service read out of the path. */
export function jobOf(database: Database): string {
  return JSON.stringify([folders(database).slice(0, -1).join("/"), database.job ?? null]);
}

/** Jobs as folders, the newest first: by time where the service tells it, the one of `latest` before all. Aliases are left out. */
export function jobsOf(list: Database[]): Job[] {
  const own = list.filter((database) => database.alias_of === null);
  const newest = list.find((database) => database.name === LATEST)?.alias_of;
  const jobs = [...Map.groupBy(own, jobOf)].map(([key, databases]): Job & { time: number } => {
    const above = folders(databases[0]).slice(0, -1);
    const time = databases.some((one) => one.name === newest) ? Infinity : Math.max(...databases.map(timeOf));
    return { key, name: databases[0].job ?? above.at(-1) ?? databases[0].name, folder: above.join("/"), databases: databases.sort(newerFirst), time };
  });
  jobs.sort((one, other) => compare(other.time, one.time) || one.name.localeCompare(other.name, "en", { numeric: true }));
  return jobs.map((job) => ({ ...job, name: jobs.some((other) => other !== job && other.name === job.name) ? longer(job, jobs) : job.name }));
}

/** As much of the folder as tells a job from those of the same name. */
function longer(job: Job, jobs: Job[]): string {
  const parts = job.folder.split("/");
  for (let number = 2; number <= parts.length; number += 1) {
    const name = parts.slice(-number).join("/");
    if (!jobs.some((other) => other.key !== job.key && `/${other.folder}`.endsWith(`/${name}`))) return name;
  }
  return `${job.name} in ${job.folder}`;
}

/** The newest database that can be read: the one that `latest` stands for, where there is one. */
export function newestOf(list: Database[]): Database | null {
  const latest = list.find((database) => database.name === LATEST && database.alias_of !== null && database.error === null);
  const found = list.find((database) => database.name === latest?.alias_of);
  return found ?? jobsOf(list).flatMap((job) => job.databases).find((database) => database.error === null) ?? null;
}

/** Where all ids of checkpoints are of one job, the highest is the newest; time decides between equal ones. */
function newerFirst(one: Database, other: Database): number {
  return compare(idOf(other), idOf(one)) || compare(timeOf(other), timeOf(one)) || other.name.localeCompare(one.name, "en", { numeric: true });
}

/** Infinity equals itself here, which its difference does not. */
function compare(one: number, other: number): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

function idOf(database: Database): number {
  // What cannot be read stands where its folder says.
  return database.checkpoint_id ?? Number(CHECKPOINT.exec(folders(database).at(-1) ?? "")?.[1] ?? -1);
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
