// Where the addresses of former versions lead: each view was a tab of its own, `#/timers?db=…`, with the choice of a database in it.
import { chosen, Database } from "./catalog";
import { kept } from "./context";
import { jobOfName, jobsOf } from "./jobs";
import { jobLink, jobsLink, keysLink, linkOf, linkOfSaved, partLink, queryLink, RUNNING_LINK, SAVED_LINK } from "./route";

const PARTS = new Set(["keys", "offsets", "timers", "check", "write"]);

/** The address of today; of a database that is not named, the one that was chosen or the newest is meant. */
export function moved(view: string, values: URLSearchParams, list: Database[]): string {
  const { db, job, name, ...others } = Object.fromEntries(values) as Record<string, string | undefined>;
  if (view === "query") return queryLink({ db, ...others });
  if (view === "saved") return name ? linkOfSaved(name) : SAVED_LINK;
  if (view === "queries") return RUNNING_LINK;
  if (view === "jobs") return job ? jobLink(job) : jobsLink();
  const compared = others.dbs?.split("\n").filter(Boolean) ?? [];
  const database = db ?? compared.at(-1) ?? chosen(list, kept().db);
  if (view === "tables") return db ? linkOf(db) : linkOf();
  if (view === "timeline" || view === "diff") {
    const own = job ?? jobOfName(list, others.after ?? others.before ?? database)?.name ?? jobsOf(list)[0]?.name;
    const part = view === "diff" ? "compare" : view;
    return own ? jobLink(own, part, others) : jobsLink();
  }
  if (database === null || database === undefined) return jobsLink();
  if (view === "keys" && compared.length) return keysLink(others.dbs!, others.key ?? "");
  if (others.operator) return partLink(database, "xray", others);
  return PARTS.has(view) ? partLink(database, view, others) : partLink(database, "", others);
}
