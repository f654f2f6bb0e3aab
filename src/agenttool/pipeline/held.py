"""What is kept of a call under way, so that whoever comes after a crash knows how far it came and can go on with it.

A call is held at three points: while it waits for an answer, once it was approved, and before its tool may have an
effect. The first and the last are on disk before anything follows from them; the second goes there together with the
answer. A tool that answers later has two points of its own: before anything is sent, and once it has taken the work on.
Of a call that is held at none of them the store itself knows that it has begun. What is kept here may hold
secrets; it goes when the call ends.
"""

from agenttool.codec import json_bytes, read_own, write_own
from agenttool.errors import StoreError, ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Request
from agenttool.policy.approvals import Question
from agenttool.policy.rules import parse_timestamp
from agenttool.ports.later import Thread, late_key
from agenttool.records import (
    ApprovalId,
    ClosedEnum,
    Digest,
    ErrorClass,
    InvocationId,
    InvocationStatus,
    JsonObject,
    Part,
    ToolId,
    ToolResult,
)
from agenttool.results.failure import guided, result_of_failure

UNAVAILABLE = "journal_unavailable"
"""The code of an error that says that something could not be kept."""


class Point(ClosedEnum):
    """How far a call had come when it was held."""

    ASKED = "asked"
    APPROVED = "approved"
    RUNNING = "running"
    SENDING = "sending"
    AWAY = "away"

    @property
    def is_late(self) -> bool:
        """Tell whether the answer comes from outside, at a time of its own."""
        return self in (Point.SENDING, Point.AWAY)


class Held(Part, frozen=True, kw_only=True):
    """A call as it was held; `call_input` is what was asked about, or what runs."""

    name: str
    model_input: bytes
    call_input: bytes
    tool_id: ToolId
    declaration_digest: Digest
    status: InvocationStatus
    events: int
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    parent_invocation_id: InvocationId | None = None
    decisions: int = 0
    mutations: int = 0
    progress: int = 0
    hook_runs: int = 0
    started_ns: int = 0
    attempts: int = 1
    thread: Thread | None = None
    salt: bytes | None = None
    """What sealed the digests of its inputs, where some of them are hidden; nobody else knows it."""
    only: tuple[ToolId, ...] | None = None
    """What could be called on its surface, if not all, so that calls it makes find no more than before."""
    question: Question | None = None
    """What was asked, also once it was answered: an approval does not last longer than its question."""

    @property
    def request(self) -> Request:
        """What was asked for."""
        return Request(
            self.name,
            self.model_input,
            self.surface_id,
            self.native_call_id,
            self.actor_ref,
            self.parent_invocation_id,
        )


def hold(call: Call, point: Point, call_input: JsonObject, question: Question | None = None) -> None:
    """Put a call down; for good with the next settle."""
    calls = call.core.open_calls
    held = None if calls is None else _held(call, call_input, question)
    if calls is not None and held is not None:
        approval_id, expires_at_ns = waits_for(point, question)
        calls.hold(
            call.invocation_id,
            kind=point.value,
            body=write_own(held),
            approval_id=approval_id,
            expires_at_ns=expires_at_ns,
        )


def waits_for(point: str, question: Question | None) -> tuple[ApprovalId | None, int | None]:
    """Name the question whose answer a call waits for at a point, and when it is too late to give one."""
    if question is None or point != Point.ASKED:
        return None, None
    return question.approval_id, round(parse_timestamp(question.expires_at).timestamp() * 1e9)


def hold_late(call: Call, point: Point, expires_at_ns: int | None, *, is_left: bool = False) -> None:
    """Put a call down that waits for an answer from outside; one that is not surely sent is due if its process dies."""
    calls, held = call.core.parked, _held(call, call.call_input, None)
    if calls is None or held is None:
        raise AssertionError("a call that answers later is held, so there is a place for it")
    calls.hold(
        call.invocation_id,
        kind=point.value,
        body=write_own(held),
        approval_id=late_key(call.invocation_id),
        expires_at_ns=expires_at_ns,
        due_at_ns=0 if point is Point.SENDING else None,
        is_left=is_left,
    )


def _held(call: Call, call_input: JsonObject, question: Question | None) -> Held | None:
    tool, asked = call.tool, call.request
    if tool is None or call.status is None:
        return None
    call.is_held = call.has_full_end = True
    reach = None if call.surface is None else call.surface.reach
    return Held(
        name=asked.name,
        model_input=asked.model_input,
        call_input=json_bytes(call_input),
        tool_id=tool.tool_id,
        declaration_digest=tool.subject.declaration_digest,
        status=call.status,
        events=call.events,
        surface_id=asked.surface_id,
        only=None if reach is None else tuple(sorted(reach)),
        native_call_id=asked.native_call_id,
        actor_ref=asked.actor_ref,
        parent_invocation_id=asked.parent_invocation_id,
        decisions=call.decisions,
        mutations=call.mutations,
        progress=call.progress,
        hook_runs=call.hook_runs,
        started_ns=call.started_ns,
        attempts=call.attempts,
        thread=None if tool.later is None else call.core.thread,
        salt=call.salt or None,
        question=question,
    )


def read_held(body: bytes) -> Held:
    """Read a call that was put down.

    Raises:
        RecordError: another version wrote it.
    """
    return read_own(body, Held)


async def awake(call: Call) -> None:
    """Begin a call only once others know that this process lives; what a process writes before that is nobody's.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
    core = call.core
    if core.awake is not None:
        try:
            await core.awake()
        except StoreError as error:
            raise unavailable(call, error) from error


async def settle(call: Call) -> None:
    """Go on only once all that was noted of a call is on disk.

    Raises:
        ToolFailure: dependency_unavailable; nothing has run.
    """
    try:
        await call.core.settle()
    except StoreError as error:
        raise unavailable(call, error) from error


def unavailable(call: Call, error: StoreError) -> ToolFailure:
    """Say that nothing was run, because it could not be kept that it would be."""
    message = f"the journal cannot be written, so nothing was run: {error}"
    return ToolFailure(
        guided(ErrorClass.DEPENDENCY_UNAVAILABLE, phase=call.phase, message=message, code=UNAVAILABLE, effects=False)
    )


async def kept(call: Call, result: ToolResult) -> ToolResult:
    """Hand a result out only once it is on disk; otherwise say so in its place."""
    try:
        await call.core.settle()
    except StoreError as error:
        return unkept(call, result, error)
    return result


def unkept(call: Call, result: ToolResult, error: StoreError) -> ToolResult:
    """Give what a caller gets in place of a result that could not be kept; one that says so already stands."""
    if result.error is not None and result.error.error_code == UNAVAILABLE:
        return result
    message = f"the call has ended, but its result could not be kept: {error}"
    only_reads = call.tool is not None and not call.tool.has_effects
    told = guided(
        ErrorClass.DEPENDENCY_UNAVAILABLE,
        phase=call.phase,
        message=message,
        code=UNAVAILABLE,
        effects=False if only_reads or not call.started_ns else None,
    )
    return result_of_failure(
        told, result_id=result.result_id, invocation_id=result.invocation_id, created_at=result.created_at
    )
