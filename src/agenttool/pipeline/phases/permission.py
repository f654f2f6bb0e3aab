"""Phase 6: allow, ask or deny; what runs afterwards is exactly what was judged."""

from agenttool.codec import json_bytes
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.approval import ask
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Decided
from agenttool.pipeline.hook_round import hook_round, refuse_stop_and_fault
from agenttool.pipeline.judge import judge
from agenttool.pipeline.tool import Tool
from agenttool.policy.opinions import HookHint
from agenttool.policy.verdict import Verdict, refusal
from agenttool.records import Behavior, DecisionId, ErrorClass, HookEvent, JsonObject, Phase

_PHASE = Phase.PERMISSION
_ALLOW = Behavior.ALLOW
_DENY = Behavior.DENY
_JUDGED = steps.JUDGED


async def permission(call: Call, tool: Tool, proposed: JsonObject, hints: tuple[HookHint, ...]) -> JsonObject:
    """Judge a call, ask somebody if need be, and give the input that may run.

    Raises:
        ToolFailure: permission_denied, policy_blocked, approval_rejected, or the failure of a hook that stands here.
    """
    call.phase = _PHASE
    if hints:
        call.hints = hints
    hooks = tool.hooks.by_event
    if hooks and HookEvent.PERMISSION_REQUEST in hooks:
        await _side_hooks(call, tool, HookEvent.PERMISSION_REQUEST, proposed)
    verdict = judge(call, tool, proposed)
    if verdict.behavior is _ALLOW:
        call.core.journal.note(call, _JUDGED, _decided(call, tool, verdict, proposed))
        call_input = proposed
    elif verdict.behavior is _DENY:
        call.core.journal.note(call, steps.REFUSED, _decided(call, tool, verdict, proposed))
        raise ToolFailure(refusal(verdict))
    else:
        call_input = await ask(call, tool, proposed, verdict)
    if hooks and HookEvent.PERMISSION_DECISION in hooks:
        await _side_hooks(call, tool, HookEvent.PERMISSION_DECISION, call_input, {"behavior": verdict.behavior.value})
    return call_input


def _decided(call: Call, tool: Tool, verdict: Verdict, proposed: JsonObject) -> Decided:
    call.decisions += 1
    judged = call.request.model_input if not call.mutations else json_bytes(proposed)
    return Decided(verdict, judged, DecisionId(f"dec_{call.unique}-{call.decisions}"), tool.redactor)


async def _side_hooks(
    call: Call, tool: Tool, event: HookEvent, value: JsonObject, details: JsonObject | None = None
) -> None:
    rounds = await hook_round(call, tool, event, value, details=details)
    refuse_stop_and_fault(call, rounds, fault_class=ErrorClass.HOOK_FAILED)
