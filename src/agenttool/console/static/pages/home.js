// The first page: what runs, what waits, what failed, how it was in the last hour, and how to connect an agent.
import { html } from "../html.js";
import { withQuery } from "../api.js";
import { CallRows, concernsCalls } from "../call_rows.js";
import { BarPlot, LinePlot } from "../plots.js";
import { useResource } from "../resource.js";
import { Link, query, setQuery } from "../router.js";
import { SettingsNotice, useRules } from "../rules.js";
import { isReader, me } from "../session.js";
import { Text, count } from "../text.js";
import { targetOf } from "../arguments.js";
import { Countdown, duration } from "../time.js";
import { Choice, Empty, Failure, Loading, Snippet } from "../widgets.js";
import { concernsApprovals } from "./approvals.js";
import { NeedsLogin } from "./login.js";

const WINDOWS = [["3600", "1 hour"], ["21600", "6 hours"], ["86400", "1 day"], ["604800", "7 days"]];

export function HomePage() {
  return html`<h1 tabindex="-1">Home</h1>
    ${isReader.value ? html`<${Overview} />` : html`<${NeedsLogin} what="see all calls and answer approvals" />`}
    <${Connect} />`;
}

function Overview() {
  const window = query.value.get("window") ?? "3600";
  const stats = useResource(withQuery("/v1/stats", { window_s: window, buckets: 60 }), { when: concernsCalls, every: 10000, quiet: 2000 });
  return html`<${SettingsNotice} notice=${useRules().notice} />
    <div class="row spread">
      <${Now} now=${stats.data?.now} />
      <${Choice} label="time span" value=${window} options=${WINDOWS} onChange=${(name) => setQuery({ window: name === "3600" ? "" : name })} />
    </div>
    <${Waiting} />
    <${Failure} error=${stats.error} />
    ${stats.data ? html`<${Plots} stats=${stats.data} />` : html`<${Loading} rows=${2} />`}
    <div class="columns"><${Running} />${stats.data && html`<${Failed} failed=${stats.data.failures} />`}</div>`;
}

function Now({ now }) {
  if (!now) return html`<p class="now muted">…</p>`;
  return html`<p class="now"><span><b>${now.running}</b> running</span><span class=${now.waiting > 0 ? "is-waiting" : ""}>
      <b>${now.waiting}</b> waiting</span>
    ${now.planned > 0 && html`<span><b>${now.planned}</b> planned</span>`}
    ${now.deferred > 0 && html`<span><b>${now.deferred}</b> deferred</span>`}</p>`;
}

function Plots({ stats }) {
  const { buckets, totals, bucket_s: bucketSeconds, window_s: windowSeconds } = stats;
  const span = WINDOWS.find(([seconds]) => Number(seconds) === windowSeconds)?.[1] ?? duration(windowSeconds);
  const percent = (part) => (totals.calls > 0 ? `${((part / totals.calls) * 100).toFixed(part === 0 ? 0 : 1)} %` : "–");
  const shared = { buckets, bucketSeconds };
  return html`<section class="plots" aria-label="statistics">
    <${BarPlot} ...${shared} title="Calls" value=${totals.calls.toLocaleString("en")}
        sentence=${`${count(totals.calls, "call")} in the last ${span}, of which ${totals.errors} failed and ${totals.denied} were denied.`}
      series=${[{ name: "ok", tone: "good", of: (each) => Math.max(0, each.calls - each.errors - each.denied) }, { name: "denied", tone: "wait", of: (each) => each.denied }, { name: "failed", tone: "bad", of: (each) => each.errors }]} />
    <${LinePlot} ...${shared} title="Latency" value=${totals.p50_s === null ? "–" : `${duration(totals.p50_s)} median`}
        sentence=${totals.p50_s === null ? "no calls ended." : `half of the calls took at most ${duration(totals.p50_s)}, 95 of 100 at most ${duration(totals.p95_s)}, 99 of 100 at most ${duration(totals.p99_s)}.`}
      series=${[{ name: "p50", tone: "busy", of: (each) => each.p50_s }, { name: "p95", tone: "wait", of: (each) => each.p95_s }, { name: "p99", tone: "bad", of: (each) => each.p99_s }]} />
    <${BarPlot} ...${shared} title="Errors" value=${percent(totals.errors)}
        sentence=${`${count(totals.errors, "call")} failed in the last ${span}.`}
        series=${[{ name: "failed", tone: "bad", of: (each) => each.errors }]} />
    <${BarPlot} ...${shared} title="Denials" value=${totals.denied.toLocaleString("en")}
        sentence=${`${count(totals.denied, "call")} were denied in the last ${span}.`}
        series=${[{ name: "denied", tone: "wait", of: (each) => each.denied }]} />
  </section>
  ${stats.is_cut && html`<p class="muted">There were more calls than could be counted; the numbers are of the latest ones.</p>`}`;
}

