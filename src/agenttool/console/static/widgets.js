// Small parts of every page: status chips, notices, empty states, copyable ids, toasts.
import { html, signal, useState } from "./html.js";
import { STATUSES, wordsOf } from "./statuses.js";
import { Text, short, visible } from "./text.js";

const TONES = {
  allow: "good", ready: "good", loaded: "good", connecting: "busy", ask: "wait", deny: "bad", unavailable: "bad",
};

/** A word with a color; the word alone has the meaning. */
export function Chip({ value, tone, title }) {
  return html`<span class="chip ${tone ?? STATUSES[value]?.tone ?? TONES[value] ?? "plain"}" title=${title}>${visible(wordsOf(value))}</span>`;
}

/** An id or digest: its start, all of it as the title, copied on click. */
export function Id({ value, length = 10 }) {
  const [isCopied, setCopied] = useState(false);
  if (!value) return html`<span class="muted">–</span>`;
  const copy = async () => {
    await navigator.clipboard?.writeText(String(value)).catch(() => {});
    setCopied(true);
    setTimeout(() => setCopied(false), 1200);
  };
  return html`<button type="button" class="id" onClick=${copy} title=${`${visible(value)} (click to copy)`}>
    <span class="sr-only">copy </span><${Text} value=${short(value, length)} />
        <span class="copied" aria-live="polite">${isCopied ? " copied" : ""}</span>
  </button>`;
}

/** A message about the page or a part of it: tone is "info", "warn" or "bad". */
export function Notice({ tone = "info", title, children }) {
  return html`<div class="notice ${tone}" role=${tone === "bad" ? "alert" : "note"}>
    ${title && html`<strong>${title}</strong>`}<div>${children}</div>
  </div>`;
}

/** The error of a request, in its own words. */
export function Failure({ error, retry }) {
  if (!error) return null;
  return html`<${Notice} tone="bad" title=${error.title ?? "This did not work"}>
    <p><${Text} value=${error.message} /></p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  <//>`;
}

/** What a page shows instead of an empty table. */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><div>${children}</div></div>`;
}

/** Gray bars where data will be. */
export function Loading({ rows = 3 }) {
  return html`<div class="loading" role="status"><span class="sr-only">Loading</span>
    ${Array.from({ length: rows }, () => html`<div class="bar"></div>`)}</div>`;
}

/** A text that can be copied, such as a command; `label` is its heading. */
export function Snippet({ label, text }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<div class="snippet">
    <div class="row spread"><span class="label">${label}</span>
      <button type="button" class="small" onClick=${copy} aria-label=${`copy: ${label}`}>${isCopied ? "copied" : "copy"}</button></div>
    <pre tabindex="0" aria-label=${label}><${Text} value=${text} /></pre>
  </div>`;
}

/** A group of buttons of which one is chosen. */
export function Choice({ label, value, options, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([name, text]) => html`<button type="button" aria-pressed=${value === name} onClick=${() => onChange(name)}>${text}</button>`)}
  </div>`;
}

const toasts = signal([]);
let number = 0;

/** Show a message for some seconds; screen readers read it. Tone is "good", "info" or "bad". */
export function toast(message, { tone = "good", link } = {}) {
  const id = ++number;
  toasts.value = [...toasts.value.slice(-3), { id, message, tone, link }];
  setTimeout(() => { toasts.value = toasts.value.filter((each) => each.id !== id); }, tone === "bad" ? 12000 : 7000);
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(({ id, message, tone, link }) => html`<div class="toast ${tone}" key=${id}>
      <span><${Text} value=${message} /></span> ${link}
    </div>`)}
  </div>`;
}
