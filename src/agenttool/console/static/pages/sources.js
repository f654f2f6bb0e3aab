// Where tools come from: health, last error, log.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { useResource } from "../resource.js";
import { Link, query, setQuery } from "../router.js";
import { has } from "../session.js";
import { Text, count } from "../text.js";
import { Time } from "../time.js";
import { Chip, Empty, Failure, Loading } from "../widgets.js";

export function SourcesPage() {
  const { data, error, isLoading, reload } = useResource("/v1/sources", { when: ({ event }) => event === "catalog", every: 5000 });
  const wanted = query.value.get("state");
  const items = (data?.items ?? []).filter(({ state }) => !wanted || (wanted === "ready") === (state === "ready"));
  const ill = (data?.items ?? []).filter(({ state }) => state !== "ready").length;
  const isAllLocal = data?.items.every(({ kind }) => kind === "local") ?? false;
  return html`<h1 tabindex="-1">Sources</h1>
    <p class="lead">${data?.items.length > 0 ? `${count(data.items.length, "source")}, ${ill === 0 ? "all ready" : `${ill} not ready`}.` : ""}
      ${(ill > 0 || wanted) && html` <button type="button" class="small"
          onClick=${() => setQuery({ state: wanted ? "" : "not-ready" })}>${wanted ? "show all" : "show only those"}</button>`}</p>
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !data && html`<${Loading} />`}
    <div class="columns">${items.map((source) => html`<${Source} key=${source.name} source=${source} />`)}</div>
    ${isAllLocal && html`<${Empty} title="No servers are connected">Add one with <code>agenttool sources add NAME -- COMMAND</code> or <code>agenttool sources add openapi FILE-OR-URL</code>,
        or import those of your MCP client with <code>agenttool import</code>.<//>`}`;
}

function Source({ source }) {
  return html`<section class="card source" aria-label=${source.name} data-row tabindex="-1">
    <header class="row spread"><h2><${Text} value=${source.name} /></h2><${Chip} value=${source.state} /></header>
    <dl class="facts">
      <div><dt>Kind</dt><dd>${source.kind === "local" ? "functions of this process" : html`<${Text} value=${source.kind ?? "unknown"} />`}${source.protocol && html` <span class="muted"><${Text}
          value=${source.protocol} /></span>`}</dd></div>
      <div><dt>Tools</dt><dd><${Link} to=${`/tools?source=${encodeURIComponent(source.name)}`}>${source.tools.toLocaleString("en")}<//></dd></div>
      ${source.since && html`<div><dt>Since</dt><dd><${Time} at=${source.since} relative /></dd></div>`}
      ${source.state !== "ready" && html`<div><dt>Tries</dt><dd>${source.tries}</dd></div>`}
      ${source.next_try_at && html`<div><dt>Next try</dt><dd><${Time} at=${source.next_try_at} /></dd></div>`}
    </dl>
    ${source.last_error && html`<div><span class="label">Last error</span><pre class="output" tabindex="0" aria-label="last error"><${Text}
        value=${source.last_error} /></pre></div>`}
    ${source.withheld.length > 0 && html`<details><summary>${count(source.withheld.length, "tool is", "tools are")} withheld</summary>
        <ul>${source.withheld.map((each) => html`<li><${Text} value=${each} /></li>`)}</ul></details>`}
    ${source.has_log && has("operator", "auditor") && html`<${Log} name=${source.name} />`}
  </section>`;
}

function Log({ name }) {
  const [lines, setLines] = useState(null);
  const [error, setError] = useState(null);
  const load = () => get(`/v1/sources/${encodeURIComponent(name)}/log`).then(({ lines: found }) => setLines(found), setError);
  return html`<details onToggle=${(event) => { if (event.target.open) load(); }}><summary>Log</summary>
    <${Failure} error=${error} />
    ${lines && (lines.length > 0 ? html`<pre class="output" tabindex="0" aria-label="log"><${Text} value=${lines.join("\n")} /></pre>
      <button type="button" class="small" onClick=${load}>Load again</button>` : html`<p class="muted">It has written nothing.</p>`)}</details>`;
}
