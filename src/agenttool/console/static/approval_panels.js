// The three answers of an approver that need words: deny with a message, edit the arguments, remember a rule.
import { html, useEffect, useState } from "./html.js";
import { post } from "./api.js";
import { JsonDifference, isSameJson } from "./difference.js";
import { Link } from "./router.js";
import { ruleText } from "./rules.js";
import { SchemaForm } from "./schema_form.js";
import { draft, has, setDraft } from "./session.js";
import { Text, count } from "./text.js";
import { Time } from "./time.js";
import { Failure, Notice } from "./widgets.js";

const CHECK_AFTER_MS = 300;

export function DenyPanel({ draftKey, isBusy, onDeny, onClose }) {
  const [message, setMessage] = useState(() => draft(draftKey) ?? "");
  const edit = (text) => { setMessage(text); setDraft(draftKey, text || null); };
  return html`<form class="panel" aria-label="deny" onSubmit=${(event) => { event.preventDefault(); onDeny(message.trim()); }}>
    <label>Message to the model (optional)
      <textarea data-panel-focus rows="2" value=${message} onInput=${(event) => edit(event.target.value)}
        placeholder="Say what to do instead; the model reads this."></textarea></label>
    <div class="actions"><button type="button" onClick=${onClose}>Back</button>
      <button type="submit" class="deny" disabled=${isBusy}>Deny</button></div>
  </form>`;
}

export function EditPanel({ approval, draftKey, isBusy, onAllow, onClose }) {
  const [input, setInput] = useState(() => draft(draftKey) ?? approval.input);
  const [checked, setChecked] = useState({ input: null, errors: [] });
  const [failure, setFailure] = useState(null);
  const isChanged = !isSameJson(input, approval.input), isValid = checked.input === input && checked.errors.length === 0;
  const edit = (next) => { setInput(next ?? {}); setDraft(draftKey, next ?? {}); };
  useEffect(() => {
    let isOld = false;
    const timer = setTimeout(async () => {
      try {
        const { errors } = await post(`/v1/approvals/${encodeURIComponent(approval.approval_id)}/check`, { input });
        if (!isOld) { setChecked({ input, errors }); setFailure(null); }
      } catch (error) {
        if (!isOld) setFailure(error);
      }
    }, CHECK_AFTER_MS);
    return () => { isOld = true; clearTimeout(timer); };
  }, [input]);
  return html`<div class="panel" role="group" aria-label="edit the arguments">
    <div data-panel-focus tabindex="-1"><${SchemaForm} schema=${approval.input_schema} value=${input} errors=${checked.errors}
        onChange=${edit} /></div>
    ${isChanged && html`<${JsonDifference} before=${approval.input} after=${input} label="your change" />`}
    <${Failure} error=${failure} />
    <div class="actions">
      <button type="button" onClick=${() => { setDraft(draftKey, null); onClose(); }}>Back</button>
      ${isChanged && html`<button type="button" onClick=${() => edit(approval.input)}>Undo the change</button>`}
      <span class="muted" role="status">${!isChanged ? "Nothing is changed yet." : isValid ? "The arguments are valid." : checked.input === input ? "The arguments are not valid." : "Checking…"}</span>
      <button type="button" class="allow" disabled=${isBusy || !isChanged || !isValid}
          onClick=${() => onAllow(input)}>Allow with these arguments</button>
    </div>
  </div>`;
}

