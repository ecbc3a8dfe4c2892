// JSON whose integers stay exact: Flink's longs do not fit into JavaScript's numbers.
const LONG = /\d{16}/;
const INTEGER = /^-?\d+$/;
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const exact: Reviver = (_key, value, context) => {
  const source = context?.source;
  const lost = typeof value === "number" && !Number.isSafeInteger(value);
  return lost && source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
};

export function parse(text: string): unknown {
  return LONG.test(text) ? JSON.parse(text, exact as (key: string, value: unknown) => unknown) : JSON.parse(text);
}

/** JSON text of what `parse` gave. */
export function jsonText(value: unknown, indent = ""): string {
  return write(value, indent, "");
}

function write(value: unknown, indent: string, margin: string): string {
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = margin + indent;
  const [open, close, items] = Array.isArray(value)
    ? ["[", "]", value.map((item) => write(item, indent, inner))]
    : ["{", "}", Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${indent && " "}${write(item, indent, inner)}`)];
  if (!items.length || !indent) return open + items.join(indent ? ", " : ",") + close;
  return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${margin}${close}`;
}
