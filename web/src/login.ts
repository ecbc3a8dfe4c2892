// The question for a key, where the service wants one. Several requests that are refused at a time share it.
import { h } from "./dom";

let asking: Promise<string | null> | null = null;

/** The key that was typed; null if none was. */
export function askForKey(refused: boolean): Promise<string | null> {
  asking ??= ask(refused).finally(() => {
    asking = null;
  });
  return asking;
}

function ask(refused: boolean): Promise<string | null> {
  const key = h("input", { type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const dialog = h(
    "dialog",
    { class: "login", "aria-labelledby": "login-title" },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "login-title" }, "This service requires a key"),
      h("p", {}, refused ? "That key was not accepted." : "It is kept until this tab is closed."),
      h("label", { class: "field" }, h("span", {}, "API key or token"), key),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { class: "primary", value: "ok" }, "Continue"),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" && key.value ? key.value.trim() : null);
    });
  });
}
