// Numbers and names for people.
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const STEP = 1000;

/** A size with a decimal unit, as the command line writes it. */
export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "";
  let value = size;
  let unit = 0;
  while (value >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** The size of a state; an estimate says so, and a dash is a size that is not known. */
export function stateBytes(size: number | null, isEstimate: boolean): string {
  return size === null ? "–" : `${isEstimate ? "about " : ""}${bytes(size)}`;
}

export function count(value: number | bigint): string {
  return value.toLocaleString("en");
}

export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** How much more the largest has than the mean; 1 is even. */
export function skew(values: number[]): number {
  const total = values.reduce((sum, value) => sum + value, 0);
  return total ? (Math.max(...values) * values.length) / total : 1;
}

const AGES: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
];

/** How long ago a time was; the day itself where that is long ago. */
export function age(iso: string, now = Date.now()): string {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (Number.isNaN(seconds) || seconds < 0 || seconds > 60 * 86_400) return iso.slice(0, 10);
  const [size, unit] = AGES.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** A time to the minute, UTC. */
export function moment(iso: string): string {
  return iso.slice(0, 16).replace("T", " ");
}

/** Milliseconds since 1970 as a time. */
export function utc(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}
