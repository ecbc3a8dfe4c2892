// `:name` in a statement, and the boxes for their values. The service reads the statement itself; this only has to find the names.
import { fill, h } from "./dom";

// Texts, quoted names and comments first: what stands in them is no parameter. A colon directly behind a value belongs to it.
const PLACES = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*|\/\*[\s\S]*?\*\/|\$\$[\s\S]*?\$\$|(?<![\w"'$\])}:])(?<!(?<!\bARRAY)(?<=[\w"'$\])}])\[):([A-Za-z][A-Za-z0-9_]{0,63})(?!\w)/gi;

export function parameterNames(sql: string): string[] {
  const found = [...sql.matchAll(PLACES)].map((match) => match[1]).filter((name): name is string => name !== undefined);
  return [...new Set(found)];
}

/** A box for each parameter of a statement; what was written stays while the statement changes. */
export class ParameterForm {
  readonly element = h("div", { class: "parameters", role: "group", "aria-label": "Parameters", hidden: true });
  private readonly texts = new Map<string, string>();
  private names: string[] = [];

  constructor(private readonly run: () => void) {}

  show(names: string[]): void {
    if (names.join() === this.names.join()) return;
    this.names = names;
    this.element.hidden = !names.length;
    fill(
      this.element,
      names.map((name) => {
        const box = h("input", { type: "text", spellcheck: "false", value: this.texts.get(name) ?? "", oninput: () => this.texts.set(name, box.value), onkeydown: (event: KeyboardEvent) => event.key === "Enter" && this.run() });
        return h("label", { class: "field" }, h("code", {}, `:${name}`), box);
      }),
    );
  }

  /** What is written for those that a text has; undefined where it has none. */
  values(names: string[]): Record<string, string> | undefined {
    return names.length ? Object.fromEntries(names.map((name) => [name, this.texts.get(name) ?? ""])) : undefined;
  }
}
