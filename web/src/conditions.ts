// The condition of a link: SQL that people may write, and the parts of it that can be taken away one by one.
import { linkOf } from "./route";

/** The parts between the ANDs of a condition, as far as they are easily told apart; else the whole. */
export function partsOf(condition: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let between = false;
  let start = 0;
  for (const { 0: token, index } of condition.matchAll(TOKEN)) {
    const word = token.toUpperCase();
    // What is seldom and easily mistaken stays in one piece: comments, dollars, strings with backslashes.
    if (word === "E'" || word === "--" || word === "/*" || token.startsWith("$") || (word === "OR" && depth === 0)) return whole(condition);
    if ("([{".includes(token) || word === "CASE") depth += 1;
    else if (")]}".includes(token) || word === "END") depth -= 1;
    else if (depth === 0 && word === "BETWEEN") between = true;
    else if (depth === 0 && word === "AND") {
      if (!between) {
        parts.push(condition.slice(start, index));
        start = index + token.length;
      }
      between = false;
    }
  }
  return depth === 0 ? [...parts, condition.slice(start)].map((part) => part.trim()).filter(Boolean) : whole(condition);
}

const TOKEN = /\bE'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\w*\$|--|\/\*|[[\](){}]|\w+/gi;

function whole(condition: string): string[] {
  return condition.trim() ? [condition.trim()] : [];
}

/** A condition of all these. */
export function joined(parts: string[]): string {
  if (parts.length < 2) return parts[0] ?? "";
  // A part that is made of several must stay one; a comment at its end must not hide the bracket.
  return parts.map((part) => (!/\bor\b|--|\/\*/i.test(part) || isBracketed(part) ? part : /--|\/\*/.test(part) ? `(${part}\n)` : `(${part})`)).join(" AND ");
}

function isBracketed(part: string): boolean {
  if (!part.startsWith("(")) return false;
  let depth = 0;
  for (const { 0: token, index } of part.matchAll(TOKEN)) {
    if (token === "--" || token === "/*") return false;
    if (token === "(") depth += 1;
    else if (token === ")" && --depth === 0) return index === part.length - 1;
  }
  return false;
}

/** Rows of a table, as its address names them. */
export interface Rows {
  database: string;
  table: string;
  /** A condition of SQL; empty for all rows. */
  where: string;
  /** More of the address: a key group, columns, a sorting, a limit. */
  others: Record<string, string>;
}

export function addressOf({ database, table, where, others }: Rows, format = ""): string {
  // As the page exports it: whoever clicks opens it in a spreadsheet.
  const safe = format === "csv" ? { formulas: "escape" } : {};
  return linkOf(database, table, { ...others, where, ...safe }, format);
}

/** The address of those of the rows for which a condition holds, too. */
export function narrowed(rows: Rows, condition: string): string {
  const parts = partsOf(rows.where);
  return addressOf({ ...rows, where: joined(parts.includes(condition) ? parts : [...parts, condition]) });
}
