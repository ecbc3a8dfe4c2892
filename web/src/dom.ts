// Elements without markup: what is inserted is always text or an element, never HTML.
export type Child = Node | string | number | null | undefined | false | Child[];
type Value = string | number | boolean | null | undefined | ((event: never) => void);
export type Attributes = Record<string, Value>;

/** An element. Functions are listeners (`onclick`), true is an empty attribute, null and false none. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** Replaces what is in an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}

function nodes(children: Child[]): (Node | string)[] {
  return children.flatMap((child) => {
    if (Array.isArray(child)) return nodes(child);
    if (child === null || child === undefined || child === false) return [];
    return [child instanceof Node ? child : String(child)];
  });
}

/** A labelled drop-down; options of one group stand together under its name. */
export function select(
  label: string,
  options: { value: string; text: string; disabled?: boolean; group?: string }[],
  value: string,
  onChange: (value: string) => void,
): HTMLLabelElement {
  const box = h("select", { onchange: () => onChange(box.value) });
  for (const [group, own] of Map.groupBy(options, (option) => option.group)) {
    const listed = own.map((option) => h("option", { value: option.value, disabled: option.disabled ?? false }, option.text));
    box.append(...(group === undefined ? listed : [h("optgroup", { label: group }, listed)]));
  }
  box.value = value;
  return h("label", { class: "field" }, h("span", {}, label), box);
}

/** Says something to those who do not see it appear. */
export function announce(text: string): void {
  let region = document.getElementById("announcements");
  if (!region) {
    region = h("div", { id: "announcements", class: "unseen", role: "status", "aria-live": "polite" });
    document.body.append(region);
  }
  region.textContent = text;
}

/** Gives a text to whoever asked for it: a file, saved by the browser. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Copies a text. Where the page came without TLS, browsers only know the old way. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
