// Parts of the page of one call: its four inputs, decisions, hooks and progress.
import { html, useState } from "./html.js";
import { JsonDifference, isSameJson } from "./difference.js";
import { JsonTree } from "./json_tree.js";
import { RuleRefs } from "./rules.js";
import { Text } from "./text.js";
import { Time, duration } from "./time.js";
import { Chip, Id } from "./widgets.js";

const STAGES = [
  ["model_input", "Sent by the caller"], ["observable_input", "Normalized"], ["permission_input", "Decided on"], ["call_input", "Received by the tool"],
];

const CHANGERS = { hook: "the hook", permission_prompt: "an approver", adapter: "the adapter", migration: "a migration", runtime: "the runtime" };

/** The four inputs: the first in full, each later one as a difference if it differs. */
export function Inputs({ invocation, mutations }) {
  const known = STAGES.filter(([name]) => invocation[name] !== undefined);
  const changes = known.slice(1).map(([name, title], index) => ({ name, title, before: known[index], value: invocation[name] }))
    .filter(({ before, value }) => !isSameJson(invocation[before[0]], value));
  if (known.length < 2) return null;
  if (changes.length === 0) return html`<p class="muted">All ${known.length} recorded inputs are the same: ${known.map(([, title]) => title.toLowerCase()).join(", ")}.</p>`;
  return html`<h3>How the arguments changed</h3>
    ${changes.map(({ name, title, before, value }) => html`<${JsonDifference} key=${name} before=${invocation[before[0]]} after=${value}
        label=${`${before[1]} → ${title}`} />`)}
    ${mutations.map((each) => html`<p class="muted"
        key=${each.mutation_id}>Changed by ${CHANGERS[each.source_type] ?? each.source_type}${each.source_type === "hook" && html` <${Text}
        value=${each.source_ref ?? ""} />`}${each.reason && html`: <${Text} value=${each.reason} />`}</p>`)}`;
}

export function Decisions({ decisions, rules }) {
  if (decisions.length === 0) return html`<p class="muted">No decision is recorded.</p>`;
  return html`<ol class="decisions">${decisions.map((each) => html`<li key=${each.decision_id}>
    <p><${Chip} value=${each.behavior} /> ${each.decided_by ? html`by <b><${Text} value=${each.decided_by} /></b>` : html`by <${Text}
        value=${each.source ?? "the rules"} />`}
      <span class="muted"> <${Time} at=${each.decided_at} />, mode <${Text} value=${each.mode ?? "default"} /></span></p>
    ${each.reason?.message && html`<p><${Text} value=${each.reason.message} /></p>`}
    ${each.accept_feedback && html`<p>“<${Text} value=${each.accept_feedback} />”</p>`}
    ${each.content_blocks?.map((block) => block.text && html`<p>“<${Text} value=${block.text} />”</p>`)}
    ${each.rule_refs?.length > 0 && html`<${RuleRefs} refs=${each.rule_refs} byRef=${rules} />`}
    ${each.reason?.beaten_rule_refs?.length > 0 && html`<p class="label">Overridden</p><${RuleRefs} refs=${each.reason.beaten_rule_refs}
        byRef=${rules} />`}
    ${each.input_digest && html`<p class="muted">for the input <${Id} value=${each.input_digest} /></p>`}
  </li>`)}</ol>`;
}

export function Hooks({ hooks }) {
  if (hooks.length === 0) return null;
  return html`<div class="card"><h2>Hooks</h2><ul class="plain-list">${hooks.map((hook) => html`<li key=${hook.hook_id}>
    <p><b><${Text} value=${hook.name ?? hook.hook_id} /></b> <span class="muted">${hook.hook_event.replaceAll("_", " ")}
      ${hook.started_at && hook.ended_at ? `, ${duration((Date.parse(hook.ended_at) - Date.parse(hook.started_at)) / 1000)}` : ""}</span></p>
    ${(hook.outputs ?? []).map((output) => html`<p><${Chip} value=${output.type} /> ${output.message && html`<${Text} value=${output.message} />`}</p>
      ${output.value !== undefined && html`<${JsonTree} value=${output.value} open=${0} />`}`)}</li>`)}</ul></div>`;
}

const SHOWN = 20;

/** Progress with a bar for the last percentage, newest first. */
export function ProgressList({ updates }) {
  const [isWhole, setWhole] = useState(false);
  if (updates.length === 0) return null;
  const newest = [...updates].sort((one, other) => other.sequence - one.sequence), last = newest.find(({ percent }) => typeof percent === "number");
  const shown = isWhole ? newest : newest.slice(0, SHOWN);
  return html`<div class="card"><h2>Progress</h2>
    ${last && html`<div class="row"><progress max="100" value=${last.percent} aria-label="progress"></progress>
        <span class="number">${Math.round(last.percent)} %</span></div>`}
    <ol class="log" reversed>${shown.map((each) => html`<li key=${each.progress_id}><span class="muted when"><${Time}
        at=${each.timestamp} relative /></span>
      <${Text} value=${each.message ?? each.current_step ?? each.status} /></li>`)}</ol>
    ${newest.length > shown.length && html`<button type="button" class="small"
        onClick=${() => setWhole(true)}>show all ${newest.length}</button>`}</div>`;
}
