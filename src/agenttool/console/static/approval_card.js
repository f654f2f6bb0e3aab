// One question for the approver: what will run, with which arguments, and why it asks. The answer names the digest of what was shown.
import { html, useEffect, useId, useRef, useState } from "./html.js";
import { get, post } from "./api.js";
import { EditPanel, DenyPanel, RememberPanel } from "./approval_panels.js";
import { Arguments, targetOf } from "./arguments.js";
import { Link } from "./router.js";
import { RuleRefs } from "./rules.js";
import { draft, setDraft } from "./session.js";
import { Text, visible } from "./text.js";
import { Countdown, Time } from "./time.js";
import { Chip, Id, Notice, toast } from "./widgets.js";

const FACTS = [
  ["read_only", "reads only", "changes something", true],
  ["destructive", "destructive", "not destructive", false],
  ["open_world", "reaches the outside world", "stays inside", false],
  ["idempotent", "safe to repeat", "not safe to repeat", true],
];

/**
 * A card with one approval.
 * @param {{approval: object, rules: Map<string, object>, onAnswered: (outcome: object) => void}} props `onAnswered` gets `{approval, text, tone}`
 */
export function ApprovalCard({ approval, rules, onAnswered }) {
  const key = `${approval.approval_id}.${approval.shown_digest}`;
  const [panel, setPanel] = useState(() => draft(`${key}.panel`));
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const heading = useId(), card = useRef(null);
  const open = (name) => { setPanel(name); setDraft(`${key}.panel`, name); };

  const answer = async (body, text) => {
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      await post(`/v1/approvals/${encodeURIComponent(approval.approval_id)}`, { ...body, shown_digest: approval.shown_digest });
      for (const name of ["panel", "edit", "deny"]) setDraft(`${key}.${name}`, null);
      toast(`${text} ${visible(approval.tool_name)}.`, { link: html`<${Link} to=${`/calls/${approval.invocation_id}`}>See the call<//>` });
      onAnswered({ approval, text: `${text} by you.`, tone: body.answer === "allow" ? "good" : "bad" });
    } catch (error) {
      const ended = await endOf(error, approval);
      if (ended) onAnswered({ approval, ...ended });
      else setProblem(error);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (panel) card.current?.querySelector("[data-panel-focus]")?.focus();
  }, [panel]);

  const actor = approval.actor ?? "an unknown caller", target = targetOf(approval.input);
  return html`<article class="card approval" ref=${card} aria-labelledby=${heading} data-row tabindex="-1">
    <header>
      <h2 id=${heading}><b><${Text} value=${actor} /></b> wants to run <b class="tool"><${Text} value=${approval.tool_name} />
          </b>${target !== null && html` on <b class="target"><${Text} value=${target} /></b>`}</h2>
      <p class="meta"><${Countdown} until=${approval.expires_at} /><span>asked <${Time} at=${approval.asked_at} relative /></span></p>
    </header>
    ${approval.changed_since_approved === true && html`<${Notice} tone="warn" title="The definition changed">
      This tool is not the one that was approved before. Read its description again.<//>`}
    <div class="part" role="group" aria-label="arguments"><${Arguments} input=${approval.input} /></div>
    <div class="part" role="group" aria-label="why it asks">
      <p><strong>Why it asks:</strong> <${Text} value=${approval.reason} /></p>
      ${approval.rule_refs.length > 0 && html`<div><span class="label">Rules that ask</span><${RuleRefs} refs=${approval.rule_refs}
          byRef=${rules} /></div>`}
      ${approval.overridden_rule_refs.length > 0 && html`<div><span class="label">Rules that this overrides</span><${RuleRefs}
          refs=${approval.overridden_rule_refs} byRef=${rules} /></div>`}
      <${Risk} risk=${approval.risk} />
    </div>
    <${About} approval=${approval} />
    ${problem && html`<${Notice} tone="bad" title="Not answered"><${Text} value=${problem.message} /><//>`}
    ${approval.can_answer ? html`
      ${panel === "deny" && html`<${DenyPanel} draftKey=${`${key}.deny`} isBusy=${isBusy}
          onDeny=${(message) => answer({ answer: "deny", message: message || undefined }, "Denied")} onClose=${() => open(null)} />`}
      ${panel === "edit" && html`<${EditPanel} approval=${approval} draftKey=${`${key}.edit`} isBusy=${isBusy}
          onAllow=${(input) => answer({ answer: "allow", input }, "Allowed with other arguments:")} onClose=${() => open(null)} />`}
      ${panel === "remember" && html`<${RememberPanel} approval=${approval} isBusy=${isBusy}
          onAllow=${(remember) => answer({ answer: "allow", remember }, "Allowed, and remembered:")} onClose=${() => open(null)} />`}
      ${!panel && html`<div class="actions">
        <button type="button" class="deny" disabled=${isBusy} onClick=${() => open("deny")}>Deny…</button>
        <button type="button" disabled=${isBusy} onClick=${() => open("edit")}>Edit…</button>
        <button type="button" disabled=${isBusy} onClick=${() => open("remember")}>Remember…</button>
        <button type="button" class="allow" disabled=${isBusy} onClick=${() => answer({ answer: "allow" }, "Allowed")}>Allow once</button>
      </div>`}`
    : html`<${Notice} tone="warn" title="You cannot answer this"><${Text} value=${approval.why_not ?? "Your role does not allow it."} /><//>`}
  </article>`;
}

/** Return what became of a question that could not be answered; null if it is still open. */
async function endOf(error, approval) {
  if (error.status === 409 && error.reason === "answered") {
    const how = error.behavior ? ` (${error.behavior})` : "";
    return { text: `Already answered${how} by ${visible(error.answered_by ?? "another approver")}. Your answer was not used.`, tone: "warn" };
  }
  if (error.status === 409 && error.reason === "other_question") {
    const current = await get(`/v1/approvals/${encodeURIComponent(approval.approval_id)}`).catch(() => null);
    return current ? null : { text: "The question changed before your answer arrived. Nothing was allowed.", tone: "warn" };
  }
  if (error.status === 410 && error.reason === "expired") return { text: "It expired before your answer arrived. Nothing was allowed.", tone: "warn" };
  if (error.status === 410 || error.status === 404) return { text: "The call does not wait any more. Nothing was allowed.", tone: "warn" };
  return null;
}

/** Show the risk facts; those that the tool does not declare are marked as assumed. */
export function Risk({ risk }) {
  if (!risk) return null;
  const assumed = new Set((risk.assumed ?? []).map((name) => name.replace(/^is_/, "")));
  return html`<p class="risk"><span class="label">Risk</span>
    ${FACTS.filter(([name]) => typeof risk[name] === "boolean").map(([name, yes, no, isGoodIfTrue]) => html`<${Chip} key=${name}
      value=${`${risk[name] ? yes : no}${assumed.has(name) ? " (assumed)" : ""}`} tone=${risk[name] === isGoodIfTrue ? "plain" : "wait"}
      title=${assumed.has(name) ? "The tool does not declare this; the safe default is assumed." : "The tool declares this."} />`)}
  </p>`;
}

/** Where the tool comes from, whether its definition is the one that was approved before, and which call waits. */
function About({ approval }) {
  return html`<div class="part" role="group" aria-label="the tool and the call"><dl class="facts">
      <div><dt>Source</dt><dd><${Text} value=${approval.source ?? "unknown"} /></dd></div>
      <div><dt>Definition</dt><dd><${Id} value=${approval.declaration_digest} /> ${approval.changed_since_approved === true && html`<${Chip} value="changed since last approved" tone="wait" />`}</dd></div>
      <div><dt>Who waits</dt><dd><${Text} value=${approval.actor ?? "unknown caller"} /> in <${Link}
          to=${`/calls/${approval.invocation_id}`}>this call<//></dd></div>
    </dl>
    <details class="about"><summary>What the tool says about itself</summary>
      <p class="pre-line"><${Text} value=${approval.description} /></p>
      <p><${Link} to=${`/tools/${encodeURIComponent(approval.tool_id)}`}>The tool<//> <span class="muted">mode <${Text}
          value=${approval.mode ?? "default"} />, digest of what you see</span> <${Id} value=${approval.shown_digest} /></p>
    </details></div>`;
}
