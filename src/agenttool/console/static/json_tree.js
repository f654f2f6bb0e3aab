// A tree of JSON data: branches are made when they are opened, and long lists and texts in steps.
import { html, useState } from "./html.js";
import { Text, count } from "./text.js";

const STEP = 100, LONG_TEXT = 2000;

/** Show JSON data. `open` is the number of levels that are open at first. */
export function JsonTree({ value, open = 1 }) {
  return html`<div class="json"><${Node} value=${value} open=${open} /></div>`;
}

function Node({ name, value, open }) {
  const isBranch = value !== null && typeof value === "object";
  if (!isBranch) return html`<div class="json-line"><${Name} name=${name} /><${Leaf} value=${value} /></div>`;
  return html`<${Branch} name=${name} value=${value} open=${open} />`;
}

function Name({ name }) {
  return name === undefined ? null : html`<span class="json-name"><${Text} value=${name} />:</span> `;
}

function Branch({ name, value, open }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [shown, setShown] = useState(STEP);
  const isList = Array.isArray(value);
  const keys = isList ? null : Object.keys(value);
  const size = isList ? value.length : keys.length;
  const what = isList ? `[ ${count(size, "item")} ]` : `{ ${count(size, "member")} }`;
  if (size === 0) return html`<div class="json-line"><${Name} name=${name} /><span class="muted">${isList ? "[ ]" : "{ }"}</span></div>`;
  const indices = Array.from({ length: Math.min(size, shown) }, (_, index) => (isList ? index : keys[index]));
  return html`<div class="json-branch">
    <button type="button" class="json-toggle" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <span class="arrow" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
      <${Name} name=${name} /><span class="muted">${what}</span>
    </button>
    ${isOpen && html`<div class="json-children">
      ${indices.map((key) => html`<${Node} key=${key} name=${key} value=${value[key]} open=${open - 1} />`)}
      ${size > shown && html`<button type="button" class="small" onClick=${() => setShown(shown + STEP * 10)}>
        show ${count(Math.min(STEP * 10, size - shown), "more item")} of ${size.toLocaleString("en")}</button>`}
    </div>`}
  </div>`;
}

function Leaf({ value }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") return html`<span class="json-${value === null ? "null" : typeof value}">${String(value)}</span>`;
  const isCut = value.length > LONG_TEXT && !isWhole;
  return html`<span class="json-string">"<${Text} value=${isCut ? value.slice(0, LONG_TEXT) : value} />"</span>
    ${isCut && html` <button type="button" class="small" onClick=${() => setWhole(true)}>show all ${count(value.length, "character")}</button>`}`;
}
