// The frame of every page: navigation, the number of waiting approvals, time zone and theme.
import { html, render, useEffect, useErrorBoundary } from "./html.js";
import { loginWanted } from "./api.js";
import { KeyboardHelp, openHelp, startKeyboard } from "./keyboard.js";
import { state } from "./live.js";
import { AccessPage } from "./pages/access.js";
import { ApprovalPage, ApprovalsPage, concernsApprovals } from "./pages/approvals.js";
import { CallPage } from "./pages/call.js";
import { CallsPage } from "./pages/calls.js";
import { HomePage } from "./pages/home.js";
import { LoginPage } from "./pages/login.js";
import { PolicyPage } from "./pages/policy.js";
import { SourcesPage } from "./pages/sources.js";
import { ToolPage } from "./pages/tool.js";
import { ToolsPage } from "./pages/tools.js";
import { useResource } from "./resource.js";
import { Link, path } from "./router.js";
import { isReader, me, meProblem, openSession, setTheme, showTheme, theme } from "./session.js";
import { Text } from "./text.js";
import { setZone, zone } from "./time.js";
import { Empty, Failure, Loading, Toasts } from "./widgets.js";

const PAGES = [
  ["/", "Home", HomePage], ["/approvals", "Approvals", ApprovalsPage], ["/calls", "Calls", CallsPage], ["/tools", "Tools", ToolsPage],
  ["/sources", "Sources", SourcesPage], ["/policy", "Policy", PolicyPage], ["/access", "Access", AccessPage],
];
const DETAILS = { "/approvals": ApprovalPage, "/calls": CallPage, "/tools": ToolPage };

function currentPage() {
  const [, first, ...rest] = path.value.split("/");
  const section = `/${first}`, id = rest.join("/");
  if (id && DETAILS[section]) return { section, title: PAGES.find(([to]) => to === section)[1], view: html`<${DETAILS[section]} key=${id}
      id=${decodeURIComponent(id)} />` };
  const found = PAGES.find(([to]) => to === section || (path.value === "/login" && to === "/"));
  if (!found || id) return { section: null, title: "Not found", view: html`<h1 tabindex="-1">Not found</h1>
      <${Empty} title="There is no such page"><${Link} to="/">Go to Home<//><//>` };
  return { section: found[0], title: found[1], view: html`<${found[2]} />` };
}

function App() {
  const page = currentPage();
  const waiting = useResource(isReader.value ? "/v1/approvals?limit=100" : null, { when: concernsApprovals }).data?.items.length ?? 0;
  useEffect(() => { document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${page.title} · agenttool`; }, [page.title, waiting]);
  if (loginWanted.value || (!me.value && meProblem.value)) return html`<${LoginPage} />`;
  if (!me.value) return html`<main><${Loading} /></main>`;
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header class="bar">
      <${Link} to="/" class="brand">
          <span class="logo" aria-hidden="true">✓</span> agenttool${me.value.server.is_demo && html` <span class="chip plain">demo</span>`}<//>
      <nav aria-label="pages"><ul>${PAGES.map(([to, title]) => html`<li><${Link} to=${to}
          aria-current=${to === page.section ? "page" : undefined}>${title}${to === "/approvals" && waiting > 0 && html` <span class="badge"
          aria-label=${`${waiting} waiting`}>${waiting}${waiting === 100 ? "+" : ""}</span>`}<//></li>`)}</ul></nav>
      <${Tools} />
    </header>
    <main id="main" tabindex="-1"><${Guarded} key=${path.value}>${page.view}<//></main>
    <${Toasts} /><${KeyboardHelp} />`;
}

function Tools() {
  return html`<div class="tools-bar">
    <${Connection} />
    <button type="button" class="plain" title="switch between UTC and local time"
        onClick=${() => setZone(zone.value === "utc" ? "local" : "utc")}>${zone.value === "utc" ? "UTC" : "Local time"}</button>
    <label class="plain-select"><span class="sr-only">Theme</span><select value=${theme.value} onChange=${(event) => setTheme(event.target.value)}>
      ${[["system", "Theme: system"], ["light", "Theme: light"], ["dark", "Theme: dark"]].map(([name, text]) => html`<option value=${name}
          selected=${theme.value === name}>${text}</option>`)}</select></label>
    <button type="button" class="plain" onClick=${openHelp} aria-label="keyboard shortcuts">?</button>
    <${Link} to="/access" class="who" title="who you are"><${Text} value=${me.value.subject} /><//>
  </div>`;
}

function Connection() {
  if (!isReader.value) return null;
  const isOpen = state.value === "open";
  return html`<span class="live ${isOpen ? "on" : ""}" role="status"
      title=${isOpen ? "Changes appear by themselves." : "The page asks every few seconds until the connection is back."}>${isOpen ? "live" : "reconnecting"}</span>`;
}

/** Show an error of the page itself instead of an empty page. */
function Guarded({ children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  return error ? html`<h1 tabindex="-1">This page failed</h1><${Failure} error=${error} retry=${reset} />` : children;
}

showTheme();
startKeyboard();
render(html`<${App} />`, document.getElementById("app"));
openSession();
