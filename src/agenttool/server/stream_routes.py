"""The routes that observe a server: events, health, status and metrics."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import cast

from msgspec import Raw
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.source import RapClient
from agenttool.errors import StoreError
from agenttool.history.listed_call import CallFilter, open_matches
from agenttool.ports.deferred import Thread
from agenttool.ports.quota import CallerQuota
from agenttool.records import InvocationStatus, Json, JsonObject
from agenttool.runtime import Runtime
from agenttool.server.event_hub import CHECK_S, HEARTBEAT_S, encode
from agenttool.server.messages import EventQuery, raw
from agenttool.server.route import AUDITING, READERS, ApiRequest, EmptyBody, PlainRequest

MAX_LISTED = 1000
"""The maximum number of entries in each list of the status."""

# `/healthz` is open to every client, so its messages name no path of this machine.
_UNREADABLE = "the store cannot be read; /v1/status says why"
_UNUSABLE = "the store cannot be used; /v1/status says why"


async def stream_events(request: ApiRequest[EventQuery, EmptyBody]) -> Response:
    """Follow the events of all processes on the store, as server-sent events with ids and summaries only.

    A caller gets the events of its own calls, and nothing else.

    `Last-Event-ID` or `after` continues after a position; `reset` says that this is not possible, so that the client
    must read everything again. The stream ends with `closed` when the credentials are revoked or the server stops.
    """
    server, identity = request.server, request.identity
    principal = identity.principal
    owner = f"{principal.tenant} {principal.subject} {'' if identity.grant is None else identity.grant.grant_id}"
    server.streams.check(owner)
    last = request.headers.get("last-event-id")
    actor = None if principal.has(*READERS) else principal.subject
    events = request.tenant.events.stream(_position(last) if last else request.query.after, actor)

    async def body() -> AsyncGenerator[bytes]:
        sent_at = checked_at = time.monotonic()
        async with aclosing(events) as pieces:
            async for piece in pieces:
                now = time.monotonic()
                if now - checked_at >= CHECK_S:
                    checked_at = now
                    if not await server.authenticator.is_still_valid(identity):
                        yield encode("closed", {"reason": "revoked"})
                        return
                if piece or now - sent_at >= HEARTBEAT_S:
                    sent_at = now
                    yield piece or b": still there\n\n"

    return _EventStream(body(), server.streams, owner)


def _position(last: str) -> int:
    """Return the position in `Last-Event-ID`; -1, which is before the first one, for anything else."""
    is_position = last.isascii() and last.isdigit() and len(last) < 19  # noqa: PLR2004 -- fits in 64 bits
    return int(last) if is_position else -1


class _EventStream(StreamingResponse):
    """An event stream that is counted from its acceptance to its end."""

    def __init__(self, body: AsyncGenerator[bytes], quota: CallerQuota, owner: str) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
        super().__init__(body, headers=headers, media_type="text/event-stream")
        self._quota, self._owner = quota, owner
        quota.add(owner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._quota.remove(self._owner)


async def get_health(request: PlainRequest) -> Response:
    """Return `ok` as text, or 503 if the store cannot be read or written. Every client may ask."""
    runtime = request.tenant.runtime
    try:
        await runtime.deferred.list(limit=1)
    except StoreError:
        return PlainTextResponse(_UNREADABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    if runtime.inspection.store_fault is not None:
        return PlainTextResponse(_UNUSABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    return PlainTextResponse("ok")


async def get_metrics(request: PlainRequest) -> Response:
    """Return counters in the text format of Prometheus; a scraper uses the key of an auditor.

    The responses are those of the whole server, the other figures those of the tenant.
    """
    counts = request.server.counts
    lines = ["# TYPE agenttool_http_responses_total counter"]
    lines += [f'agenttool_http_responses_total{{status="{each}"}} {counts[each]}' for each in sorted(counts)]
    runtime = request.tenant.runtime
    gauges = {
        "agenttool_open_calls": len(runtime.calls.open_ids()),
        "agenttool_waiting_approvals": len(await runtime.approvals.list(limit=MAX_LISTED)),
        "agenttool_event_streams": request.tenant.events.streams,
        "agenttool_journal_position": request.tenant.events.position,
    }
    for name, value in gauges.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def get_status(request: PlainRequest) -> Raw:
    """Return whether the server is healthy, and what is waiting, without arguments, texts and URLs.

    A caller or approver gets the first three members, of its own calls. The others need the role operator or auditor,
    for which all members are those of the tenant.

    | Member | Meaning |
    | --- | --- |
    | `is_healthy` | whether the store can be read and written |
    | `open_calls` | how many calls have not ended; null while the store cannot be read |
    | `approvals` | how many of them wait for an approval; null while the store cannot be read |
    | `settings_fault` | why the changed settings files are not in force; null if they are |
    | `settings_need_restart` | the changed settings that only a restart applies |
    | `store_fault` | why the store cannot be used; null if it can |
    | `waiting` | the calls that wait for a deferred result |
    | `prompts` | the open prompts of these calls |
    | `unsettled` | the calls that have a result, but whose tool no process has |
    | `sources` | `name`, `state`, `since_ns`, `last_error`, `tries`, `next_try_at_ns`, `withheld` of each server |
    | `subscriptions`, `views` | the open subscriptions and views of RAP tools |
    | `faults` | the latest faults of RAP servers |
    | `more` | the lists that are longer than 1,000 entries and were cut |
    """
    tenant, settings, is_auditing = request.tenant, request.server.settings, request.principal.has(*AUDITING)
    wanted = CallFilter(is_open=True, owner=None if is_auditing else request.principal.subject)
    page: JsonObject = {"is_healthy": False, "open_calls": None, "approvals": None}
    with suppress(StoreError):
        calls = await request.read(lambda reader: open_matches(reader, wanted))
        asked = sum(each.status is InvocationStatus.AWAITING_APPROVAL for each in calls)
        page = {
            "is_healthy": tenant.runtime.inspection.store_fault is None,
            "open_calls": len(calls),
            "approvals": asked,
        }
    if is_auditing:
        page |= {"settings_fault": settings.fault, "settings_need_restart": [*settings.needs_restart]}
        page |= await status_of(tenant.runtime)
    return raw(page)


async def status_of(runtime: Runtime) -> JsonObject:
    """Return the members of the status that need the role operator or auditor."""
    waiting = await runtime.deferred.list(limit=MAX_LISTED + 1)
    prompts = await runtime.prompts.list(limit=MAX_LISTED + 1)
    approvals = await runtime.approvals.list(limit=MAX_LISTED + 1)
    listed = {"waiting": waiting, "prompts": prompts, "approvals": approvals}
    page: JsonObject = {
        "store_fault": runtime.inspection.store_fault,
        "waiting": [
            _members(each, "invocation_id", "tool_id", "is_sent", "expires_at_ns", thread=each.thread)
            for each in waiting[:MAX_LISTED]
        ],
        "prompts": [_members(each, "prompt_id", "invocation_id", "kind") for each in prompts[:MAX_LISTED]],
        "approvals": min(len(approvals), MAX_LISTED),
        "more": [name for name, entries in listed.items() if len(entries) > MAX_LISTED],
    }
    rap = runtime.sources.find(RapClient)
    withheld: Mapping[str, tuple[str, ...]] = {} if rap is None else rap.withheld
    page["sources"] = [
        {
            "name": each.source,
            **_members(each, "state", "since_ns", "tries", "next_try_at_ns"),
            "last_error": each.fault,
            "withheld": [*withheld.get(each.source, ())],
        }
        for each in await runtime.sources.status()
    ]
    if rap is None:
        return {**page, "unsettled": [], "subscriptions": [], "views": [], "faults": []}
    page["unsettled"] = [
        {**_members(each, "invocation_id", "tool_id", thread=each.thread), "awaits": rap.awaits(each.tool_id)}
        for each in await runtime.deferred.unsettled(limit=MAX_LISTED)
    ]
    page["subscriptions"] = [
        _members(each, "tool_call_id", "source", "name", thread=each.thread)
        for each in await rap.subscriptions.of(limit=MAX_LISTED)
    ]
    page["views"] = [
        {"thread_id": thread_id, "view_type": view_type}
        for thread_id, view_type in await rap.views.names(limit=MAX_LISTED)
    ]
    page["faults"] = [*rap.faults]
    return page


def _members(record: object, *names: str, thread: Thread | None = None) -> JsonObject:
    """Return some attributes of a record, and the id of its thread."""
    found = {name: cast("Json", getattr(record, name)) for name in names}
    return found if thread is None else {**found, "thread_id": thread.thread_id}
