"""Nested calls: a tool calls other tools on its own surface."""

from hashlib import blake2b

from agenttool.catalog.unresolved import Unresolved
from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.pipeline.approval import pause_timeouts, resume_timeouts
from agenttool.pipeline.call import Call, Nesting
from agenttool.pipeline.call_state import CallSecrets
from agenttool.pipeline.checkpoint import ensure_checkpoint
from agenttool.pipeline.resume import PROCESS_DIED
from agenttool.pipeline.run import run_call
from agenttool.ports.evidence import CallRequest
from agenttool.records import ErrorClass, InvocationId, JsonObject, Phase, ToolResult
from agenttool.results.redaction import InputMask

_TIME, _REST = 12, 20
"""The lengths of the time in an id, and of the rest."""

MAX_DEPTH = 16
"""The maximum depth of nested calls, which ends an infinite recursion."""

TOO_DEEP = Unresolved(
    error_class=ErrorClass.BLOCKED_TOOL,
    code="nested_too_deep",
    message=f"more than {MAX_DEPTH} calls led to this one; end the recursion",
)


PARENT_ENDED = Unresolved(
    error_class=ErrorClass.CANCELED,
    code="parent_ended",
    message="the tool that makes this call has returned; await nested calls before the tool returns",
)


async def run_nested(parent: Call, name: str, arguments: JsonObject) -> ToolResult:
    """Run a nested call and return its result, also if it failed.

    If the parent is resumed after a crash, the calls that it made before are not made again: it gets their results.
    Its tool receives the arguments as they are. The secrets of the parent are removed from everything else: its
    inputs in records, hooks and approval requests, its progress and its result.
    """
    fault: str | None = None
    try:
        encoded = json_bytes(arguments)
    except (RecordError, UnicodeError) as error:
        encoded, fault = b"null", str(error)
    nesting = parent.ensure_nesting()
    unresolved = TOO_DEEP if nesting.depth >= MAX_DEPTH else None
    parent.flush()  # the journal has the parent's start before any step of this call
    if parent.phase is Phase.EXECUTE:
        ensure_checkpoint(parent)
    else:
        unresolved = PARENT_ENDED
    request = CallRequest(
        str(name).encode(errors="replace").decode(),
        encoded,
        parent.request.surface_id,
        actor_ref=parent.request.actor_ref,
        actor_roles=parent.request.actor_roles,
        parent_invocation_id=parent.invocation_id,
    )
    if nesting.key is None:
        unique = parent.core.ids.unique()
    else:
        unique, earlier = await _find_earlier(parent, nesting, nesting.key, request)
        if earlier is not None:
            return earlier
    call = Call(
        parent.core,
        request,
        parent.surface if unresolved is None else None,
        unique,
        InvocationId("inv_" + unique),
        fault,
        secrets=_inherited(parent),
        nesting=Nesting(parent, nesting.depth + 1),
        unresolved=unresolved,
    )
    if parent.stop.reason is not None:
        call.stop.reason = parent.stop.reason
    parent.needs_detailed_end = True
    nesting.children[call.invocation_id] = call
    try:
        return await run_call(call)
    finally:
        nesting.children.pop(call.invocation_id, None)


async def _find_earlier(
    parent: Call, nesting: Nesting, key: bytes, request: CallRequest
) -> tuple[str, ToolResult | None]:
    """Return the unique part of the id of a nested call, and its result if it was made before a crash.

    The id follows from the key of the parent, the tool, the arguments, and how often the same call was made. A call
    that certainly did nothing before its process died is made again, under the next id.
    """
    start = b"%d %s %s" % (nesting.attempt, request.name.encode(), request.model_input)
    same = blake2b(start, key=key, digest_size=16).digest()
    while True:
        number = nesting.made[same] = nesting.made.get(same, 0) + 1
        # The beginning of the parent's id is its time: nested calls are sorted beside it.
        unique = parent.unique[:_TIME] + blake2b(same + b"%d" % number, key=key, digest_size=_REST // 2).hexdigest()
        if parent.recovery is None or parent.recovery.attempts == 1:
            return unique, None
        earlier = await _result_of(parent, nesting, InvocationId("inv_" + unique))
        if earlier is None or earlier.error is None or earlier.error.error_code != PROCESS_DIED:
            return unique, earlier


async def _result_of(parent: Call, nesting: Nesting, invocation_id: InvocationId) -> ToolResult | None:
    """Return the result of a nested call that was made before a crash; none if it was not made.

    Recovery ends it or resumes it, in this process; it may have to wait for an answer.
    """
    if not parent.core.journal.log.facts_of(invocation_id):
        return None
    nesting.awaited.add(invocation_id)
    paused = pause_timeouts(parent)
    try:
        return await parent.core.host.resume_and_wait(invocation_id)
    finally:
        resume_timeouts(paused)
        nesting.awaited.discard(invocation_id)
        nesting.children.pop(invocation_id, None)


def _inherited(parent: Call) -> CallSecrets | None:
    if parent.secrets is None or parent.scrubber is None:
        return None
    return CallSecrets(parent.core.ids.secret(), InputMask(None, parent.scrubber), leased=parent.secrets.leased)