function Waiting() {
  const { data } = useResource("/v1/approvals?limit=5", { when: concernsApprovals });
  if (!data || data.items.length === 0) return null;
  return html`<section class="card attention" aria-labelledby="waiting-heading">
    <h2 id="waiting-heading">Waiting for your answer</h2>
    <ul class="plain-list">${data.items.map((each) => html`<li key=${each.approval_id} class="row spread">
      <span><b><${Text} value=${each.actor ?? "A caller"} /></b> wants to run <b class="tool"><${Text} value=${each.tool_name} /></b>
        ${targetOf(each.input) !== null && html` on <b class="target"><${Text} value=${targetOf(each.input)} /></b>`}</span>
      <span class="row"><span class="muted"><${Countdown} until=${each.expires_at} /></span>
        <${Link} to=${`/approvals/${encodeURIComponent(each.approval_id)}`} class="button primary" data-row>Decide<//></span></li>`)}</ul>
  </section>`;
}

function Running() {
  const { data, error } = useResource("/v1/calls?open=true&limit=8", { when: concernsCalls, quiet: 1000 });
  return html`<section class="card" aria-labelledby="running-heading"><h2 id="running-heading">Open now</h2>
    <${Failure} error=${error} />
    ${data && (data.items.length > 0 ? html`<${CallRows}
        calls=${data.items} isShort />` : html`<p class="muted">No call is open at the moment.</p>`)}</section>`;
}

function Failed({ failed }) {
  const { data, error } = useResource(failed.length > 0 ? null : "/v1/calls?limit=60&since=24h", { when: concernsCalls, quiet: 1000 });
  const latest = (data?.items ?? []).filter((call) => !call.is_open).slice(0, 6);
  return html`<section class="card" aria-labelledby="failed-heading">
      <h2 id="failed-heading">${failed.length > 0 ? "Latest failures" : "Latest calls"}</h2>
    <${Failure} error=${error} />
    ${failed.length > 0 ? html`<${CallRows} calls=${failed} isShort />`
      : latest.length > 0 ? html`<p class="muted">No call failed in this time span.</p><${CallRows} calls=${latest} isShort />`
      : data?.items.length > 0 ? html`<p class="muted">No call has ended in the last day.</p>`
      : data && html`<${Empty} title="No calls in the last day">Connect an agent below, or try a tool on the page <${Link} to="/tools">Tools<//>.<//>`}</section>`;
}

function Connect() {
  const server = me.value?.server;
  if (!server) return null;
  const url = (server.url || location.origin).replace(/\/$/, "");
  const tool = server.is_demo ? "files.list_files" : "NAME";
  const curl = `curl -s ${url}/v1/calls \\\n  -H 'content-type: application/json' \\\n  -d '{"tool": "${tool}", "arguments": {}}'`;
  const python = `from agenttool.client import Client\n\nwith Client("${url}") as gateway:\n    print(gateway.call("${tool}", {}).text)`;
  const mcp = JSON.stringify({ mcpServers: { agenttool: { type: "http", url: server.mcp_url ?? `${url}/mcp` } } }, null, 2);
  return html`<section class="part" aria-labelledby="connect-heading"><h2 id="connect-heading">Connect your agent</h2>
    <div class="columns">
      <div class="card"><${Snippet} label="MCP client" text=${mcp} /></div>
      <div class="card"><${Snippet} label="curl" text=${curl} /><${Snippet} label="Python" text=${python} /></div>
    </div></section>`;
}
