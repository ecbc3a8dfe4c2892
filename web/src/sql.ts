// Pieces of SQL.

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function table(database: string, name: string): string {
  return `${identifier(database)}.${identifier(name)}`;
}

/** What the page asks for itself begins so: it is not listed among what people asked. */
export const OWN = "/* page */ ";

/** The statement without the semicolons and spaces at its end. */
export function statement(text: string): string {
  return text.replace(/[\s;]+$/, "");
}
