// The arguments of a call, all of them and in full: what is not shown cannot be allowed.
import { html } from "./html.js";
import { PatchText, TextDifference } from "./difference.js";
import { Text, visible } from "./text.js";

const PAIRS = [["old_string", "new_string"], ["old_text", "new_text"], ["old_str", "new_str"], ["old_content", "new_content"], ["before", "after"], ["old", "new"], ["search", "replace"], ["find", "replace"]];
const PATCHES = ["patch", "diff"];
const TARGETS = ["path", "file_path", "file", "filename", "command", "cmd", "url", "uri", "to", "recipient", "customer", "branch", "repository", "repo", "table", "query", "name", "title", "id"];

/** Return the pair of arguments that a tool replaces one by the other; null if the names do not say so. */
function pairOf(input) {
  return PAIRS.find(([old, next]) => typeof input[old] === "string" && typeof input[next] === "string") ?? null;
}

/** Return what the call is about in a few words: its path, address, command or name; null if no argument says so. */
export function targetOf(input) {
  if (input === null || typeof input !== "object") return null;
  const name = TARGETS.find((each) => ["string", "number"].includes(typeof input[each]) && input[each] !== "")
    ?? Object.keys(input).find((each) => typeof input[each] === "string" && input[each] !== "" && input[each].length < 80);
  if (name === undefined) return null;
  const text = String(input[name]).split("\n")[0];
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}

/** Show all arguments; a replaced text as a difference. */
export function Arguments({ input }) {
  if (input === null || typeof input !== "object" || Array.isArray(input))
    return html`<pre class="output" tabindex="0"><${Text} value=${JSON.stringify(input, null, 2)} /></pre>`;
  const names = Object.keys(input), pair = pairOf(input);
  if (names.length === 0) return html`<p class="muted">It has no arguments.</p>`;
  return html`<dl class="arguments">
    ${names.filter((name) => !pair?.includes(name)).map((name) => html`<div class="argument" key=${name}>
      <dt><${Text} value=${name} /></dt><dd><${Value} name=${name} value=${input[name]} /></dd></div>`)}
    ${pair && html`<div class="argument wide"><dt><${Text} value=${pair[0]} /> → <${Text} value=${pair[1]} /></dt>
      <dd><${TextDifference} before=${input[pair[0]]} after=${input[pair[1]]} label=${visible(input.path ?? input.file_path ?? "")} isAll />
          </dd></div>`}
  </dl>`;
}

function Value({ name, value }) {
  if (typeof value === "string" && PATCHES.includes(name) && value.includes("\n")) return html`<${PatchText} text=${value} label=${name} />`;
  if (typeof value === "string") {
    if (value === "") return html`<span class="muted">(empty text)</span>`;
    if (value.includes("\n") || value.length > 120) return html`<pre class="output" tabindex="0" aria-label=${visible(name)}><${Text}
        value=${value} /></pre>`;
    return html`<code class="value"><${Text} value=${value} /></code>`;
  }
  if (value !== null && typeof value === "object") return html`<pre class="output" tabindex="0" aria-label=${visible(name)}><${Text}
      value=${JSON.stringify(value, null, 2)} /></pre>`;
  return html`<code class="value">${String(value)}</code>`;
}
