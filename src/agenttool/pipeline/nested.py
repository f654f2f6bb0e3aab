"""Nested calls: a tool calls other tools on its own surface."""

from agenttool.catalog.unresolved import Unresolved
from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.pipeline.call import Call, Nesting
from agenttool.pipeline.call_state import CallSecrets
from agenttool.pipeline.run import run_call
from agenttool.ports.evidence import CallRequest
from agenttool.records import ErrorClass, InvocationId, JsonObject, ToolResult
from agenttool.results.redaction import InputMask

MAX_DEPTH = 16
"""The maximum depth of nested calls, which ends an infinite recursion."""

TOO_DEEP = Unresolved(
    error_class=ErrorClass.BLOCKED_TOOL,
    code="nested_too_deep",
    message=f"more than {MAX_DEPTH} calls led to this one; end the recursion",
)


async def run_nested(parent: Call, name: str, arguments: JsonObject) -> ToolResult:
    """Run a nested call and return its result, also if it failed.

    Its tool receives the arguments as they are. The secrets of the parent are removed from everything else: its
    inputs in records, hooks and approval requests, its progress and its result.
    """
    fault: str | None = None
    try:
        encoded = json_bytes(arguments)
    except (RecordError, UnicodeError) as error:
        encoded, fault = b"null", str(error)
    nesting = parent.ensure_nesting()
    is_allowed = nesting.depth < MAX_DEPTH
    unique = parent.core.ids.unique()
    request = parent.request
    call = Call(
        parent.core,
        CallRequest(
            str(name).encode(errors="replace").decode(),
            encoded,
            request.surface_id,
            actor_ref=request.actor_ref,
            parent_invocation_id=parent.invocation_id,
        ),
        parent.surface if is_allowed else None,
        unique,
        InvocationId("inv_" + unique),
        fault,
        secrets=_inherited(parent),
        nesting=Nesting(parent, nesting.depth + 1),
        unresolved=None if is_allowed else TOO_DEEP,
    )
    if parent.stop.reason is not None:
        call.stop.reason = parent.stop.reason
    parent.needs_detailed_end = True
    parent.flush()  # the journal has the parent's start before any step of this call
    nesting.children[call.invocation_id] = call
    try:
        return await run_call(call)
    finally:
        nesting.children.pop(call.invocation_id, None)


def _inherited(parent: Call) -> CallSecrets | None:
    return None if parent.scrubber is None else CallSecrets(parent.core.ids.secret(), InputMask(None, parent.scrubber))
