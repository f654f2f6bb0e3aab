// Who may use the server: the reader, keys and sessions.
import { html, useState } from "../html.js";
import { post, remove } from "../api.js";
import { Confirm, Dialog } from "../dialog.js";
import { useResource } from "../resource.js";
import { has, logout, me } from "../session.js";
import { Text } from "../text.js";
import { Time } from "../time.js";
import { Chip, Failure, Id, Loading, Notice, Snippet, toast } from "../widgets.js";
import { HowToLogin } from "./login.js";

const ROLES = [
  ["caller", "makes calls and sees its own"], ["approver", "reads calls and answers approvals"],
  ["operator", "manages sources, rules, keys and sessions"], ["auditor", "reads everything, changes nothing"],
];
const KINDS = { local: "a process on this machine, without a key", key: "an API key", jwt: "a token of your identity provider", session: "a session of the console" };

export function AccessPage() {
  return html`<h1 tabindex="-1">Access</h1>
    <${You} />
    ${has("operator") ? html`<${Keys} /><${Sessions} />` : html`<${Notice}>The role operator sees keys and sessions.<//>`}`;
}

function You() {
  const { subject, tenant, roles, kind, expires_at: until, server } = me.value;
  return html`<section class="card" aria-labelledby="you-heading"><h2 id="you-heading">You</h2>
    <dl class="facts row-facts">
      <div><dt>Name</dt><dd><${Text} value=${subject} /></dd></div><div><dt>Tenant</dt><dd><${Text} value=${tenant} /></dd></div>
      <div><dt>Known by</dt><dd>${KINDS[kind] ?? kind}</dd></div>
      <div><dt>Roles</dt><dd>${roles.map((role) => html`<${Chip} value=${role} tone="plain" /> `)}</dd></div>
      ${until && html`<div><dt>Until</dt><dd><${Time} at=${until} /></dd></div>`}
      <div><dt>Server</dt><dd>agenttool <${Text} value=${server.version} /></dd></div>
    </dl>
    <p class="muted">${server.approves_own_calls ? "You may approve your own calls." : "Callers may not approve their own calls."}</p>
    ${kind === "session" ? html`<button type="button" onClick=${logout}>Log out</button>` : html`<${HowToLogin} />`}
  </section>`;
}

