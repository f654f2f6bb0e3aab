// The catalog: search, the token cost of each tool, and the reason for every absence.
import { html } from "../html.js";
import { withQuery } from "../api.js";
import { useResource } from "../resource.js";
import { Link, query, setQuery } from "../router.js";
import { Text } from "../text.js";
import { Chip, Empty, Failure, Loading } from "../widgets.js";
import { SlowInput } from "./calls.js";

const STATES = [["", "any state"], ["loaded", "loaded"], ["deferred", "deferred"], ["blocked", "blocked"], ["excluded", "excluded"], ["unoffered", "not offered"]];

export function ToolsPage() {
  const filters = { query: query.value.get("query") ?? "", state: query.value.get("state") ?? "", source: query.value.get("source") ?? "", cursor: query.value.get("cursor") ?? "" };
  const { data, error, isLoading, reload } = useResource(withQuery("/v1/tools", { ...filters, limit: 50 }), { when: ({ event }) => event === "catalog" });
  const { data: sources } = useResource("/v1/sources");
  const isFiltered = Boolean(filters.query || filters.state || filters.source);
  return html`<h1 tabindex="-1">Tools</h1>
    <form class="filters" role="search" aria-label="find tools" onSubmit=${(event) => event.preventDefault()}>
      <label class="grow">Search <${SlowInput} value=${filters.query} placeholder="what should the tool do?" isSearch
          onChange=${(value) => setQuery({ query: value, cursor: "" })} /></label>
      <label>State <select onChange=${(event) => setQuery({ state: event.target.value, cursor: "" })}>
        ${STATES.map(([name, text]) => html`<option value=${name} selected=${filters.state === name}>${text}</option>`)}</select></label>
      <label>Source <select onChange=${(event) => setQuery({ source: event.target.value, cursor: "" })}>
        <option value="" selected=${!filters.source}>any source</option>
        ${(sources?.items ?? []).map(({ name }) => html`<option value=${name} selected=${filters.source === name}>${name}</option>`)}</select></label>
    </form>
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !data && html`<${Loading} rows=${6} />`}
    ${data && data.items.length > 0 && html`<div class="card table-card ${isLoading ? "stale" : ""}"><${ToolRows} tools=${data.items} /></div>`}
    ${data && data.items.length === 0 && html`<${Empty}
        title=${isFiltered ? "No tool matches" : "No tools"}>${isFiltered ? "Try fewer words, or another state." : "Declare tools in the settings file."}<//>`}
    <p class="row">${filters.cursor && html`<button type="button" onClick=${() => setQuery({ cursor: "" })}>First page</button>`}
      ${data?.next_cursor && html`<button type="button" onClick=${() => setQuery({ cursor: data.next_cursor })}>Next page</button>`}</p>`;
}

function ToolRows({ tools }) {
  return html`<table class="tools"><caption class="sr-only">Tools</caption>
    <thead><tr><th scope="col">Tool</th><th scope="col">State</th><th scope="col">Source</th><th scope="col" class="number">
        <abbr title="what its definition costs a model">Tokens</abbr></th></tr></thead>
    <tbody>${tools.map((tool) => html`<tr key=${tool.tool_id}>
      <th scope="row"><${Link} to=${`/tools/${encodeURIComponent(tool.tool_id)}`} data-row><${Text} value=${tool.name} /><//>
        <div class="muted description"><${Text} value=${firstLine(tool.description)} /></div></th>
      <td><${Chip} value=${tool.state} /> ${tool.read_only && html`<${Chip} value="reads only" tone="plain" />`}
        ${absence(tool) && html`<div class="why-absent"><${Text} value=${absence(tool)} /></div>`}</td>
      <td><${Text} value=${tool.source} /></td><td class="number">${tool.tokens?.toLocaleString("en") ?? "–"}</td></tr>`)}</tbody></table>`;
}

/** Return why a model does not see a tool; the page of the tool says more. */
function absence({ state, why }) {
  if (state === "loaded") return null;
  return state === "deferred" ? "a model finds it by search" : why;
}

/** Return the first line of a description, cut to a length that fits a row. */
export function firstLine(text) {
  const line = String(text ?? "").split("\n")[0];
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}
