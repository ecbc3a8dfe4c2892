// Says why the service lets people wait, where it is because it has just begun.
import { fill, h } from "./dom";
import { ROOT } from "./route";

const PATIENCE_MS = 1500;
const PAUSE_MS = 2000;
const WORDS: Record<string, string> = {
  compiling: "The service compiles its decoder for this processor, which takes up to a minute. It answers when this is done.",
  starting: "The service is starting. It answers when this is done.",
  ending: "The service is stopping.",
};

let asking = false;

/** Waits for what is asked of the service; where that takes long, asks whether it is ready, and says so until it is. */
export async function awaited<T>(answer: Promise<T>): Promise<T> {
  const late = setTimeout(() => void watch(), PATIENCE_MS);
  try {
    return await answer;
  } finally {
    clearTimeout(late);
  }
}

async function watch(): Promise<void> {
  if (asking) return;
  asking = true;
  const banner = h("p", { class: "banner waiting", role: "status", id: "readiness" });
  for (let words = await told(); words !== null; words = await told()) {
    if (!banner.isConnected) document.getElementById("main")!.before(banner);
    if (banner.textContent !== words) fill(banner, words);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  banner.remove();
  asking = false;
}

/** Why the service is not ready; null where it is, or does not say. */
async function told(): Promise<string | null> {
  try {
    const response = await fetch(new URL("readyz", ROOT), { cache: "no-store", credentials: "same-origin" });
    const { status } = (await response.json()) as { status?: string };
    return response.ok ? null : (WORDS[status ?? ""] ?? null);
  } catch {
    return null;
  }
}
