"""The routes about sources, rules and statistics."""

from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import cast

from msgspec.structs import asdict

from agenttool.adapters.rap.source import RapClient
from agenttool.agent.surface_access import CallTrial
from agenttool.codec import parse_object, to_json
from agenttool.codec.moments import timestamp
from agenttool.errors import StoreError
from agenttool.history.listed_call import CallFilter, ListedCall
from agenttool.history.reader import JournalReader
from agenttool.history.statistics import DOCUMENT_KEY, DOCUMENT_KIND, CallCounts, CallStatistics
from agenttool.policy.rule_settings import rules_in
from agenttool.policy.rules import Rule
from agenttool.ports.identity import GATEWAY_ROLE
from agenttool.ports.source import LoggingSource, ReviewedSource
from agenttool.records import JsonObject, Lifecycle, RuleSource
from agenttool.runtime import Runtime
from agenttool.server.approval_routes import input_error
from agenttool.server.call_messages import summary_of
from agenttool.server.messages import (
    LogReply,
    MatchBody,
    MatchReply,
    OpenCounts,
    RuleItem,
    RuleList,
    SourceItem,
    SourceList,
    StatsBucket,
    StatsQuery,
    StatsReply,
    StatsTotals,
    TryBody,
    TryReply,
    raw,
)
from agenttool.server.problem import Problem
from agenttool.server.route import AUDITING, ApiRequest, EmptyBody, EmptyQuery, PlainRequest
from agenttool.world import SystemClock

LOG_LINES = 200
SAMPLE = 5


async def list_sources(request: PlainRequest) -> SourceList:
    """List the sources of tools with their states and faults: servers first, then the namespaces of local tools.

    `last_error` needs the role operator or auditor; for others it is null.
    """
    runtime, is_auditing = request.tenant.runtime, request.principal.has(*AUDITING)
    declarations = [each.tool.declaration for each in runtime.inspection.tools()]
    usable = (Lifecycle.AVAILABLE, Lifecycle.DEPRECATED)
    counts = Counter(each.namespace for each in declarations if each.lifecycle in usable)
    rap = runtime.sources.find(RapClient)
    items: list[SourceItem] = []
    for status in await runtime.sources.status():
        source = runtime.sources.get(status.source)
        server = source if isinstance(source, LoggingSource) else None
        withheld = () if rap is None else rap.withheld.get(status.source, ())
        items.append(
            SourceItem.of(
                status,
                name=status.source,
                kind=_kind(source, is_rap=rap is not None and server is None),
                state=status.state.value,
                since=timestamp(status.since_ns) if status.since_ns else None,
                last_error=status.fault if is_auditing else None,
                next_try_at=None if status.next_try_at_ns is None else timestamp(status.next_try_at_ns),
                tools=counts[status.source],
                withheld=[*withheld, *(sorted(source.waiting) if isinstance(source, ReviewedSource) else ())],
                protocol=server and server.protocol_version,
                has_log=server is not None,
            )
        )
    connected = {each.name for each in items}
    items += [
        SourceItem(name=name, kind="local", state="ready", tools=count)
        for name, count in sorted(counts.items())
        if name not in connected
    ]
    return SourceList(items=items)


def _kind(source: object, *, is_rap: bool) -> str | None:
    if source is None:
        return "rap" if is_rap else None
    parts = type(source).__module__.split(".")
    return parts[2] if parts[:2] == ["agenttool", "adapters"] else type(source).__name__


async def get_source_log(request: PlainRequest) -> LogReply:
    """Return the last lines of the log of a source; a source without a log has none."""
    name, runtime = request.path["name"], request.tenant.runtime
    source = runtime.sources.get(name)
    local = {each.tool.declaration.namespace for each in runtime.inspection.tools()}
    if source is None and name not in local | {each.source for each in await runtime.sources.status()}:
        raise Problem(HTTPStatus.NOT_FOUND, f"no source is named {name!r}; GET /v1/sources lists all")
    lines = source.log if isinstance(source, LoggingSource) else ()
    return LogReply(lines=[*lines[-LOG_LINES:]])


async def list_rules(request: PlainRequest) -> RuleList:
    """List the rules in force: those of settings files and programs, and those that approvers asked to remember."""
    runtime = request.tenant.runtime
    await runtime.approvals.rules()
    policy = runtime.inspection.policy
    items = [_rule_item(each) for each in sorted(policy.book, key=lambda each: each.authority)]
    return RuleList(mode=policy.mode.value, settings_notice=request.server.settings.notice, items=items)


def _rule_item(rule: Rule) -> RuleItem:
    """Return a rule with its conditions."""
    is_remembered = rule.source == RuleSource.SESSION and rule.ref.partition(":")[2].startswith("apr_")
    return RuleItem.of(
        rule,
        rule_ref=rule.ref,
        behavior=rule.behavior.value,
        source=str(rule.source),
        conditions=raw(rule.conditions),
        reason=rule.because,
        is_remembered=is_remembered,
        approval_id=rule.ref.partition(":")[2] if is_remembered else None,
    )


