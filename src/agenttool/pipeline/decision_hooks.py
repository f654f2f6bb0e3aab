"""Hooks of the permission decision."""

from collections.abc import Awaitable

from agenttool.errors import ToolFailure
from agenttool.hooks.execution import HookRuns
from agenttool.pipeline.call import Call
from agenttool.pipeline.hook_round import hook_round, refuse_stop_and_fault
from agenttool.pipeline.tool import Tool
from agenttool.records import Behavior, ErrorClass, HookEvent, JsonObject

_EVENT = HookEvent.PERMISSION_DECISION
_REFUSALS = frozenset({ErrorClass.PERMISSION_DENIED, ErrorClass.POLICY_BLOCKED, ErrorClass.APPROVAL_REJECTED})


async def decide_with_hooks(
    call: Call, tool: Tool, proposed: JsonObject, deciding: Awaitable[JsonObject]
) -> JsonObject:
    """Await the decision about a call, run its hooks, and return the input that may run.

    Raises:
        ToolFailure: the decision was a refusal, which hooks cannot change; or a hook stopped the call or failed.
    """
    if _EVENT not in tool.hooks.by_event:
        return await deciding
    try:
        call_input = await deciding
    except ToolFailure as refused:
        if refused.error.error_class in _REFUSALS:
            await _run_hooks(call, tool, proposed, Behavior.DENY)
        raise
    rounds = await _run_hooks(call, tool, call_input, Behavior.ALLOW)
    refuse_stop_and_fault(call, rounds, fault_class=ErrorClass.HOOK_FAILED)
    return call_input


async def _run_hooks(call: Call, tool: Tool, value: JsonObject, behavior: Behavior) -> HookRuns:
    return await hook_round(call, tool, _EVENT, value, details={"behavior": behavior.value})
