// The dialog in which a query is saved, or a saved one changed.
import { ApiError } from "./api";
import { announce, fill, h } from "./dom";
import { problem } from "./panel";
import { parameterNames } from "./parameters";
import { put, SavedParameter, SavedQuery, TYPES } from "./saved";
import { statement } from "./sql";

/** Asks for what is to be saved; `onSaved` gets what the service made of it. */
export function openSaveDialog(query: SavedQuery, isNew: boolean, onSaved: (saved: SavedQuery) => void): void {
  const known = new Map(query.parameters.map((one) => [one.name, { ...one }]));
  const name = h("input", { type: "text", name: "name", required: true, pattern: "[a-z0-9][a-z0-9_\\-]{0,63}", maxlength: 64, value: query.name, disabled: !isNew, spellcheck: "false", autocomplete: "off", title: "small letters, digits, - and _" });
  const description = h("input", { type: "text", name: "description", maxlength: 500, value: query.description });
  const database = h("input", { type: "text", name: "database", value: query.database ?? "", spellcheck: "false", placeholder: "the only or the newest one" });
  const sql = h("textarea", { name: "sql", rows: 8, required: true, spellcheck: "false", "aria-label": "SQL", oninput: () => list() }, query.sql);
  const parameters = h("div", {});
  const failed = h("div", {});
  const save = h("button", { class: "primary" }, isNew ? "Save" : "Save changes");
  const dialog = h(
    "dialog",
    { class: "panel save", "aria-labelledby": "save-title", onclose: () => dialog.remove() },
    h("h2", { id: "save-title" }, isNew ? "Save this query" : `Change ${query.name}`),
    h(
      "form",
      { class: "save-form", onsubmit: (event: SubmitEvent) => void keep(event) },
      isNew ? field("Name", name, "It becomes a part of the link: small letters, digits, - and _.") : null,
      field("Description", description),
      field("Database", database, "For tables without a database. Users who may read it see this query."),
      field("SQL", sql, "Each :name becomes a parameter."),
      parameters,
      failed,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), save),
    ),
  );

  function now(): SavedParameter[] {
    return parameterNames(sql.value).map((one) => known.get(one) ?? { name: one, type: "text", default: null });
  }

  function list(): void {
    const shown = now();
    fill(parameters, shown.length ? h("fieldset", {}, h("legend", {}, "Parameters"), shown.map(row)) : null);
  }

  function row(one: SavedParameter): HTMLElement {
    known.set(one.name, one);
    const type = h("select", { "aria-label": `Type of ${one.name}`, onchange: () => (one.type = type.value as SavedParameter["type"]) }, TYPES.map((kind) => h("option", { value: kind }, kind)));
    type.value = one.type;
    const text = h("input", { type: "text", "aria-label": `Default of ${one.name}`, placeholder: one.default === null ? "no default" : "", value: one.default ?? "", oninput: () => (one.default = text.value === "" ? null : text.value) });
    return h("div", { class: "parameter" }, h("code", {}, `:${one.name}`), type, text);
  }

  async function keep(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    save.disabled = true;
    try {
      const saved = await put({ ...query, name: name.value, description: description.value, database: database.value || null, sql: statement(sql.value), parameters: now() }, isNew);
      dialog.close();
      announce(`${saved.name} is saved`);
      onSaved(saved);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(failed, problem(error));
    } finally {
      save.disabled = false;
    }
  }

  list();
  document.body.append(dialog);
  dialog.showModal();
  (isNew ? name : description).focus();
}

function field(label: string, box: HTMLElement, about = ""): HTMLElement {
  return h("label", { class: "save-field" }, h("span", {}, label), box, about ? h("small", { class: "note" }, about) : null);
}
