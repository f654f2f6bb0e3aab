"""The routes about calls: make, list, read and cancel them, and read their stored output."""

import asyncio
import re
import time
from collections.abc import Sequence
from http import HTTPStatus

from msgspec.structs import asdict
from starlette.responses import Response

from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError
from agenttool.history.listed_call import (
    CallFilter,
    CallPage,
    ListedCall,
    check_status,
    page_of_calls,
    parse_time,
    tool_name,
)
from agenttool.history.reader import JournalReader
from agenttool.history.recorded_call import RecordedCall, read_call
from agenttool.journal.projection import records_of
from agenttool.policy.approvals import Approver, Question
from agenttool.ports.calls import StartedCall, ToolCall
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.identity import Principal
from agenttool.records import (
    PAYLOAD_SCHEME,
    AbortReason,
    Digest,
    InvocationId,
    InvocationStatus,
    OrderingPolicy,
    Record,
    Ref,
    ResultPersistence,
    SchedulerPolicy,
    SchedulerPolicyId,
    SiblingFailurePolicy,
    ToolInvocation,
    ToolResult,
    ToolSurface,
)
from agenttool.server.messages import (
    AnswerItem,
    BatchBody,
    BatchReply,
    CallBody,
    CallDetail,
    CallList,
    CallListQuery,
    CallQuery,
    CallReply,
    CallSummary,
    CancelReply,
    PayloadItem,
    PhaseItem,
    raw,
    raw_record,
    raw_with_type,
)
from agenttool.server.problem import Problem, parse_cursor
from agenttool.server.route import READERS, ApiRequest, EmptyBody, EmptyQuery, Reply
from agenttool.server.tenants import Tenant

DEFAULT_WAIT_S = 20.0
"""How long a request waits for its call without the parameter `wait`."""

MIN_WAIT_S = 0.05
"""How long a request waits at least, so that it returns the result of most calls that end at once."""

_BATCH_POLICY = SchedulerPolicy(
    scheduler_policy_id=SchedulerPolicyId("sched_http"),
    ordering_policy=OrderingPolicy.ALLOW_UNORDERED,
    sibling_failure_policy=SiblingFailurePolicy.CANCEL_DEPENDENT,
)
"""No call waits for the results of others, because clients read each result by its call."""

_NOT_RECORDED = (
    "the call was not recorded in time; send it again with the same Idempotency-Key, or look for it with GET /v1/calls"
)
_NO_BATCH_KEY = "a batch has no idempotency key; leave the header out, or make each call with a key by POST /v1/calls"
_RANGE = re.compile(r"bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))", re.ASCII)
_MAX_RANGE = 16_000_000
_PAYLOAD_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "private, max-age=3600",
    "accept-ranges": "bytes",
}


async def make_call(request: ApiRequest[CallQuery, CallBody]) -> Reply:
    """Call a tool.

    Without `wait`, the response comes once the call has ended or waits for an answer. With `wait`, it comes once the
    call has ended, or after so many seconds. A call that has not ended is stored, and answered with 202. A call that
    failed is a result, too. The header `Idempotency-Key` makes a repeated request return the first call.

    The status is 503 with `Retry-After` if a busy server did not record the call in time. It may be recorded later, so
    send the request again with the same `Idempotency-Key`.
    """
    body, runtime = request.body, request.tenant.conversation(request.principal, request.body.thread)
    begun, wait = time.monotonic(), request.query.wait
    key = request.headers.get("idempotency-key")
    observed, limit = _Observer(), DEFAULT_WAIT_S if wait is None else wait
    started: StartedCall | None = None
    with request.server.within(max(limit, MIN_WAIT_S), request.identity):
        started = await runtime.submit(
            body.tool,
            bytes(body.arguments),
            surface=_surface_of(request),
            native_call_id=body.native_call_id,
            actor_ref=request.principal,
            idempotency_key=key,
            observer=observed,
        )
        if wait is not None and not started.status.is_terminal:
            await runtime.wait(started.invocation_id, begun + limit - time.monotonic())
    invocation_id = observed.invocation_id if started is None else started.invocation_id
    if invocation_id is None:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_RECORDED, headers={"retry-after": "1"})
    if observed.result is not None and started is not None and started.status.is_terminal:
        return Reply(value=_state(invocation_id, started, observed.result))
    return await _state_reply(request.tenant, invocation_id)


class _Observer:
    """Stores the id of a call, and its result."""

    __slots__ = ("invocation_id", "result")

    def __init__(self) -> None:
        self.invocation_id: InvocationId | None = None
        self.result: ToolResult | None = None

    def started(self, invocation_id: InvocationId, /) -> None:
        """Store the id."""
        self.invocation_id = invocation_id

    def progressed(self, update: object, /) -> None:
        """Do nothing."""

    def ended(self, result: ToolResult, /) -> None:
        """Store the result, which is durable."""
        self.result = result


async def _state_reply(tenant: Tenant, invocation_id: str) -> Reply:
    await tenant.runtime.journal.checkpoint([invocation_id])
    state, has_ended = await _read_state(tenant, invocation_id)
    if has_ended:
        return Reply(value=state)
    return Reply(value=state, status=HTTPStatus.ACCEPTED, headers={"location": f"/v1/calls/{invocation_id}"})


