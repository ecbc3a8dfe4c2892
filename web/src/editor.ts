// The SQL editor. It stands in a shadow tree: CodeMirror's styles are adopted there as objects, which a strict
// Content-Security-Policy allows, where it forbids <style> elements.
import { autocompletion, closeCompletion, Completion, CompletionContext, CompletionResult, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, schemaCompletionSource, sql, keywordCompletionSource } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Column, Position } from "./api";
import { h } from "./dom";

const LOOKS = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "14px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.8", fontStyle: "normal", marginLeft: "1em" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--sql-word)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--sql-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--sql-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--sql-type)" },
]);

/** Left to itself, Chromium copies the style of replaced text into a style attribute, which the policy forbids loudly. */
function typedOverSelection(event: InputEvent, view: EditorView): boolean {
  const { from, to } = view.state.selection.main;
  const text = event.data;
  if (event.inputType !== "insertText" || text === null || from === to || view.composing) return false;
  event.preventDefault();
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  const handled = view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert));
  if (!handled) view.dispatch(insert());
  return true;
}

/** Ends a completion, also one that is still looked for; the key goes on to what it does. */
function leave(view: EditorView): boolean {
  setTimeout(() => closeCompletion(view));
  return false;
}

export interface EditorActions {
  run: () => void;
  explain: () => void;
}

/** What an editor is for, as it says while it is empty and to those who do not see it. */
export interface EditorWords {
  placeholder: string;
  label: string;
}

const OF_QUERIES: EditorWords = { placeholder: "SELECT … — Ctrl+Enter runs it", label: "SQL. Ctrl and Enter run it; Tab leaves the editor" };

export class Editor {
  readonly element = h("div", { class: "editor" });
  /** Hears that the text is another one. */
  onChange: () => void = () => undefined;
  private readonly language = new Compartment();
  private readonly view: EditorView;
  private tables = new Map<string, Column[]>();

  constructor(text: string, actions: EditorActions, words = OF_QUERIES) {
    const root = this.element.attachShadow({ mode: "open" });
    const act = (action: () => void) => () => {
      action();
      return true;
    };
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          EditorState.tabSize.of(2),
          placeholder(words.placeholder),
          autocompletion({ icons: false }),
          syntaxHighlighting(COLOURS),
          LOOKS,
          EditorView.contentAttributes.of({ "aria-label": words.label }),
          this.language.of([]),
          Prec.highest(
            keymap.of([
              { key: "Mod-Enter", run: act(actions.run) },
              { key: "Mod-Shift-Enter", run: act(actions.explain) },
              { key: "Tab", run: leave, shift: leave },
            ]),
          ),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          EditorView.domEventHandlers({ beforeinput: typedOverSelection, blur: (_event, view) => leave(view) }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            this.clearError();
            this.onChange();
          }),
        ],
      }),
    });
    this.complete(null, new Map());
  }

  /** What to complete: the tables of a database with their columns. */
  complete(database: string | null, tables: Map<string, Column[]>): void {
    this.tables = tables;
    const listed = Object.fromEntries(
      [...tables].map(([name, columns]) => [name, columns.map(({ name: label, type: detail }): Completion => ({ label, detail, type: "property" }))]),
    );
    const schema = { schema: database === null ? listed : { [database]: listed }, defaultSchema: database ?? undefined, dialect: PostgreSQL };
    this.view.dispatch({
      effects: this.language.reconfigure([
        sql({ dialect: PostgreSQL, upperCaseKeywords: true }).language,
        PostgreSQL.language.data.of({ autocomplete: schemaCompletionSource(schema) }),
        PostgreSQL.language.data.of({ autocomplete: (context: CompletionContext) => this.columnsInReach(context) }),
        PostgreSQL.language.data.of({ autocomplete: keywordCompletionSource(PostgreSQL, true) }),
      ]),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(value: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: value } });
  }

  /** What is to run: the selection, else everything; and where it begins. */
  get chosen(): { text: string; from: number } {
    const { from, to } = this.view.state.selection.main;
    return from === to ? { text: this.text, from: 0 } : { text: this.view.state.sliceDoc(from, to), from };
  }

  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.view.focus();
  }

  focus(): void {
    this.view.focus();
  }

  /** Marks where an error is. Lines and columns count from 1, columns in characters, from where the statement began. */
  showError(message: string, position: Position, from: number): void {
    const { doc } = this.view.state;
    const first = doc.lineAt(from);
    const line = doc.line(Math.min(first.number + position.line - 1, doc.lines));
    const start = position.line === 1 ? from : line.from;
    const before = [...doc.sliceString(start, line.to)].slice(0, position.column - 1).join("");
    const at = Math.min(start + before.length, line.to);
    const word = /^(\w+|"[^"]*"|\S)/.exec(doc.sliceString(at, line.to))?.[0].length ?? 0;
    const span = word ? { from: at, to: at + word } : { from: Math.max(at - 1, 0), to: at };
    this.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at) });
    this.view.dispatch(setDiagnostics(this.view.state, [{ ...span, severity: "error", message }]));
  }

  clearError(): void {
    this.view.dispatch(setDiagnostics(this.view.state, []));
  }

  destroy(): void {
    this.view.destroy();
  }

  /** The columns of the tables that the statement names, before all keywords. */
  private columnsInReach(context: CompletionContext): CompletionResult | null {
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    if (context.matchBefore(/[."]\w*/)) return null;
    const named = this.text.toLowerCase();
    const options = new Map<string, Completion>();
    for (const [table, columns] of this.tables) {
      if (!named.includes(table.toLowerCase())) continue;
      for (const { name, type } of columns) {
        const apply = /^[a-z_]\w*$/.test(name) ? name : `"${name}"`;
        options.set(name, { label: name, detail: type, type: "property", apply, boost: 50 });
      }
    }
    return { from: word?.from ?? context.pos, options: [...options.values()], validFor: /^\w*$/ };
  }
}
