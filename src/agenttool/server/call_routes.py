"""The routes about calls: make, list, read and cancel them, and read their stored output."""

import asyncio
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus

from starlette.responses import Response

from agenttool.agent.call_access import CallHandle
from agenttool.call.checkpoint import NOT_STORED, UNAVAILABLE
from agenttool.errors import ConfigError, StoreError
from agenttool.history.listed_call import (
    CallFilter,
    CallPage,
    check_status,
    page_of_calls,
    parse_time,
    tool_name,
)
from agenttool.history.reader import JournalReader
from agenttool.history.recorded_call import RecordedCall, read_call
from agenttool.journal.projection import invocation_of, records_of, result_in
from agenttool.policy.approvals import Approver, Question
from agenttool.ports.calls import ToolCall
from agenttool.ports.identity import Principal
from agenttool.ports.stores import LeaseLost
from agenttool.records import (
    INVOCATION,
    AbortReason,
    Digest,
    InvocationId,
    InvocationStatus,
    OrderingPolicy,
    Record,
    SchedulerPolicy,
    SchedulerPolicyId,
    SiblingFailurePolicy,
    ToolInvocation,
    ToolSurface,
)
from agenttool.results.payloads import OCTETS, valid_media_type
from agenttool.server.call_messages import detail_of, state_of, stored_refs, summary_of
from agenttool.server.messages import (
    BatchBody,
    BatchReply,
    CallBody,
    CallDetail,
    CallList,
    CallListQuery,
    CallQuery,
    CallReply,
    CancelReply,
)
from agenttool.server.problem import Problem, parse_cursor
from agenttool.server.route import READERS, ApiRequest, EmptyBody, PlainRequest, Reply
from agenttool.server.tenants import Tenant

DEFAULT_WAIT_S = 20.0
"""How long a request waits for its call without the parameter `wait`."""

MIN_WAIT_S = 0.05
"""How long a request waits at least, so that it returns the result of most calls that end at once."""

RECORD_S = 20.0
"""How long a request waits until its call is recorded, whatever its parameter `wait` is."""

_BATCH_POLICY = SchedulerPolicy(
    scheduler_policy_id=SchedulerPolicyId("sched_http"),
    ordering_policy=OrderingPolicy.ALLOW_UNORDERED,
    sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT,
)
"""No call waits for the results of others, because clients read each result by its call."""

_MAY_RUN = "it may be recorded and run: send it again with the same Idempotency-Key, or look for it with GET /v1/calls"
_NOT_WRITTEN = "the call may have ended since: its end is recorded once the store can be written"
_NOT_RECORDED = f"the call was not recorded in time; {_MAY_RUN}"
_NO_BATCH_KEY = "a batch has no idempotency key; leave the header out, or make each call with a key by POST /v1/calls"
_RANGE = re.compile(r"bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))", re.ASCII)
_MAX_RANGE = 16_000_000
_PAYLOAD_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "private, max-age=3600",
    "accept-ranges": "bytes",
}


async def make_call(request: ApiRequest[CallQuery, CallBody]) -> Reply[CallReply]:
    """Call a tool.

    Without `wait`, the response comes once the call has ended or waits for an answer. With `wait`, it comes once the
    call has ended, or after so many seconds. A call that has not ended is stored, and answered with 202. A call that
    failed is a result, too. The header `Idempotency-Key` makes a repeated request return the first call. If a server
    stopped before that call could change anything, the repeated request runs it.

    The status is 503 with `Retry-After` if a busy server did not record the call within 20 seconds, whatever `wait` is.
    It may be recorded later, so send the request again with the same `Idempotency-Key`.
    """
    body, runtime = request.body, request.tenant.conversation(request.principal, request.body.thread)
    key, wait = request.headers.get("idempotency-key"), request.query.wait
    limit = DEFAULT_WAIT_S if wait is None else wait
    started: CallHandle | None = None
    time_limit = request.server.within(RECORD_S, request.identity)
    with _failing_store(), time_limit:
        started = await runtime.start(
            body.tool,
            bytes(body.arguments),
            surface=_surface_of(request),
            native_call_id=body.native_call_id,
            actor_ref=request.principal,
            idempotency_key=key,
        )
        if limit != RECORD_S:
            time_limit.end_after(max(limit, MIN_WAIT_S))
        await started.idle()
        with suppress(ConfigError):  # the journal has lost it, together with the lease of this process
            if wait is not None and not started.status.is_terminal:
                await started.result()
    if started is None:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_RECORDED, headers={"retry-after": "1"})
    result = started.stored_result
    if result is not None and (result.error is None or result.error.error_code not in (UNAVAILABLE, NOT_STORED)):
        return Reply(state_of(started.id, started, result))
    with _failing_store():
        ((state, has_ended),) = await _confirmed_states(request.tenant, [started.id])
    return Reply(state) if has_ended else Reply(state, {"location": f"/v1/calls/{started.id}"}, HTTPStatus.ACCEPTED)


