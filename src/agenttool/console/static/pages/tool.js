// One tool: its definition and risk, and a form to try it. A try is a real call, governed as any other.
import { html, useState } from "../html.js";
import { post } from "../api.js";
import { Risk } from "../approval_card.js";
import { JsonTree } from "../json_tree.js";
import { useResource } from "../resource.js";
import { ResultView } from "../result_view.js";
import { Link } from "../router.js";
import { SchemaForm, resolved, start } from "../schema_form.js";
import { draft, has, setDraft } from "../session.js";
import { Text } from "../text.js";
import { Chip, Failure, Id, Loading, Notice } from "../widgets.js";

export function ToolPage({ id }) {
  const { data: tool, error, isLoading, reload } = useResource(`/v1/tools/${encodeURIComponent(id)}`, { when: ({ event }) => event === "catalog" });
  return html`<p><${Link} to="/tools">All tools<//></p>
    ${!tool && html`<h1 tabindex="-1">Tool</h1>`}
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !tool && html`<${Loading} />`}
    ${tool && html`<h1 tabindex="-1"><${Text} value=${tool.name} /> <${Chip} value=${tool.state} /></h1>
      <p class="lead pre-line"><${Text} value=${tool.description} /></p>
      <${Risk} risk=${tool.risk} />
      ${tool.state !== "loaded" && tool.why && html`<${Notice} title=${`Why it is ${tool.state}`}><${Text}
          value=${tool.why} /> ${tool.would_change && html`<${Text} value=${tool.would_change} />`}<//>`}
      <dl class="facts row-facts">
        <div><dt>Source</dt><dd><${Text} value=${tool.source} /></dd></div>
        <div><dt>Tokens</dt><dd>${tool.tokens?.toLocaleString("en") ?? "–"}</dd></div>
        <div><dt>Lifecycle</dt><dd><${Text} value=${tool.lifecycle} /></dd></div>
        ${tool.digest && html`<div><dt>Definition</dt><dd><${Id} value=${tool.digest} /></dd></div>`}
      </dl>
      ${has("caller") ? html`<${Try} key=${tool.tool_id} tool=${tool} />` : html`<${Notice}>Your role cannot make calls.<//>`}
      <details class="card"><summary>Input schema</summary><${JsonTree} value=${tool.input_schema} open=${3} /></details>
      <details class="card"><summary>Declaration, interface and profiles</summary>
        <${JsonTree} value=${{ declaration: tool.declaration, interface: tool.interface, execution_profile: tool.execution_profile, permission_profile: tool.permission_profile }} open=${1} /></details>
      <p><${Link} to=${`/calls?tool=${encodeURIComponent(tool.name)}`}>Calls of this tool<//> · <${Link}
          to=${`/policy?tool=${encodeURIComponent(tool.name)}`}>Try its rules<//></p>`}`;
}

/** Return arguments with the required members, so that the form shows what is needed. */
export function startingArguments(schema) {
  const names = Array.isArray(schema?.required) ? schema.required : [];
  return Object.fromEntries(names.map((name) => [name, start(resolved(schema.properties?.[name] ?? {}, schema))]));
}

function Try({ tool }) {
  const key = `try.${tool.tool_id}`;
  const [input, setInput] = useState(() => draft(key) ?? startingArguments(tool.input_schema));
  const [call, setCall] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const edit = (next) => { setInput(next ?? {}); setDraft(key, next ?? {}); };
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setCall(null);
    try {
      setCall(await post("/v1/calls", { tool: tool.name, arguments: input }));
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const errors = error?.pointer?.startsWith("/arguments") ? [{ pointer: error.pointer.slice("/arguments".length), message: error.message }] : [];
  return html`<form class="card" aria-labelledby="try-heading" onSubmit=${run}>
    <h2 id="try-heading">Try it</h2>
    <p class="muted">This makes a real call as you. Rules and approvals apply.</p>
    <${SchemaForm} schema=${tool.input_schema} value=${input} errors=${errors} onChange=${edit} />
    <div class="actions"><button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Running…" : "Call the tool"}</button></div>
    ${errors.length === 0 && html`<${Failure} error=${error} />`}
    ${call && html`<${Answer} call=${call} />`}
  </form>`;
}

/** The call that was made: its result, or that it waits; events update it. */
function Answer({ call: first }) {
  const { data } = useResource(first.result ? null : `/v1/calls/${encodeURIComponent(first.invocation_id)}`, {
    when: ({ event, data: { invocation_id: changed } }) => event === "answer" || (event === "call" && changed === first.invocation_id), every: 2000,
  });
  const call = data ?? first;
  return html`<div class="answer" role="status"><p><${Chip} value=${call.status} /> <${Link}
      to=${`/calls/${encodeURIComponent(call.invocation_id)}`}>See the call<//></p>
    ${!call.result && call.approval_id && html`<${Notice} tone="warn" title="It waits for an answer"><${Link}
        to=${`/approvals/${encodeURIComponent(call.approval_id)}`} class="button">Decide<//><//>`}
    ${call.result && html`<${ResultView} call=${call} />`}</div>`;
}