async def _read_state(tenant: Tenant, invocation_id: str, known: ToolResult | None = None) -> tuple[CallReply, bool]:
    """Return the stored state of a call, and whether it has ended.

    The result is read after the status, and only if the call has ended, so that the two agree.

    Raises:
        Problem: the journal has no such call.
    """
    journal = tenant.runtime.journal
    invocation = await journal.invocation(invocation_id)
    if invocation is None:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_RECORDED, headers={"retry-after": "1"})
    if not invocation.status.is_terminal:
        return _state(invocation_id, invocation, None, await _question_of(tenant, invocation)), False
    return _state(invocation_id, invocation, known or await journal.result(invocation_id)), True


async def _question_of(tenant: Tenant, invocation: ToolInvocation) -> Question | None:
    """Return the open approval that a call waits for."""
    asked = invocation.approval_request_ref
    if asked is None or invocation.status is not InvocationStatus.AWAITING_APPROVAL:
        return None
    return await tenant.runtime.approvals.get(asked)


def _state(
    invocation_id: str,
    known: ToolInvocation | StartedCall,
    result: ToolResult | None,
    question: Question | None = None,
) -> CallReply:
    asked = known.approval_request_ref if isinstance(known, ToolInvocation) else None
    is_asked = result is None and known.status is InvocationStatus.AWAITING_APPROVAL
    return CallReply(
        invocation_id=invocation_id,
        status=known.status.value,
        tool=tool_name(known.tool_id),
        approval_id=asked if is_asked else None,
        expires_at=None if question is None else question.expires_at,
        result=raw(None) if result is None else raw_record(result),
    )


def _surface_of(request: ApiRequest[CallQuery, CallBody] | ApiRequest[CallQuery, BatchBody]) -> ToolSurface | None:
    surface_id = request.body.surface_id
    return None if surface_id is None else request.tenant.surface(request.principal, surface_id, "/surface_id")