@contextmanager
def _failing_store() -> Generator[None]:
    """Report that a call may run, if the store fails before the call is known to be recorded.

    Raises:
        Problem: the store has failed.
    """
    try:
        yield
    except StoreError as error:
        detail = f"{error}; {_MAY_RUN}"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"retry-after": "1"}) from error


async def _read_state(tenant: Tenant, invocation_id: str) -> tuple[CallReply, bool]:
    """Return the stored state of a call, and whether it has ended.

    The result is read after the status, and only if the call has ended, so that the two agree. While the store cannot
    be written, the state is the one that was stored last, and its notice names the fault.

    Raises:
        Problem: the journal has no such call.
        StoreError: the store fails, and nothing of the call is stored.
    """
    journal, notice = tenant.runtime.journal, None
    try:
        invocation = await journal.invocation(invocation_id)
    except StoreError as error:
        invocation = invocation_of(tenant.runtime.inspection.log.stored_facts_of(InvocationId(invocation_id)))
        if invocation is None:
            raise
        notice = f"{error}; {_NOT_WRITTEN}"
    if invocation is None:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_RECORDED, headers={"retry-after": "1"})
    if invocation.status.is_terminal:  # another process may have ended it, so both are read from the same facts
        facts = tenant.runtime.inspection.log.stored_facts_of(InvocationId(invocation_id))
        invocation, result = invocation_of(facts) or invocation, result_in(facts)
        if invocation.status.is_terminal:
            return state_of(invocation_id, invocation, result), True
    return state_of(invocation_id, invocation, None, await _question_of(tenant, invocation), notice), False


async def _question_of(tenant: Tenant, invocation: ToolInvocation) -> Question | None:
    """Return the open approval that a call waits for."""
    asked = invocation.approval_request_ref
    if asked is None or invocation.status is not InvocationStatus.AWAITING_APPROVAL:
        return None
    return await tenant.runtime.approvals.get(asked)


def _surface_of(request: ApiRequest[CallQuery, CallBody] | ApiRequest[CallQuery, BatchBody]) -> ToolSurface | None:
    surface_id = request.body.surface_id
    return None if surface_id is None else request.tenant.surface(request.principal, surface_id, "/surface_id")


async def list_calls(request: ApiRequest[CallListQuery, EmptyBody]) -> CallList:
    """List at most `limit` calls: the open ones by their start, then the others by their end. A caller sees its own.

    Both parts begin with the newest call, and `next_cursor` continues through both. A call that ends between two
    requests is listed again in the second part.

    With `id_part`, list the calls whose ids begin or end with it, newest first, on one page of at most `limit` calls.
    """
    query = request.query
    check_status(query.status)
    wanted = CallFilter(
        tool=query.tool,
        status=query.status,
        since_ns=parse_time("since", query.since),
        until_ns=parse_time("until", query.until),
        by=query.actor,
        containing=query.containing,
        is_open=query.open,
        id_part=query.id_part,
        owner=None if request.principal.has(*READERS) else request.principal.subject,
    )

    cursor = query.cursor
    if cursor is not None and not INVOCATION.owns(InvocationId(cursor)):
        parse_cursor(cursor)

    def read(reader: JournalReader) -> CallPage:
        return page_of_calls(reader, wanted, query.limit, cursor)

    calls, after = await request.read(read)
    return CallList(items=[summary_of(each) for each in calls], next_cursor=after)


