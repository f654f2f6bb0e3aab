// Text from tools and callers. Characters that hide or reorder text are shown as marks, so that what is read is what is there.
import { html } from "./html.js";

// C0 and C1 controls (except tab and newline), soft hyphen, zero-width and joining characters, bidirectional controls,
// line and paragraph separators, invisible operators, fillers, tags, variation selectors, and lone surrogates.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e" +
  "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffc]" +
  "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]|\\udb40[\\udc00-\\udfff]", "g");

const NAMES = {
  0x200b: "zero width space", 0x200c: "zero width non-joiner", 0x200d: "zero width joiner", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding",
  0x202c: "pop directional formatting", 0x202d: "left-to-right override", 0x202e: "right-to-left override",
  0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate",
  0x2069: "pop directional isolate", 0x1b: "escape", 0x00: "null", 0x0d: "carriage return", 0xfeff: "byte order mark",
};
const MANY = 500;

/** Return the visible mark of one hidden character, such as ⟦U+202E⟧. */
function mark(character) {
  const point = character.codePointAt(0);
  return `⟦U+${point.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

/** Return a text with visible marks, as a plain string: for attributes, titles and plots. */
export function visible(text) {
  return String(text).replace(HIDDEN, mark);
}

/** Show a text from outside. Marks of hidden characters have their name as a title. */
export function Text({ value }) {
  const text = String(value ?? "");
  const found = text.match(HIDDEN);
  if (!found) return html`<bdi>${text}</bdi>`;
  if (found.length > MANY) return html`<bdi>${visible(text)}</bdi>`;
  const parts = [];
  let begin = 0;
  for (const each of text.matchAll(HIDDEN)) {
    if (each.index > begin) parts.push(text.slice(begin, each.index));
    const point = each[0].codePointAt(0);
    const name = `hidden character U+${point.toString(16).toUpperCase().padStart(4, "0")} ${NAMES[point] ?? ""}`.trim();
    parts.push(html`<span class="hidden-char" title=${name}>${mark(each[0])}</span>`);
    begin = each.index + each[0].length;
  }
  parts.push(text.slice(begin));
  return html`<bdi>${parts}</bdi>`;
}

/** Return an address if its scheme is harmless, else null: no `javascript:`, `data:` or `file:` link is ever made. */
export function safeUrl(address) {
  try {
    const url = new URL(String(address));
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

/** Show an address from outside: a link only if its scheme is harmless. */
export function OutsideLink({ href }) {
  const url = safeUrl(href);
  if (url === null) return html`<code><${Text} value=${href} /></code>`;
  return html`<a href=${url} target="_blank" rel="noopener noreferrer external"><${Text} value=${href} /></a>`;
}

/** Return a count with its noun: "1 call", "2,000 calls". */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** Return the start of an id or digest for display; the title holds all of it. */
export function short(id, length = 10) {
  const text = String(id ?? "").replace(/^sha256:/, "");
  return text.length > length + 2 ? `${text.slice(0, length)}…` : text;
}

/** Return a size in bytes for people. */
export function bytes(size) {
  if (size === null || size === undefined) return "unknown size";
  if (size < 1000) return `${size} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = size / 1000, unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