const EXPIRIES = [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"], ["2592000", "30 days"], ["", "never expires"]];

/** Build the rule of the choices: exactly this call, or every call of this tool; of this actor, or of all. */
function chosenRule(suggested, approval, { breadth, isAnyActor, expiry }, now) {
  const base = suggested ?? { behavior: "allow", tool: approval.tool_name, declaration_digest: approval.declaration_digest, settles: approval.rule_refs, ...(approval.actor && { actor: approval.actor }) };
  const chosen = breadth === "exact" ? base : Object.fromEntries(Object.entries(base).filter(([name]) => ["behavior", "tool", "namespace", "actor", "declaration_digest", "settles"].includes(name)));
  const { actor, settles, ...rest } = chosen;
  return {
    ...rest,
    ...(actor && !isAnyActor && { actor }),
    ...(settles?.length > 0 && { settles }),
    ...(expiry && { expires_at: new Date(now + Number(expiry) * 1000).toISOString().replace(/\.\d+Z$/, "Z") }),
  };
}

export function RememberPanel({ approval, isBusy, onAllow, onClose }) {
  const suggested = approval.suggested_updates.find(({ type, rule }) => type === "add_rule" && rule)?.rule ?? null;
  const [choice, setChoice] = useState({ breadth: suggested ? "exact" : "tool", isAnyActor: false, expiry: "86400" });
  const [scope, setScope] = useState("store");
  const [now] = useState(() => Date.now());
  const rule = chosenRule(suggested, approval, choice, now);
  const { settles, ...shown } = rule; // the server writes this member itself
  const pick = (changes) => setChoice({ ...choice, ...changes });
  const select = (label, value, options, onChange, isFirst = false) => html`<label>${label}
    <select data-panel-focus=${isFirst || undefined} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}</select></label>`;
  return html`<div class="panel" role="group" aria-label="remember a rule">
    <p>This call runs, and calls that the rule matches are not asked about again.</p>
    <div class="fields">
      ${select("It covers", choice.breadth, [...(suggested ? [["exact", "calls like exactly this one"]] : []), ...(has("operator") || !suggested ? [["tool", "every call of this tool"]] : [])], (breadth) => pick({ breadth }), true)}
      ${approval.actor && has("operator") && select("From", choice.isAnyActor ? "any" : "this", [["this", "this caller only"], ["any", "every caller"]], (value) => pick({ isAnyActor: value === "any" }))}
      ${select("Valid for", choice.expiry, EXPIRIES, (expiry) => pick({ expiry }))}
      ${select("Where", scope, [["store", "all processes on this store"], ["session", "this process, until it ends"]], setScope)}
    </div>
    <div><span class="label">The exact rule</span><pre class="output" tabindex="0" aria-label="the exact rule"><${Text}
        value=${ruleText(shown)} /></pre></div>
    <${PastCalls} rule=${rule} />
    <div class="actions"><button type="button" onClick=${onClose}>Back</button>
      <button type="button" class="allow" disabled=${isBusy} onClick=${() => onAllow({ rule, scope })}>Allow and remember</button></div>
  </div>`;
}

/** Say how many past calls a rule would have matched. */
function PastCalls({ rule }) {
  const [found, setFound] = useState(null);
  const [failure, setFailure] = useState(null);
  const text = JSON.stringify(rule);
  useEffect(() => {
    let isOld = false;
    setFound(null);
    post("/v1/policy/matches", { rule: JSON.parse(text), limit: 1000 })
      .then((answer) => { if (!isOld) { setFound(answer); setFailure(null); } }, (error) => { if (!isOld) setFailure(error); });
    return () => { isOld = true; };
  }, [text]);
  if (failure) return html`<${Notice} tone="warn"><${Text} value=${failure.message} /><//>`;
  if (!found) return html`<p class="muted" role="status">Looking at past calls…</p>`;
  return html`<div role="status">
      <p>It matches <strong>${count(found.matched, "past call")}</strong> of the last ${found.examined.toLocaleString("en")}.</p>
    ${found.sample.length > 0 && html`<ul class="past">${found.sample.map((call) => html`<li><${Link} to=${`/calls/${call.invocation_id}`}>
        <${Text} value=${call.tool} /><//>
      <span class="muted"> <${Text} value=${call.actor ?? ""} /> <${Time} at=${call.began} relative /></span></li>`)}</ul>`}</div>`;
}
