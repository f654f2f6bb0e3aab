// The open approvals, oldest first. Answered ones stay visible with their outcome until the reader leaves.
import { html, useState } from "../html.js";
import { ApprovalCard } from "../approval_card.js";
import { useResource } from "../resource.js";
import { Link } from "../router.js";
import { useRules } from "../rules.js";
import { isReader } from "../session.js";
import { Text, count } from "../text.js";
import { Empty, Failure, Loading, Notice } from "../widgets.js";
import { NeedsLogin } from "./login.js";

/** Whether an event may open or close an approval. */
export function concernsApprovals({ event, data }) {
  const isRelevant = (type) => type.startsWith("tool.permission.") || /\.(failed|canceled|timed_out|succeeded|cancel_requested)$/.test(type);
  return event === "answer" || (event === "call" && data.types.some(isRelevant));
}

export function ApprovalsPage() {
  if (!isReader.value) return html`<h1 tabindex="-1">Approvals</h1><${NeedsLogin} what="see and answer approvals" />`;
  return html`<${OpenApprovals} />`;
}

function OpenApprovals() {
  const { data, error, isLoading, reload } = useResource("/v1/approvals?limit=100", { when: concernsApprovals });
  const { byRef } = useRules();
  const [outcomes, setOutcomes] = useState([]);
  const ended = new Set(outcomes.map(({ approval }) => approval.approval_id));
  const open = (data?.items ?? []).filter(({ approval_id: id }) => !ended.has(id));
  const answered = (outcome) => {
    setOutcomes((known) => [outcome, ...known].slice(0, 5));
    reload();
    requestAnimationFrame(() => (document.querySelector("article.approval") ?? document.querySelector("h1")).focus({ preventScroll: true }));
  };
  return html`<h1 tabindex="-1">Approvals</h1>
    <p class="lead">${data ? (open.length > 0 ? `${count(open.length, "call")}${data.next_cursor ? " or more" : ""} cannot continue without an answer.` : "No call waits for an answer.") : "\u00a0"}</p>
    <${Failure} error=${error} retry=${reload} />
    ${outcomes.length > 0 && html`<div class="outcomes">${outcomes.map((outcome) => html`<${Outcome}
        key=${outcome.approval.approval_id} ...${outcome} />`)}</div>`}
    ${isLoading && !data && html`<${Loading} />`}
    ${open.map((approval) => html`<${ApprovalCard} key=${`${approval.approval_id}${approval.shown_digest}`} approval=${approval}
        rules=${byRef} onAnswered=${answered} />`)}
    ${data && open.length === 0 && html`<${Empty} title="Nothing to decide">A call that needs an approval appears here by itself. You can leave this page open.<//>`}
    ${data?.next_cursor && html`<p class="muted">More approvals appear when these are answered.</p>`}`;
}

function Outcome({ approval, text, tone }) {
  return html`<${Notice} tone=${tone === "warn" ? "warn" : "info"} title=${text}>
    <${Text} value=${approval.tool_name} /> <${Link} to=${`/calls/${approval.invocation_id}`}>See the call<//><//>`;
}

/** One approval by its address, for links from the terminal or a message. */
export function ApprovalPage({ id }) {
  const { data, error, isLoading, reload } = useResource(isReader.value ? `/v1/approvals/${encodeURIComponent(id)}` : null, { when: concernsApprovals });
  const { byRef } = useRules();
  const [outcome, setOutcome] = useState(null);
  if (!isReader.value) return html`<h1 tabindex="-1">Approval</h1><${NeedsLogin} what="answer this approval" />`;
  const isGone = error && [404, 409, 410].includes(error.status);
  return html`<p><${Link} to="/approvals">All approvals<//></p><h1 tabindex="-1">Approval</h1>
    ${outcome ? html`<${Outcome} ...${outcome} />`
      : isGone ? html`<${Notice} title="This approval is closed">${error.answered_by ? html`It was answered by <${Text}
          value=${error.answered_by} />.` : html`<${Text} value=${error.message} />`}<//>`
      : html`<${Failure} error=${error} retry=${reload} />
        ${data ? html`<${ApprovalCard} approval=${data} rules=${byRef} onAnswered=${setOutcome} />` : isLoading && html`<${Loading} />`}`}`;
}
