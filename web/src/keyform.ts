// The form in which a key is typed.
import { h } from "./dom";

export function keyField(value: string): HTMLInputElement {
  return h("input", { type: "text", value, "aria-label": "Key", placeholder: 'a key: key_662, 42, (a,1) or {"f0": "a", "f1": 1}', spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
}

export function keyForm(key: HTMLInputElement, find: () => void): HTMLFormElement {
  const submit = (event: Event) => {
    event.preventDefault();
    find();
  };
  return h("form", { class: "keyform", role: "search", onsubmit: submit }, key, h("button", { class: "primary" }, "Find"));
}