async def list_calls(request: ApiRequest[CallListQuery, EmptyBody]) -> Reply:
    """List calls: the open ones first, then the ended ones, newest first. A caller sees its own calls.

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

    position = parse_cursor(query.cursor)

    def read(reader: JournalReader) -> CallPage:
        return page_of_calls(reader, wanted, query.limit, position)

    calls, before = await request.tenant.read(read)
    items = [summary_of(each) for each in calls]
    return Reply(value=CallList(items=items, next_cursor=None if before is None else str(before)))


def summary_of(call: ListedCall) -> CallSummary:
    """Return a call of a list."""
    owner, result = call.owner, call.result
    waits_for = None if owner is None or owner.is_answered else owner.waits_for
    canceler = call.canceler.get("claim") if call.canceler else None
    principal = call.canceler.get("principal")
    if isinstance(principal, dict):
        canceler = principal.get("subject")
    return CallSummary(
        invocation_id=str(call.facts[0][1].invocation_id),
        tool=tool_name(call.tool_id),
        tool_id=call.tool_id,
        status=call.status.value,
        actor=call.actor,
        began=timestamp(call.began_ns),
        at=timestamp(call.at_ns),
        is_open=owner is not None,
        duration_s=round(call.taken_ns / 1e9, 6),
        summary=None if result is None else call.first_line[:200],
        error_class=None if result is None or result.error is None else result.error.error_class.value,
        approval_id=None if waits_for is None or waits_for.startswith(RESULT_PREFIX) else waits_for,
        approvals=[AnswerItem(by=each.decided_by, behavior=each.behavior.value) for each in call.approvals],
        canceled_by=canceler if isinstance(canceler, str) else None,
    )


async def get_call(request: ApiRequest[CallQuery, EmptyBody]) -> Reply:
    """Return everything that is recorded of a call; with `wait`, once it has ended or after so many seconds."""
    invocation_id = request.path["invocation_id"]
    await _own_invocation(request.tenant, request.principal, invocation_id)
    if request.query.wait:
        with request.server.within(request.query.wait, request.identity):
            await request.tenant.runtime.wait(invocation_id)

    def read(reader: JournalReader) -> RecordedCall:
        return read_call(reader, InvocationId(invocation_id))

    try:
        call = await request.tenant.read(read)
    except ConfigError as error:
        raise _unknown_call(invocation_id) from error
    question = await _question_of(request.tenant, call.invocation)
    return Reply(value=_detail(call, question, _notice_of(request.tenant, call)))


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
    """Return the invocation of a call that a principal may read.

    Raises:
        Problem: there is none.
    """
    invocation = await tenant.runtime.journal.invocation(invocation_id)
    if invocation is None or (not principal.has(*READERS) and invocation.actor_ref != principal.subject):
        raise _unknown_call(invocation_id)
    return invocation


def _detail(call: RecordedCall, question: Question | None, notice: str | None) -> CallDetail:
    invocation = call.invocation
    result = next((each for each in reversed(call.records) if isinstance(each, ToolResult)), None)
    state = _state(invocation.invocation_id, invocation, result, question)
    end_ns = call.facts[-1].at_ns if invocation.status.is_terminal else time.time_ns()
    return CallDetail(
        **asdict(state),
        actor=invocation.actor_ref,
        invocation=raw_record(invocation),
        events=[raw_record(each) for each in call.events],
        records=[raw_with_type(each) for each in call.records],
        traceback=call.traceback,
        children=[*call.children],
        began=timestamp(call.began_ns),
        is_open=not invocation.status.is_terminal,
        duration_s=round((end_ns - call.began_ns) / 1e9, 6),
        phases=_phases(call, end_ns),
        payloads=[
            PayloadItem(digest=str(each.digest), media_type=each.media_type, size_bytes=each.size_bytes)
            for each in _stored_refs(call.records).values()
        ],
        process=None if call.owner is None else call.owner.process,
        notice=notice,
    )


def _phases(call: RecordedCall, end_ns: int) -> list[PhaseItem]:
    """Return the statuses of a call, each with the time until the next one."""
    moves = [
        (fact.at_ns, status.value) for fact in call.facts for _, status in fact.step.transitions if status is not None
    ]
    ends = [*(at for at, _ in moves), end_ns][1:]
    return [
        PhaseItem(
            name=name,
            at=timestamp(at),
            offset_s=round((at - call.began_ns) / 1e9, 6),
            duration_s=round(max(0, until - at) / 1e9, 6),
        )
        for (at, name), until in zip(moves, ends, strict=True)
    ]


def _stored_refs(records: Sequence[Record]) -> dict[Digest, Ref]:
    """Return the references to stored payloads in the records of a call, by digest; other references are left out."""
    refs: list[Ref | None] = []
    for record in records:
        if isinstance(record, ResultPersistence):
            refs.append(record.persisted_ref)
        elif isinstance(record, ToolResult):
            refs += (item.ref for item in (*(record.content or ()), *(record.model_facing_content or ())))
            refs += record.artifact_refs or ()
    return {
        each.digest: each
        for each in refs
        if each is not None and each.digest is not None and (each.id or "").startswith(PAYLOAD_SCHEME)
    }


async def cancel_call(request: ApiRequest[EmptyQuery, EmptyBody]) -> Reply:
    """Request the cancellation of a call. A caller may cancel its own calls, an operator every call."""
    invocation_id, principal = request.path["invocation_id"], request.principal
    invocation = await _own_invocation(request.tenant, principal, invocation_id)
    if invocation.actor_ref != principal.subject and "operator" not in principal.roles:
        raise Problem(HTTPStatus.FORBIDDEN, "only an operator may cancel the calls of others", reason="role")
    accepted = await request.tenant.runtime.cancel(
        invocation_id, reason=AbortReason.USER_INTERRUPTION, by=Approver(principal=principal)
    )
    return Reply(value=CancelReply(invocation_id=invocation_id, accepted=accepted), status=HTTPStatus.ACCEPTED)


async def make_batch(request: ApiRequest[CallQuery, BatchBody]) -> Reply:
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
            invocation_id=runtime.new_invocation_id(),
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
    if not batch.done():
        await runtime.journal.checkpoint(invocation_ids)
    results: Sequence[ToolResult | None] = batch.result() if batch.done() else [None] * len(calls)
    states = [await _read_state(tenant, *each) for each in zip(invocation_ids, results, strict=True)]
    status = HTTPStatus.OK if all(has_ended for _, has_ended in states) else HTTPStatus.ACCEPTED
    return Reply(value=BatchReply(items=[state for state, _ in states]), status=status)


def _span(wanted: re.Match[str], size: int) -> tuple[int, int | None]:
    """Return the start and the length of a range: `FIRST-LAST`, `FIRST-`, or `-LENGTH` for the end."""
    first, last, at_end = wanted.groups()
    if at_end:
        return max(0, size - int(at_end)), int(at_end)
    return int(first), max(0, int(last) + 1 - int(first)) if last else None


async def get_payload(request: ApiRequest[EmptyQuery, EmptyBody]) -> Response:
    """Return stored output of a call, or a range of it; only if the records of that call name its digest."""
    invocation_id, digest = request.path["invocation_id"], request.path["digest"].replace("sha256-", "sha256:", 1)
    await _own_invocation(request.tenant, request.principal, invocation_id)
    journal = request.tenant.runtime.journal

    def read(reader: JournalReader) -> list[Record]:
        return list(records_of([fact for _, fact in reader.facts_of(InvocationId(invocation_id))]))

    ref = _stored_refs(await request.tenant.read(read)).get(Digest(digest))
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
    media = ref.media_type or "application/octet-stream"
    if wanted is None:
        return Response(data, headers=headers, media_type=media)
    size = "*" if ref.size_bytes is None else str(ref.size_bytes)
    if not data or length == 0:
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        detail = "the range begins after the end; send another"
        raise Problem(status, detail, headers={"content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {start}-{start + len(data) - 1}/{size}"
    return Response(data, HTTPStatus.PARTIAL_CONTENT, headers, media)
