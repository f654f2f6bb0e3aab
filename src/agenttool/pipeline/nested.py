"""Calls that a tool makes while it runs: on its surface, under its rules, and stopped with it."""

from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Request
from agenttool.pipeline.run import run_call
from agenttool.records import InvocationId, JsonObject, ToolResult


async def run_nested(parent: Call, name: str, arguments: JsonObject) -> ToolResult:
    """Make a call from within another; a failed call is a result, too."""
    fault: str | None = None
    try:
        spelled = json_bytes(arguments)
    except (RecordError, UnicodeError) as error:
        spelled, fault = b"null", str(error)
    unique = parent.core.ids.unique()
    asked = parent.request
    call = Call(
        parent.core,
        Request(
            str(name).encode(errors="replace").decode(),
            spelled,
            asked.surface_id,
            actor_ref=asked.actor_ref,
            parent_invocation_id=parent.invocation_id,
        ),
        parent.surface,
        unique,
        InvocationId("inv_" + unique),
        fault,
        parent,
        depth=parent.depth + 1,
    )
    if parent.abort_reason is not None:
        call.abort_reason = parent.abort_reason
    parent.flush()  # the journal has the parent's start before any step of this call
    children = parent.children = parent.children if parent.children is not None else {}
    children[call.invocation_id] = call
    try:
        return await run_call(call)
    finally:
        children.pop(call.invocation_id, None)
