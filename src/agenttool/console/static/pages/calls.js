// All calls, newest first. The filters are in the address.
import { html, useEffect, useState } from "../html.js";
import { get, withQuery } from "../api.js";
import { CallRows, concernsCalls } from "../call_rows.js";
import { useResource } from "../resource.js";
import { query, setQuery } from "../router.js";
import { isReader } from "../session.js";
import { STATUSES, wordsOf } from "../statuses.js";
import { Empty, Failure, Loading, Notice } from "../widgets.js";

const SPANS = [["", "any time"], ["1h", "last hour"], ["24h", "last day"], ["7d", "last 7 days"], ["30d", "last 30 days"]];
const FILTERS = ["status", "tool", "actor", "since", "containing", "open"];

export function CallsPage() {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.value.get(name) ?? ""]));
  const address = withQuery("/v1/calls", { ...filters, limit: 50 });
  const { data, error, isLoading, reload } = useResource(address, { when: concernsCalls, quiet: 1000 });
  const isFiltered = Object.values(filters).some(Boolean);
  return html`<h1 tabindex="-1">Calls</h1>
    ${!isReader.value && html`<${Notice}>You see only your own calls.<//>`}
    <${Filters} filters=${filters} isFiltered=${isFiltered} />
    <${Failure} error=${error} retry=${reload} />
    ${isLoading && !data && html`<${Loading} rows=${6} />`}
    ${data && data.items.length > 0 && html`<div class="card table-card ${isLoading ? "stale" : ""}"><${CallRows} calls=${data.items} /></div>
      <${More} key=${address} address=${address} cursor=${data.next_cursor} />`}
    ${data && data.items.length === 0 && html`<${Empty} title=${isFiltered ? "No call matches" : "No calls yet"}>
      ${isFiltered ? html`<button type="button"
          onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Remove the filters</button>` : "Calls of agents appear here by themselves."}<//>`}`;
}

function Filters({ filters, isFiltered }) {
  const field = (name, label, placeholder, isSearch = false) => html`<label>${label}
    <${SlowInput} value=${filters[name]} placeholder=${placeholder} isSearch=${isSearch}
        onChange=${(value) => setQuery({ [name]: value })} /></label>`;
  return html`<form class="filters" role="search" aria-label="filter calls" onSubmit=${(event) => event.preventDefault()}>
    ${field("containing", "Text", "in arguments or result", true)}
    <label>Status <select value=${filters.status} onChange=${(event) => setQuery({ status: event.target.value })}>
      <option value="">any</option>${Object.keys(STATUSES).map((name) => html`<option value=${name}
          selected=${filters.status === name}>${wordsOf(name)}</option>`)}</select></label>
    ${field("tool", "Tool", "files.*")}
    ${field("actor", "Caller", "agent:*")}
    <label>Time <select value=${filters.since} onChange=${(event) => setQuery({ since: event.target.value })}>
      ${SPANS.map(([value, text]) => html`<option value=${value} selected=${filters.since === value}>${text}</option>`)}</select></label>
    <label class="check"><input type="checkbox" checked=${filters.open === "true"}
        onChange=${(event) => setQuery({ open: event.target.checked ? "true" : "" })} /> Open only</label>
    ${isFiltered && html`<button type="button" class="small"
        onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Clear</button>`}
  </form>`;
}

/** A field that changes the address a moment after the last key. */
export function SlowInput({ value, placeholder, isSearch, onChange }) {
  const [text, setText] = useState(value);
  useEffect(() => { setText(value); }, [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => onChange(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input type="search" value=${text} placeholder=${placeholder} data-search=${isSearch || undefined}
      onInput=${(event) => setText(event.target.value)} />`;
}

/** Older pages, loaded on request. */
function More({ address, cursor }) {
  const [pages, setPages] = useState({ items: [], next: cursor, isBusy: false, error: null });
  const next = pages.items.length === 0 ? cursor : pages.next;
  const load = async () => {
    setPages({ ...pages, isBusy: true, error: null });
    try {
      const { items, next_cursor: after } = await get(`${address}&cursor=${encodeURIComponent(next)}`);
      setPages({ items: [...pages.items, ...items], next: after, isBusy: false, error: null });
    } catch (error) {
      setPages({ ...pages, isBusy: false, error });
    }
  };
  return html`${pages.items.length > 0 && html`<div class="card table-card"><${CallRows} calls=${pages.items} /></div>`}
    <${Failure} error=${pages.error} />
    ${next && html`<p><button type="button" disabled=${pages.isBusy} onClick=${load}>Show older calls</button></p>`}`;
}