async def forget_rule(request: PlainRequest) -> None:
    """Revoke a rule that an approver asked to remember, in every process on the store."""
    approval_id = request.path["approval_id"].removeprefix("session:")
    if not await request.tenant.runtime.approvals.forget(approval_id):
        raise Problem(HTTPStatus.NOT_FOUND, f"no rule is remembered for {approval_id!r}; GET /v1/rules lists all")


async def try_policy(request: ApiRequest[EmptyQuery, TryBody]) -> TryReply:
    """Return what the rules would decide about a call; nothing runs, and nothing is recorded."""
    body, inspection = request.body, request.tenant.runtime.inspection
    entry = inspection.tool(body.tool)
    if entry is None:
        detail = f"no tool is named {body.tool!r}; GET /v1/tools lists all"
        raise Problem(HTTPStatus.NOT_FOUND, detail, pointer="/tool")
    arguments = parse_object(bytes(body.arguments), what="arguments")
    if body.roles and body.actor is None:
        raise Problem(HTTPStatus.BAD_REQUEST, "roles belong to an actor; name one", pointer="/actor")
    roles = None if body.roles is None else tuple(GATEWAY_ROLE + each for each in body.roles)
    return trial_reply(await inspection.decide(entry, arguments, body.actor, roles))


def trial_reply(trial: CallTrial) -> TryReply:
    """Return the decision about a call that was not made."""
    reason = trial.verdict.reason
    return TryReply(
        tool=trial.entry.qualified_name,
        behavior=trial.verdict.behavior.value,
        mode=trial.verdict.mode,
        reason=reason.message or "",
        rule_refs=[*trial.verdict.rule_refs],
        overridden_rule_refs=[*(reason.beaten_rule_refs or ())],
        suggested_updates=[raw(to_json(each)) for each in trial.suggested_updates],
        errors=[input_error(each) for each in trial.misfits],
    )


async def match_rule(request: ApiRequest[EmptyQuery, MatchBody]) -> MatchReply:
    """Return how many of the newest calls a rule would cover, and some of them."""
    members = {**parse_object(bytes(request.body.rule), what="rule"), "behavior": "allow"}
    (rule,) = rules_in([{name: value for name, value in members.items() if name not in ("settles", "name")}])
    runtime, limit = request.tenant.runtime, request.body.limit

    def read(reader: JournalReader) -> list[ListedCall]:
        found: list[ListedCall] = []
        for _, facts in reader.calls(CallFilter().facts, newest_first=True):
            found.append(ListedCall(facts))
            if len(found) == limit:
                break
        return found

    calls = await request.read(read)
    matched = [each for each in calls if _is_matched(runtime, rule, each)]
    sample = [summary_of(each) for each in matched[:SAMPLE]]
    return MatchReply(examined=len(calls), matched=len(matched), sample=sample)


def _is_matched(runtime: Runtime, rule: Rule, call: ListedCall) -> bool:
    for name in ("permission_input", "observable_input", "model_input"):
        given = call.fields.get(name)
        if isinstance(given, dict) and call.tool_id is not None:
            arguments, roles = cast("JsonObject", given), call.actor_roles
            return runtime.inspection.matches(rule, call.tool_id, arguments, call.actor, roles)
    return False


async def get_stats(request: ApiRequest[StatsQuery, EmptyBody]) -> StatsReply:
    """Return how many calls ended in each span of a window, how, and how long they took.

    `failures` are the latest calls of the window that did not succeed, at most 6 of them, the newest first.
    """
    query, until_ns, tenant = request.query, SystemClock().now_ns(), request.tenant
    span_ns = query.window_s * 1_000_000_000 // query.buckets

    def read(reader: JournalReader) -> tuple[CallStatistics, bytes | None]:
        found = tenant.counter.count(reader, until_ns=until_ns, span_ns=span_ns, spans=query.buckets)
        return found, tenant.counter.unsaved()

    found, unsaved = await request.read(read)
    if unsaved is not None and tenant.file is not None and tenant.runtime.inspection.documents is not None:
        with suppress(StoreError):  # they are counted again
            await tenant.runtime.inspection.documents.put(DOCUMENT_KIND, DOCUMENT_KEY, unsaved)
    since_ns = until_ns - span_ns * query.buckets
    return StatsReply(
        window_s=query.window_s,
        bucket_s=span_ns / 1e9,
        until=timestamp(until_ns),
        buckets=[
            StatsBucket(at=timestamp(since_ns + place * span_ns), **asdict(_totals(each)))
            for place, each in enumerate(found.spans)
        ],
        totals=_totals(found.total),
        now=OpenCounts.of(found),
        failures=[summary_of(each) for each in found.failures],
        is_cut=found.is_cut,
    )


def _totals(counts: CallCounts) -> StatsTotals:
    return StatsTotals.of(
        counts,
        p50_s=counts.percentile_s(50),
        p95_s=counts.percentile_s(95),
        p99_s=counts.percentile_s(99),
    )
