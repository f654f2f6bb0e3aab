// Keyboard navigation: "g" and a letter goes to a page, j and k move between rows, "/" searches, "?" shows the list.
import { html, signal } from "./html.js";
import { Dialog } from "./dialog.js";
import { navigate } from "./router.js";
import { shortcuts, setShortcuts } from "./session.js";

const PAGES = { h: "/", a: "/approvals", c: "/calls", t: "/tools", s: "/sources", p: "/policy", x: "/access" };
const HELP = [
  ["g h", "Home"], ["g a", "Approvals"], ["g c", "Calls"], ["g t", "Tools"], ["g s", "Sources"], ["g p", "Policy"], ["g x", "Access"],
  ["j, k", "next or previous row or card"], ["Enter", "open the row"], ["/", "search or filter"], ["?", "this list"],
];

const isHelpOpen = signal(false);
let isAfterG = false;

export function openHelp() {
  isHelpOpen.value = true;
}

/** Listen to keys; nothing happens while a field has the focus, or if the reader switched shortcuts off. */
export function startKeyboard() {
  addEventListener("keydown", (event) => {
    if (!shortcuts.value || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (act(event.key)) event.preventDefault();
  });
}

function act(key) {
  if (isAfterG) {
    isAfterG = false;
    if (!(key in PAGES)) return false;
    navigate(PAGES[key]);
    return true;
  }
  if (key === "g") {
    isAfterG = true;
    setTimeout(() => { isAfterG = false; }, 1500);
    return true;
  }
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (key === "/") {
    const field = document.querySelector("[data-search]");
    field?.focus();
    return Boolean(field);
  }
  if (key === "?") openHelp();
  return key === "?";
}

/** Move the focus to the next or previous element with `data-row`. */
function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) return false;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

export function KeyboardHelp() {
  if (!isHelpOpen.value) return null;
  return html`<${Dialog} title="Keyboard" onClose=${() => { isHelpOpen.value = false; }}>
    <table class="keys"><tbody>
      ${HELP.map(([keys, what]) => html`<tr><th scope="row"><kbd>${keys}</kbd></th><td>${what}</td></tr>`)}
    </tbody></table>
    <p class="muted">No key allows a call: the button must be pressed.</p>
    <label class="check"><input type="checkbox" checked=${shortcuts.value} onChange=${(event) => setShortcuts(event.target.checked)} />
      Single keys navigate</label>
  <//>`;
}
