// The strip of tabs above the editor. Arrows walk, F2 renames, Delete closes; Alt+PageUp and Alt+PageDown walk from the editor, too.
import { announce, fill, h } from "./dom";
import type { Tab } from "./tabs";

export interface Strip {
  element: HTMLElement;
  /** Shows these tabs, and which of them is seen; a mark says that the query of one runs. */
  show(tabs: Tab[], seen: Tab, running: ReadonlySet<string>, mayReopen: boolean): void;
}

export interface StripActions {
  pick(tab: Tab): void;
  add(): void;
  rename(tab: Tab, name: string): void;
  close(tab: Tab): void;
  reopen(): void;
}

const LONGEST_NAME = 60;
export const PANEL = "sheet";

export function tabStrip(actions: StripActions): Strip {
  let tabs: Tab[] = [];
  let seen: Tab;
  const list = h("div", { class: "sheets", role: "tablist", "aria-label": "Queries", onkeydown: (event: KeyboardEvent) => onKey(event) });
  const renameButton = h("button", { type: "button", class: "quiet", title: "F2, or a double click", onclick: () => rename() }, "Rename");
  const closeButton = h("button", { type: "button", class: "quiet", onclick: () => close(seen) }, "✕");
  const reopenButton = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => actions.reopen() }, "Reopen");
  const element = h(
    "div",
    { class: "sheet-bar" },
    list,
    h("button", { type: "button", class: "quiet", title: "New query", "aria-label": "New query", onclick: () => actions.add() }, "+"),
    h("span", { class: "gap" }),
    reopenButton,
    renameButton,
    closeButton,
  );

  function buttonOf(tab: Tab): HTMLButtonElement | undefined {
    return [...list.querySelectorAll("button")].find((one) => one.dataset.tab === tab.id);
  }

  function walk(steps: number): void {
    const next = tabs[(tabs.indexOf(seen) + steps + tabs.length) % tabs.length];
    actions.pick(next);
    buttonOf(next)?.focus();
  }

  function close(tab: Tab): void {
    const hadFocus = list.contains(document.activeElement);
    actions.close(tab);
    announce(`${tab.name} is closed`);
    if (hadFocus) buttonOf(seen)?.focus();
  }

  function rename(): void {
    const tab = seen;
    const button = buttonOf(tab);
    if (!button) return;
    let done = false;
    const end = (keeps: boolean) => {
      if (done) return;
      done = true;
      const name = box.value.trim().slice(0, LONGEST_NAME);
      if (keeps && name) actions.rename(tab, name);
      else actions.rename(tab, tab.name);
      buttonOf(tab)?.focus();
    };
    const box = h("input", {
      class: "sheet-name",
      "aria-label": `Name of ${tab.name}`,
      maxlength: LONGEST_NAME,
      value: tab.name,
      onblur: () => end(true),
      onkeydown: (event: KeyboardEvent) => {
        event.stopPropagation();
        if (event.key === "Enter") end(true);
        if (event.key === "Escape") end(false);
      },
    });
    // A text box is no tab: it stands before the list for as long as it is there.
    list.before(box);
    button.hidden = true;
    box.select();
  }

  function onKey(event: KeyboardEvent): void {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.indexOf(seen), End: tabs.length - 1 - tabs.indexOf(seen) };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) walk(steps[event.key]);
    else if (event.key === "F2") rename();
    else if (event.key === "Delete") close(seen);
    else return;
    event.preventDefault();
  }

  return {
    element,
    show(all, one, running, mayReopen) {
      const focused = list.contains(document.activeElement);
      [tabs, seen] = [all, one];
      element.querySelector(".sheet-name")?.remove();
      fill(
        list,
        all.map((tab) =>
          h(
            "button",
            {
              type: "button",
              role: "tab",
              "aria-selected": String(tab === one),
              "aria-controls": PANEL,
              tabindex: tab === one ? 0 : -1,
              "data-tab": tab.id,
              title: tab.text.slice(0, 300),
              onclick: () => actions.pick(tab),
              ondblclick: () => rename(),
              onauxclick: (event: MouseEvent) => event.button === 1 && close(tab),
            },
            running.has(tab.id) ? h("span", { class: "running", title: "runs" }, "◌ ") : null,
            tab.name,
          ),
        ),
      );
      closeButton.setAttribute("aria-label", `Close ${one.name}`);
      closeButton.title = `Close ${one.name}`;
      reopenButton.hidden = !mayReopen;
      const button = buttonOf(one);
      if (focused) button?.focus();
      button?.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
  };
}
