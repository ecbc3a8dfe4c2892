// The tabs of the editor: their texts are kept in this browser, each under a key of its own, so that two windows do not undo each other.
export interface Tab {
  id: string;
  name: string;
  text: string;
  database: string | null;
  chart: string;
  /** When it was opened: tabs stand in this order. */
  created: number;
  /** Whether somebody wrote into it; else the next link takes its place. */
  edited: boolean;
}

const PREFIX = "savepointdb.tab.";
/** The tab that this window shows. */
const SEEN = "savepointdb.tab";
const MOST = 50;
const NAME = /^Query (\d+)$/;

/** What browsers without storage, or with a full one, keep until the page is closed. */
const unkept = new Map<string, Tab>();

export function keptTabs(): Tab[] {
  const found = new Map<string, Tab>();
  try {
    for (const key of Object.keys(localStorage)) {
      const tab = key.startsWith(PREFIX) ? parsed(localStorage.getItem(key)) : null;
      if (tab) found.set(tab.id, tab);
    }
  } catch {
    // There is no storage.
  }
  for (const tab of unkept.values()) found.set(tab.id, tab);
  return [...found.values()].sort((one, other) => one.created - other.created).slice(-MOST);
}

/** Keeps a tab; false where the browser has no room for it. */
export function keepTab(tab: Tab): boolean {
  try {
    localStorage.setItem(PREFIX + tab.id, JSON.stringify(tab));
    unkept.delete(tab.id);
    return true;
  } catch {
    unkept.set(tab.id, { ...tab });
    return false;
  }
}

export function dropTab({ id }: Tab): void {
  unkept.delete(id);
  try {
    localStorage.removeItem(PREFIX + id);
  } catch {
    // It was never kept.
  }
}

export function newTab(tabs: Tab[], text: string, database: string | null, chart = ""): Tab {
  const numbers = tabs.map(({ name }) => Number(NAME.exec(name)?.[1] ?? 0));
  const created = Math.max(Date.now(), ...tabs.map((tab) => tab.created + 1));
  return { id: `${created.toString(36)}-${Math.random().toString(36).slice(2, 8)}`, name: `Query ${Math.max(0, ...numbers) + 1}`, text, database, chart, created, edited: false };
}

export function seenTab(): string | null {
  return sessionStorage.getItem(SEEN);
}

export function see({ id }: Tab): void {
  try {
    sessionStorage.setItem(SEEN, id);
  } catch {
    // The next view begins with the last tab.
  }
}

/** Others may write into the storage, too. */
function parsed(text: string | null): Tab | null {
  try {
    const tab = JSON.parse(text ?? "") as Tab;
    const isTab = [tab.id, tab.name, tab.text, tab.chart].every((value) => typeof value === "string") && Number.isFinite(tab.created);
    return isTab ? { ...tab, database: typeof tab.database === "string" ? tab.database : null, edited: Boolean(tab.edited) } : null;
  } catch {
    return null;
  }
}