async def get_call(request: ApiRequest[CallQuery, EmptyBody]) -> CallDetail:
    """Return everything that is recorded of a call; with `wait`, once it has ended or after so many seconds."""
    invocation_id = request.path["invocation_id"]
    await _own_invocation(request.tenant, request.principal, invocation_id)
    if request.query.wait:
        with request.server.within(request.query.wait, request.identity):
            await request.tenant.runtime.calls.get(invocation_id).result()

    def read(reader: JournalReader) -> RecordedCall:
        return read_call(reader, InvocationId(invocation_id))

    try:
        call = await request.read(read)
    except ConfigError as error:
        raise _unknown_call(invocation_id) from error
    question = await _question_of(request.tenant, call.invocation)
    return detail_of(call, question, _notice_of(request.tenant, call))


def _notice_of(tenant: Tenant, call: RecordedCall) -> str | None:
    """Return a notice if the process of a call has ended, and this server does not have the tool that it needs."""
    tool_id, owner = call.invocation.tool_id, call.owner
    if owner is None or not owner.waits_for_tool or tenant.runtime.inspection.tool(tool_id):
        return None
    return (
        f"it waits for its tool {tool_name(tool_id)!r}, which this server does not have: add the source of the tool to"
        " the settings, or restart the server with --from MODULE; else it ends after a day, or once it is canceled"
    )


def _unknown_call(invocation_id: str) -> Problem:
    """Return the problem of a call that does not exist, or that the principal may not read."""
    return Problem(HTTPStatus.NOT_FOUND, f"there is no call {invocation_id!r}; GET /v1/calls lists yours")


async def _own_invocation(tenant: Tenant, principal: Principal, invocation_id: str) -> ToolInvocation:
    """Return the invocation of a call that a principal may read, as it was stored last: the disk may be failing.

    Raises:
        Problem: there is none.
    """
    stored = tenant.runtime.inspection.log.stored_facts_of(InvocationId(invocation_id))
    invocation = invocation_of(stored) or await tenant.runtime.journal.invocation(invocation_id)
    if invocation is None or (not principal.has(*READERS) and invocation.actor_ref != principal.subject):
        raise _unknown_call(invocation_id)
    return invocation


async def cancel_call(request: PlainRequest) -> CancelReply:
    """Request the cancellation of a call. A caller may cancel its own calls, an operator every call."""
    invocation_id, principal = request.path["invocation_id"], request.principal
    invocation = await _own_invocation(request.tenant, principal, invocation_id)
    if invocation.actor_ref != principal.subject and "operator" not in principal.roles:
        raise Problem(HTTPStatus.FORBIDDEN, "only an operator may cancel the calls of others", reason="role")
    accepted = await request.tenant.runtime.cancel(
        invocation_id, reason=AbortReason.USER_INTERRUPTION, by=Approver(principal=principal)
    )
    return CancelReply(invocation_id=invocation_id, accepted=accepted)


async def make_batch(request: ApiRequest[CallQuery, BatchBody]) -> Reply[BatchReply]:
    """Call several tools together, and return the state of each in the order of the calls.

    Without `wait`, the response comes once each call has ended, waits for an answer, or depends on one that waits.
    With `wait`, it comes once all calls have ended, or after so many seconds. If a call has not ended, the status is
    202, and `GET /v1/calls/{invocation_id}` returns the state of each call. The status of a call that has not started,
    because it depends on another one, is `planned`. With 202, all calls are stored: those that wait continue in the
    next server if this one stops or dies.

    A batch cannot be repeated: the header `Idempotency-Key` is refused with 400. Calls that must run once have a key
    each and are made by `POST /v1/calls`. The status is 503 if a busy server did not record the calls in time; some of
    them may still run, and `GET /v1/calls` shows which.
    """
    if "idempotency-key" in request.headers:
        raise Problem(HTTPStatus.BAD_REQUEST, _NO_BATCH_KEY, pointer="header:idempotency-key")
    tenant = request.tenant
    runtime = tenant.conversation(request.principal, request.body.thread)
    calls = [
        ToolCall(
            each.tool,
            bytes(each.arguments),
            native_call_id=each.native_call_id,
            depends_on=tuple(each.depends_on),
            invocation_id=runtime.calls.new_id(),
        )
        for each in request.body.calls
    ]
    for place, each in enumerate(request.body.calls):
        if any(other >= place for other in each.depends_on):
            detail = "a call may depend on earlier calls only; use their places, from 0 on"
            raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer=f"/calls/{place}/depends_on")
    surface = _surface_of(request)
    idle, wait = asyncio.Event(), request.query.wait
    limit = DEFAULT_WAIT_S if wait is None else wait
    batch = tenant.start_batch(
        runtime.batch(
            calls,
            surface=surface,
            policy=_BATCH_POLICY,
            actor_ref=request.principal,
            on_idle=idle.set if wait is None else None,
        ),
    )
    batch.add_done_callback(lambda _: idle.set())
    with request.server.within(max(limit, MIN_WAIT_S), request.identity):
        await idle.wait()
    invocation_ids = [str(each.invocation_id) for each in calls]
    with _failing_store():
        if batch.done():
            batch.result()  # raises if the batch crashed
        else:
            await runtime.journal.checkpoint(invocation_ids)
        # The journal has the state of each call. The batch may have left a call to another process.
        states = await _confirmed_states(tenant, invocation_ids)
        status = HTTPStatus.OK if all(has_ended for _, has_ended in states) else HTTPStatus.ACCEPTED
    return Reply(BatchReply(items=[state for state, _ in states]), status=status)


