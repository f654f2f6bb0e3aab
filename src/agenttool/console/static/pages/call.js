// One call: what was asked, what was decided, what ran, and what came back.
import { html, useState } from "../html.js";
import { post } from "../api.js";
import { Arguments } from "../arguments.js";
import { Decisions, Hooks, Inputs, ProgressList } from "../call_records.js";
import { ResultView } from "../result_view.js";
import { Confirm } from "../dialog.js";
import { useResource } from "../resource.js";
import { Link } from "../router.js";
import { useRules } from "../rules.js";
import { Text } from "../text.js";
import { Time, duration, moment } from "../time.js";
import { Waterfall } from "../waterfall.js";
import { Chip, Failure, Id, Loading, Notice, toast } from "../widgets.js";
import { JsonTree } from "../json_tree.js";

export function CallPage({ id }) {
  const { data, error, isLoading, reload } = useResource(`/v1/calls/${encodeURIComponent(id)}`, {
    when: ({ event, data: { invocation_id: changed } }) => event === "answer" || (event === "call" && changed === id),
  });
  return html`<p><${Link} to="/calls">All calls<//></p>
    ${!data && html`<h1 tabindex="-1">Call</h1>`}
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !data && html`<${Loading} rows=${6} />`}
    ${data && html`<${Detail} call=${data} reload=${reload} />`}`;
}

function Detail({ call, reload }) {
  const { invocation, records } = call;
  const of = (type) => records.filter((record) => record.record_type === type);
  const { byRef } = useRules();
  return html`<header class="row spread">
      <h1 tabindex="-1"><${Text} value=${call.tool} /> <${Chip} value=${call.status} /></h1>
      ${call.is_open && html`<${Cancel} id=${call.invocation_id} reload=${reload} />`}
    </header>
    <dl class="facts row-facts">
      <div><dt>Caller</dt><dd><${Text} value=${invocation.actor_ref ?? "unknown"} /></dd></div>
      <div><dt>Began</dt><dd><${Time} at=${call.began} /></dd></div>
      <div><dt>Took</dt><dd>${call.is_open ? "still open" : duration(call.duration_s)}</dd></div>
      <div><dt>Id</dt><dd><${Id} value=${call.invocation_id} length=${16} /></dd></div>
      ${invocation.parent_invocation_id && html`<div><dt>Made by</dt><dd><${Link}
          to=${`/calls/${invocation.parent_invocation_id}`}>another call<//></dd></div>`}
      ${call.process && html`<div><dt>Process</dt><dd><${Text} value=${call.process} /></dd></div>`}
    </dl>
    ${call.approval_id && call.is_open && call.status === "awaiting_approval" && html`<${Notice} tone="warn" title="This call waits for an answer">
      <${Link} to=${`/approvals/${encodeURIComponent(call.approval_id)}`} class="button primary">Decide<//><//>`}
    ${call.notice && html`<${Notice} tone="warn" title="This call does not continue by itself"><p><${Text} value=${call.notice} /></p><//>`}
    ${call.is_open && call.status === "planned" && html`<${Dependencies} ids=${invocation.depends_on ?? []} />`}
    <div class="card"><h2>Result</h2><${ResultView} call=${call} isPending=${call.is_open} /></div>
    <div class="card"><h2>Phases</h2><${Waterfall} phases=${call.phases} isOpen=${call.is_open} isDependent=${invocation.depends_on?.length > 0} /></div>
    <div class="card"><h2>Arguments</h2><${Arguments}
        input=${invocation.call_input ?? invocation.permission_input ?? invocation.observable_input ?? invocation.model_input ?? null} />
      <${Inputs} invocation=${invocation} mutations=${of("tool_input_mutation")} /></div>
    <div class="card"><h2>Decision</h2><${Decisions} decisions=${of("tool_permission_decision")} rules=${byRef} /></div>
    <${Hooks} hooks=${of("tool_hook")} />
    <${ProgressList} updates=${of("tool_progress")} />
    ${call.traceback && html`<details class="card"><summary>Traceback</summary><pre class="output" tabindex="0" aria-label="traceback">
        <${Text} value=${call.traceback} /></pre></details>`}
    ${call.children.length > 0 && html`<div class="card"><h2>Calls that it made</h2><ul>${call.children.map((id) => html`<li><${Link}
        to=${`/calls/${id}`}><${Text} value=${id} /><//></li>`)}</ul></div>`}
    <${Events} events=${call.events} />
    <details class="card"><summary>All records as JSON</summary><${JsonTree} value=${{ invocation, records }} open=${1} /></details>`;
}

function Dependencies({ ids }) {
  return html`<${Notice} title=${ids.length > 0 ? "This call starts once these calls have succeeded" : "This call waits for other calls of its batch"}>
    ${ids.length > 0 && html`<ul class="plain-list">${ids.map((id) => html`<${Dependency} key=${id} id=${id} />`)}</ul>`}<//>`;
}

function Dependency({ id }) {
  const { data } = useResource(`/v1/calls/${encodeURIComponent(id)}`, { when: ({ event, data: { invocation_id: changed } }) => event === "call" && changed === id });
  return html`<li><${Link} to=${`/calls/${encodeURIComponent(id)}`}><${Text} value=${data?.tool ?? id} /><//> ${data && html`<${Chip}
      value=${data.status} />`}</li>`;
}

function Cancel({ id, reload }) {
  const [isAsking, setAsking] = useState(false);
  const cancel = async () => {
    try {
      const { accepted } = await post(`/v1/calls/${encodeURIComponent(id)}/cancel`);
      toast(accepted ? "The cancellation was requested." : "The call has ended already.", { tone: "info" });
      reload();
    } catch (error) {
      toast(error.message, { tone: "bad" });
    }
  };
  return html`<button type="button" class="danger" onClick=${() => setAsking(true)}>Cancel the call</button>
    ${isAsking && html`<${Confirm} title="Cancel this call?" action="Cancel the call" onConfirm=${cancel} onClose=${() => setAsking(false)}>
      <p>What the tool has done so far is not undone.</p><//>`}`;
}

function Events({ events }) {
  return html`<details class="card"><summary>Events (${events.length})</summary>
    <table class="events"><thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Data</th></tr></thead><tbody>
      ${events.map((event) => html`<tr key=${event.event_id}><td class="when">${moment(event.time, { withDate: false, withMillis: true })}</td>
        <td><${Text} value=${event.event_type.replace(/^tool\./, "")} /></td>
        <td><code><${Text} value=${event.data ? JSON.stringify(event.data) : ""} /></code></td></tr>`)}</tbody></table></details>`;
}