function Keys() {
  const { data, error, isLoading, reload } = useResource("/v1/keys", { every: 15000 });
  const [isMaking, setMaking] = useState(false);
  const [asked, setAsked] = useState(null);
  const revoke = async (id) => {
    try {
      await remove(`/v1/keys/${encodeURIComponent(id)}`);
      toast("The key is revoked.");
      reload();
    } catch (problem) {
      toast(problem.message, { tone: "bad" });
    }
  };
  return html`<section class="card table-card" aria-labelledby="keys-heading">
    <header class="row spread"><h2 id="keys-heading">API keys</h2><button type="button" class="primary"
        onClick=${() => setMaking(true)}>New key…</button></header>
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !data && html`<${Loading} />`}
    ${data?.items.length === 0 && html`<p class="muted">There are no keys. A key lets an agent or a person use the server from another machine.</p>`}
    ${data?.items.length > 0 && html`<table><thead><tr><th scope="col">Name</th><th scope="col">Roles</th><th scope="col">Last used</th>
        <th scope="col">Expires</th><th scope="col">Key</th><th scope="col"><span class="sr-only">Actions</span></th></tr></thead>
      <tbody>${data.items.map((key) => html`<tr key=${key.key_id} class=${key.revoked_at ? "revoked" : ""}>
        <th scope="row"><${Text} value=${key.subject} /></th><td>${key.roles.map((role) => html`<${Chip} value=${role} tone="plain" /> `)}</td>
        <td>${key.last_used_at ? html`<${Time} at=${key.last_used_at} relative />` : html`<span class="muted">never</span>`}</td>
        <td>${key.revoked_at ? html`<${Chip} value="revoked" tone="bad" />` : key.expires_at ? html`<${Time}
            at=${key.expires_at} />` : html`<span class="muted">never</span>`}</td>
        <td><${Id} value=${key.key_id} /></td>
        <td>${!key.revoked_at && html`<button type="button" class="small danger" onClick=${() => setAsked(key)}>Revoke…</button>`}</td>
            </tr>`)}</tbody></table>`}
    ${isMaking && html`<${NewKey} onClose=${() => { setMaking(false); reload(); }} />`}
    ${asked && html`<${Confirm} title="Revoke this key?" action="Revoke the key" onConfirm=${() => revoke(asked.key_id)}
        onClose=${() => setAsked(null)}>
      <p>Programs that use the key of <b><${Text} value=${asked.subject} /></b> are refused at once.</p><//>`}
  </section>`;
}

function NewKey({ onClose }) {
  const [subject, setSubject] = useState("");
  const [roles, setRoles] = useState(["caller"]);
  const [days, setDays] = useState("90");
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    try {
      setMade(await post("/v1/keys", { subject: subject.trim(), roles, ...(days && { expires_in_s: Number(days) * 86400 }) }));
    } catch (problem) {
      setError(problem);
    }
  };
  if (made) return html`<${Dialog} title="The new key" onClose=${onClose}>
    <p>Copy the key now. It is shown once, and only its digest is stored.</p><${Snippet} label="the new key" text=${made.key} />
    <div class="actions"><button type="button" class="primary" onClick=${onClose}>Done</button></div><//>`;
  return html`<${Dialog} title="New key" onClose=${onClose}><form onSubmit=${make}>
    <label>Name of its user <input data-focus required value=${subject} placeholder="agent:billing" spellcheck=${false}
        onInput=${(event) => setSubject(event.target.value)} /></label>
    <fieldset><legend>Roles</legend>${ROLES.map(([role, what]) => html`<label class="check"><input type="checkbox" checked=${roles.includes(role)}
      onChange=${(event) => setRoles(event.target.checked ? [...roles, role] : roles.filter((each) => each !== role))} /> <span>${role} <span class="muted">${what}</span></span></label>`)}</fieldset>
    <label>Valid for <select value=${days}
        onChange=${(event) => setDays(event.target.value)}>${[["1", "1 day"], ["30", "30 days"], ["90", "90 days"], ["365", "1 year"], ["", "no limit"]].map(([value, text]) => html`<option value=${value} selected=${value === days}>${text}</option>`)}</select></label>
    <${Failure} error=${error} />
    <div class="actions"><button type="button" onClick=${onClose}>Go back</button><button type="submit" class="primary"
        disabled=${subject.trim() === "" || roles.length === 0}>Make the key</button></div>
  </form><//>`;
}

function Sessions() {
  const { data, error, reload } = useResource("/v1/sessions", { every: 15000 });
  const end = async (session) => {
    try {
      await remove(`/v1/sessions/${encodeURIComponent(session.session_id)}`);
      reload();
    } catch (problem) {
      toast(problem.message, { tone: "bad" });
    }
  };
  return html`<section class="card table-card" aria-labelledby="sessions-heading"><h2 id="sessions-heading">Sessions</h2>
    <${Failure} error=${error} />
    ${data && html`<table><thead><tr><th scope="col">Name</th><th scope="col">Roles</th><th scope="col">Since</th><th scope="col">Until</th>
        <th scope="col"><span class="sr-only">Actions</span></th></tr></thead>
      <tbody>${data.items.map((each) => html`<tr key=${each.session_id}><th scope="row"><${Text}
          value=${each.subject} /> ${each.is_current && html`<${Chip} value="this one" tone="good" />`}</th>
        <td>${each.roles.map((role) => html`<${Chip} value=${role} tone="plain" /> `)}</td><td><${Time} at=${each.created_at} relative />
            </td><td><${Time} at=${each.expires_at} /></td>
        <td>${!each.is_current && html`<button type="button" class="small danger" onClick=${() => end(each)}>End</button>`}</td>
            </tr>`)}</tbody></table>`}
  </section>`;
}