async def _confirmed_states(tenant: Tenant, invocation_ids: Sequence[str]) -> list[tuple[CallReply, bool]]:
    """Return the states of calls, and whether they have ended; open ones continue if this process dies.

    Open calls are stored, and read again: one of another process may have ended meanwhile. While the disk fails, calls
    that run need no checkpoint: the notices of their states name the fault.

    Raises:
        StoreError: a call that waits cannot be stored, or the lease was lost.
    """
    stored: list[str] = []
    while True:
        found = [await _read_state(tenant, each) for each in invocation_ids]
        statuses = [state.status for state, _ in found]
        if statuses == stored or all(has_ended for _, has_ended in found):
            return found
        stored = statuses
        try:
            await tenant.runtime.journal.checkpoint([state.invocation_id for state, _ in found])
        except StoreError as error:
            if isinstance(error, LeaseLost) or InvocationStatus.QUEUED in statuses:
                raise


def _span(wanted: re.Match[str], size: int) -> tuple[int, int | None]:
    """Return the start and the length of a range: `FIRST-LAST`, `FIRST-`, or `-LENGTH` for the end."""
    first, last, at_end = wanted.groups()
    if at_end:
        return max(0, size - int(at_end)), int(at_end)
    return int(first), max(0, int(last) + 1 - int(first)) if last else None


async def get_payload(request: PlainRequest) -> Response:
    """Return stored output of a call, or a range of it; only if the records of that call name its digest."""
    invocation_id, digest = request.path["invocation_id"], request.path["digest"].replace("sha256-", "sha256:", 1)
    await _own_invocation(request.tenant, request.principal, invocation_id)
    journal = request.tenant.runtime.journal

    def read(reader: JournalReader) -> list[Record]:
        return list(records_of([fact for _, fact in reader.facts_of(InvocationId(invocation_id))]))

    ref = stored_refs(await request.read(read)).get(Digest(digest))
    missing = Problem(HTTPStatus.NOT_FOUND, f"the call {invocation_id!r} has no stored output {digest!r}")
    if ref is None:
        raise missing
    headers = {**_PAYLOAD_HEADERS, "content-disposition": f'attachment; filename="{digest[7:23]}"'}
    wanted = _RANGE.fullmatch(request.headers.get("range", ""))
    if wanted is not None and wanted[3] and ref.size_bytes is None:
        wanted = None  # the end of an output of unknown size cannot be selected
    start, length = (0, None) if wanted is None else _span(wanted, ref.size_bytes or 0)
    data = await journal.payload(digest, start, None if length is None else min(length, _MAX_RANGE))
    if data is None:
        raise missing
    media = valid_media_type(ref.media_type) or OCTETS
    if wanted is None:
        return Response(data, headers=headers, media_type=media)
    size = "*" if ref.size_bytes is None else str(ref.size_bytes)
    if not data or length == 0:
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        detail = "the range begins after the end; send another"
        raise Problem(status, detail, headers={"content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {start}-{start + len(data) - 1}/{size}"
    return Response(data, HTTPStatus.PARTIAL_CONTENT, headers, media)
