// Rows of calls, on Home and on the page of all calls.
import { html } from "./html.js";
import { Link } from "./router.js";
import { Text, visible } from "./text.js";
import { Time, duration, useNow } from "./time.js";
import { Chip } from "./widgets.js";

/** Whether an event changes a list of calls; progress alone does not. */
export function concernsCalls({ event, data }) {
  return event === "answer" || (event === "call" && data.types.some((type) => type !== "tool.invocation.progress"));
}

/** A table of calls; `isShort` leaves columns out. On a phone each row becomes a block. */
export function CallRows({ calls, isShort = false }) {
  return html`<table class="calls ${isShort ? "short" : ""}"><caption class="sr-only">Calls</caption>
    <thead class=${isShort ? "sr-only" : ""}><tr><th scope="col">Tool</th><th scope="col">Status</th>${!isShort && html`<th scope="col">Caller</th>`}
      <th scope="col">Began</th><th scope="col" class="number">Took</th>${!isShort && html`<th scope="col">Result</th>`}</tr></thead>
    <tbody>${calls.map((call) => html`<tr key=${call.invocation_id}>
      <th scope="row"><${Link} to=${`/calls/${encodeURIComponent(call.invocation_id)}`} data-row><${Text} value=${call.tool} /><//>
        ${isShort && call.error_class && html`<div class="summary"><${Text} value=${call.summary ?? call.error_class} /></div>`}</th>
      <td><${Chip} value=${call.status} title=${call.error_class ?? undefined} /></td>
      ${!isShort && html`<td class="ellipsis"><${Text} value=${call.actor ?? "–"} /></td>`}
      <td class="when"><${Time} at=${call.began} relative=${isShort} /></td>
      <td class="number">${call.is_open ? html`<${Since} at=${call.began} />` : duration(call.duration_s)}</td>
      ${!isShort && html`<td class="result-cell"><div class="summary" title=${visible(call.summary ?? "")}><${Text}
          value=${summaryOf(call)} /></div></td>`}
    </tr>`)}</tbody></table>`;
}

function summaryOf(call) {
  if (call.canceled_by) return `canceled by ${call.canceled_by}`;
  const by = call.approvals?.length > 0 ? ` (${call.approvals.map(({ by: name, behavior }) => `${behavior} by ${name}`).join(", ")})` : "";
  return `${call.summary ?? (call.error_class ? call.error_class.replaceAll("_", " ") : "")}${by}`;
}

function Since({ at }) {
  return duration(Math.max(0, Math.floor((useNow() - Date.parse(at)) / 1000)));
}
