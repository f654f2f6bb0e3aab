// The difference of two texts or JSON values, line by line.
import { html, useState } from "./html.js";
import { Text, count } from "./text.js";

const MAX_CELLS = 4_000_000, CONTEXT = 3;

/**
 * Compare two lists of lines.
 * @returns {{sign: " "|"-"|"+", text: string}[]} the lines of both in order; the fewest changes unless the texts are huge
 */
export function diffLines(before, after) {
  let start = 0, endBefore = before.length, endAfter = after.length;
  while (start < endBefore && start < endAfter && before[start] === after[start]) start += 1;
  while (endBefore > start && endAfter > start && before[endBefore - 1] === after[endAfter - 1]) { endBefore -= 1; endAfter -= 1; }
  const same = (text) => ({ sign: " ", text });
  return [
    ...before.slice(0, start).map(same),
    ...diffMiddle(before.slice(start, endBefore), after.slice(start, endAfter)),
    ...before.slice(endBefore).map(same),
  ];
}

/** The longest common subsequence by a table; beyond its limit all old lines, then all new lines. */
function diffMiddle(before, after) {
  const rows = before.length, columns = after.length;
  const gone = (text) => ({ sign: "-", text }), added = (text) => ({ sign: "+", text });
  if (rows === 0 || columns === 0 || rows * columns > MAX_CELLS) return [...before.map(gone), ...after.map(added)];
  const width = columns + 1;
  const table = new Uint32Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row -= 1)
    for (let column = columns - 1; column >= 0; column -= 1)
      table[row * width + column] = before[row] === after[column]
        ? table[(row + 1) * width + column + 1] + 1
        : Math.max(table[(row + 1) * width + column], table[row * width + column + 1]);
  const lines = [];
  let row = 0, column = 0;
  while (row < rows && column < columns) {
    if (before[row] === after[column]) { lines.push({ sign: " ", text: before[row] }); row += 1; column += 1; }
    else if (table[(row + 1) * width + column] >= table[row * width + column + 1]) { lines.push(gone(before[row])); row += 1; }
    else { lines.push(added(after[column])); column += 1; }
  }
  return [...lines, ...before.slice(row).map(gone), ...after.slice(column).map(added)];
}

/** Return JSON as lines, with members in the order of their names and without commas, so that only real differences differ. */
export function jsonLines(value) {
  return JSON.stringify(sorted(value), null, 2)?.split("\n").map((line) => line.replace(/,$/, "")) ?? ["(not given)"];
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}

/** Whether two JSON values are equal, whatever the order of their members. */
export function isSameJson(one, other) {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

/** Show the difference of two JSON values. */
export function JsonDifference({ before, after, label }) {
  return html`<${Lines} lines=${diffLines(jsonLines(before), jsonLines(after))} label=${label} />`;
}

/** Show the difference of two texts; `isAll` shows unchanged lines, too. */
export function TextDifference({ before, after, label, isAll }) {
  const split = (text) => (text === "" ? [] : String(text).split("\n"));
  return html`<${Lines} lines=${diffLines(split(before), split(after))} label=${label} isAll=${isAll} />`;
}

/** Show lines that are a unified difference already. */
export function PatchText({ text, label }) {
  const lines = String(text).split("\n").map((line) => ({
    sign: /^[+-](?![+-]{2} )/.test(line) ? line[0] : " ", text: /^[+\- ]/.test(line) ? line.slice(1) : line,
  }));
  return html`<${Lines} lines=${lines} label=${label} isAll />`;
}

function Lines({ lines, label, isAll = false }) {
  const [isWhole, setWhole] = useState(isAll);
  const added = lines.filter(({ sign }) => sign === "+").length, gone = lines.filter(({ sign }) => sign === "-").length;
  const parts = isWhole ? lines : folded(lines);
  return html`<figure class="difference">
    <figcaption>${label && html`<span><${Text} value=${label} /></span>`}<span class="muted">${count(added, "line")} added, ${gone} removed</span>
      ${parts.length < lines.length && html`<button type="button" class="small" onClick=${() => setWhole(true)}>show all lines</button>`}</figcaption>
    <div class="lines" tabindex="0" role="group" aria-label=${`difference${label ? ` of ${label}` : ""}`}>
      ${parts.map(({ sign, text, skipped }) => skipped
        ? html`<div class="line skipped">⋯ ${count(skipped, "unchanged line")}</div>`
        : html`<div class="line ${sign === "+" ? "added" : sign === "-" ? "gone" : ""}">
            <span class="sign">${sign === " " ? "\u00a0" : sign}</span><span><${Text} value=${text} /></span></div>`)}
    </div>
  </figure>`;
}

/** Replace long runs of unchanged lines by their number. */
function folded(lines) {
  const isNear = lines.map(() => false);
  lines.forEach(({ sign }, index) => {
    if (sign !== " ") for (let near = Math.max(0, index - CONTEXT); near <= Math.min(lines.length - 1, index + CONTEXT); near += 1) isNear[near] = true;
  });
  const found = [];
  lines.forEach((line, index) => {
    if (isNear[index] || (isNear[index - 1] && isNear[index + 1]) || (isNear[index - 1] && index === lines.length - 1)) found.push(line);
    else if (found.at(-1)?.skipped) found.at(-1).skipped += 1;
    else found.push({ skipped: 1 });
  });
  return found;
}
