// Rules of the policy as people read them.
import { html } from "./html.js";
import { useResource } from "./resource.js";
import { isReader } from "./session.js";
import { Text } from "./text.js";
import { Chip } from "./widgets.js";

/** Return the rules in force by their ref. */
export function useRules() {
  const { data, error, isLoading, reload } = useResource(isReader.value ? "/v1/rules" : null, { when: ({ event }) => event === "answer" || event === "catalog", every: 10000 });
  const byRef = new Map((data?.items ?? []).map((rule) => [rule.rule_ref, rule]));
  return { mode: data?.mode, notice: data?.settings_notice ?? null, items: data?.items ?? null, byRef, error, isLoading, reload };
}

/** Say that changed settings files are not in force, and why. */
export function SettingsNotice({ notice }) {
  return notice && html`<p class="card attention" role="status"><b>Settings: </b><${Text} value=${notice} /></p>`;
}

/** Return a rule as the lines of the settings file; TOML has no null, so a rule with one is marked instead. */
export function ruleText(rule) {
  const heading = hasNull(rule.argument) ? "# A settings file cannot hold this rule: TOML has no null." : "[[rules]]";
  return `${heading}\n${conditionsText(rule)}`;
}

const hasNull = (value) => value === null || (typeof value === "object" && Object.values(value).some(hasNull));

const bare = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name));

function toml(value) {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (value !== null && typeof value === "object") return `{ ${Object.entries(value).map(([name, each]) => `${bare(name)} = ${toml(each)}`).join(", ")} }`;
  return JSON.stringify(value) ?? '""';
}

/** Show rules by their refs; a ref that is not in force any more is shown by its name. */
export function RuleRefs({ refs, byRef }) {
  return html`<ul class="rule-refs">${refs.map((ref) => {
    const rule = byRef.get(ref);
    return html`<li key=${ref}>${rule ? html`<${Chip} value=${rule.behavior} /> <code class="pre-line"><${Text} value=${conditionsText(rule.conditions)} /></code>
      <span class="muted"> <${Text} value=${rule.place ?? rule.source ?? ""} /></span>
      ${rule.reason && html`<div class="muted">“<${Text} value=${rule.reason} />”</div>`}`
      : html`<code><${Text} value=${ref} /></code>`}</li>`;
  })}</ul>`;
}

/** Return the conditions of a rule as lines of the settings file. */
export function conditionsText(conditions) {
  const single = (value) => (Array.isArray(value) && value.length === 1 && typeof value[0] === "string" ? value[0] : value);
  return Object.entries(conditions).filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${bare(name)} = ${toml(single(value))}`).join("\n");
}
