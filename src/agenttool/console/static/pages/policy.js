// The rules in force by layer, and what they would decide for a call. Trying runs nothing and records nothing.
import { html, useEffect, useState } from "../html.js";
import { post, remove } from "../api.js";
import { Confirm } from "../dialog.js";
import { query, setQuery } from "../router.js";
import { RuleRefs, SettingsNotice, conditionsText, ruleText, useRules } from "../rules.js";
import { useResource } from "../resource.js";
import { SchemaForm } from "../schema_form.js";
import { draft, has, isReader, setDraft } from "../session.js";
import { Text, count } from "../text.js";
import { Time } from "../time.js";
import { Chip, Empty, Failure, Loading, Snippet, toast } from "../widgets.js";
import { NeedsLogin } from "./login.js";
import { startingArguments } from "./tool.js";

const LAYERS = {
  policy_settings: "Policy of the organisation", flag_settings: "Flags", cli_arg: "Command line or program", command: "Commands",
  local_settings: "Local settings", project_settings: "Project settings", user_settings: "User settings", session: "Remembered answers and session",
};

const ROLES = ["caller", "approver", "operator", "auditor"];

export function PolicyPage() {
  const rules = useRules();
  if (!isReader.value) return html`<h1 tabindex="-1">Policy</h1><${NeedsLogin} what="read the rules" />`;
  const layers = new Map();
  for (const rule of rules.items ?? []) layers.set(rule.source, [...(layers.get(rule.source) ?? []), rule]);
  return html`<h1 tabindex="-1">Policy</h1>
    <p class="lead">${rules.items ? `${count(rules.items.length, "rule")} in force, in the mode “${rules.mode}”. Of all rules that match a call, the strictest decides.` : "\u00a0"}</p>
    <${SettingsNotice} notice=${rules.notice} />
    <${TryCall} byRef=${rules.byRef} />
    <${Failure} error=${rules.error} retry=${rules.reload} />
    ${rules.isLoading && !rules.items && html`<${Loading} />`}
    ${rules.items?.length === 0 && html`<${Empty} title="No rules">Tools that read only run without a question; all others are asked about.<//>`}
    ${[...layers].map(([source, items]) => html`<section class="card table-card" key=${source} aria-label=${LAYERS[source] ?? source}>
      <h2><${Text} value=${LAYERS[source] ?? source} /></h2>
      <table class="rules"><thead class="sr-only"><tr><th scope="col">Behavior</th><th scope="col">Conditions</th><th scope="col">Place</th>
          <th scope="col">Actions</th></tr></thead>
        <tbody>${items.map((rule) => html`<${RuleRow} key=${rule.rule_ref} rule=${rule} reload=${rules.reload} />`)}</tbody></table></section>`)}`;
}

function RuleRow({ rule, reload }) {
  const [isAsking, setAsking] = useState(false);
  const forget = async () => {
    try {
      await remove(`/v1/rules/${encodeURIComponent(rule.approval_id)}`);
      toast("The rule is forgotten. Such calls are asked about again.");
      reload();
    } catch (error) {
      toast(error.message, { tone: "bad" });
    }
  };
  return html`<tr>
    <td><${Chip} value=${rule.behavior} /></td>
    <td><code class="pre-line"><${Text} value=${conditionsText(rule.conditions)} /></code>${rule.reason && html`<div class="muted">“<${Text}
        value=${rule.reason} />”</div>`}
      ${rule.expires_at && html`<div class="muted">until <${Time} at=${rule.expires_at} /></div>`}</td>
    <td class="muted"><${Text} value=${rule.place ?? rule.rule_ref} /></td>
    <td>${rule.is_remembered && rule.approval_id && has("operator", "approver") && html`<button type="button" class="small danger"
        onClick=${() => setAsking(true)}>Forget…</button>`}
      ${isAsking && html`<${Confirm} title="Forget this rule?" action="Forget the rule" onConfirm=${forget} onClose=${() => setAsking(false)}>
        <pre class="output" tabindex="0"><${Text} value=${ruleText({ behavior: rule.behavior, ...rule.conditions })} /></pre>
        <p>Calls that it matches are asked about again.</p><//>`}</td></tr>`;
}

function TryCall({ byRef }) {
  const tool = query.value.get("tool") ?? "", actor = query.value.get("actor") ?? "";
  const roles = (query.value.get("roles") ?? "").split(",").filter((each) => ROLES.includes(each));
  const key = `policy.${tool}`;
  const [name, setName] = useState(tool);
  const [input, setInput] = useState(() => draft(key) ?? null);
  const [outcome, setOutcome] = useState(null);
  const [error, setError] = useState(null);
  const { data: names } = useResource("/v1/tools?limit=200&state=loaded");
  const { data: detail, error: unknown } = useResource(tool ? `/v1/tools/${encodeURIComponent(tool)}` : null);
  const known = detail?.name === tool || detail?.tool_id === tool ? detail : null;
  const value = input ?? (known ? startingArguments(known.input_schema) : {});
  useEffect(() => { setInput(draft(key)); setOutcome(null); setName(tool); }, [tool]);
  const edit = (next) => { setInput(next ?? {}); setDraft(key, next ?? {}); };
  const run = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      setOutcome(await post("/v1/policy/try", { tool, arguments: value, ...(actor && { actor }), ...(actor && roles.length > 0 && { roles }) }));
    } catch (problem) {
      setOutcome(null);
      setError(problem);
    }
  };
  return html`<form class="card" aria-labelledby="try-heading" onSubmit=${run}>
    <h2 id="try-heading">Try a call</h2><p class="muted">It shows what the rules would decide. Nothing runs.</p>
    <div class="fields">
      <label>Tool <input list="tool-names" data-search placeholder="files.write_file" value=${name} spellcheck=${false} onInput=${(event) => setName(event.target.value)}
          onChange=${(event) => setQuery({ tool: event.target.value.trim() })} />
        <datalist id="tool-names">${(names?.items ?? []).map((each) => html`<option value=${each.name}></option>`)}</datalist></label>
      <label>Caller (optional) <input value=${actor} spellcheck=${false} placeholder="agent:billing"
          onChange=${(event) => setQuery({ actor: event.target.value.trim() })} /></label>
    </div>
    ${actor && html`<fieldset><legend>Roles of its key <span class="muted">none: not known, so rules are read at their strictest</span></legend>
      <div class="fields">${ROLES.map((role) => html`<label class="check"><input type="checkbox" checked=${roles.includes(role)} onChange=${(event) => setQuery({
        roles: ROLES.filter((each) => each === role ? event.target.checked : roles.includes(each)).join(",") })} /> <span>${role}</span></label>`)}</div></fieldset>`}
    ${tool && unknown && html`<${Failure} error=${unknown} />`}
    ${known && html`<${SchemaForm} key=${known.tool_id} schema=${known.input_schema} value=${value} errors=${outcome?.errors ?? []}
        onChange=${edit} />`}
    <div class="actions"><button type="submit" class="primary" disabled=${!known}>Try</button></div>
    <${Failure} error=${error} />
    ${outcome && html`<${Outcome} outcome=${outcome} byRef=${byRef} />`}
  </form>`;
}

function Outcome({ outcome, byRef }) {
  const rule = outcome.suggested_updates?.find((each) => each.type === "add_rule");
  return html`<div class="answer" role="status">
    <p><${Chip} value=${outcome.behavior} /> <${Text} value=${outcome.reason} /> <span class="muted">mode <${Text} value=${outcome.mode} /></span></p>
    ${outcome.rule_refs.length > 0 && html`<span class="label">Decided by</span><${RuleRefs} refs=${outcome.rule_refs} byRef=${byRef} />`}
    ${outcome.overridden_rule_refs.length > 0 && html`<span class="label">Overridden</span><${RuleRefs} refs=${outcome.overridden_rule_refs}
        byRef=${byRef} />`}
    ${rule && (rule.value ? html`<${Snippet} label="The smallest rule that would allow it" text=${rule.value} />`
      : html`<p class="muted">No rule of a settings file would allow it; an approver can allow such calls and remember the answer.</p>`)}
  </div>`;
}
