// Light, dark, or as the system says. What is drawn on a canvas is told when it changes.
export type Theme = "system" | "light" | "dark";

const STORED = "savepointdb.theme";
const ORDER: Theme[] = ["system", "light", "dark"];
const LABELS: Record<Theme, string> = { system: "Auto", light: "Light", dark: "Dark" };
const system = matchMedia("(prefers-color-scheme: dark)");
const changed = new EventTarget();

function stored(): Theme {
  const found = localStorage.getItem(STORED) as Theme | null;
  return found && ORDER.includes(found) ? found : "system";
}

export function applyTheme(): void {
  const theme = stored();
  const dark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  changed.dispatchEvent(new Event("change"));
}

/** Calls back whenever the colours change, until the signal. */
export function onTheme(call: () => void, signal: AbortSignal): void {
  changed.addEventListener("change", call, { signal });
}

export function mountTheme(button: HTMLButtonElement): void {
  const show = () => {
    const theme = stored();
    button.textContent = `◐`;
    button.setAttribute("aria-label", `Colours: ${LABELS[theme]}. Change`);
  };
  button.addEventListener("click", () => {
    localStorage.setItem(STORED, ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length]);
    applyTheme();
    show();
  });
  system.addEventListener("change", applyTheme);
  show();
}

/** The value of one of the style sheet's colours. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
