"""Phase 6: allow, ask or deny; what runs afterwards is exactly what was judged."""

from agenttool.codec import json_bytes
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.journal.moments import timestamp
from agenttool.pipeline.approval import ask
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Decided
from agenttool.pipeline.hook_round import hook_round, refuse_stop_and_fault
from agenttool.pipeline.tool import Tool
from agenttool.policy.opinions import HookHint
from agenttool.policy.subject import Facts
from agenttool.policy.verdict import Verdict, refusal
from agenttool.records import Behavior, DecisionId, ErrorClass, HookEvent, JsonObject, Phase
from agenttool.scheduler.safety import facts_of

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
    if HookEvent.PERMISSION_REQUEST in tool.hooks.by_event:
        await _side_hooks(call, tool, HookEvent.PERMISSION_REQUEST, proposed)
    verdict = judge(call, tool, proposed, hints)
    if verdict.behavior is _ALLOW:
        call.core.journal.note(call, _JUDGED, _decided(call, tool, verdict, proposed))
        call_input = proposed
    elif verdict.behavior is _DENY:
        call.core.journal.note(call, steps.REFUSED, _decided(call, tool, verdict, proposed))
        raise ToolFailure(refusal(verdict))
    else:
        call_input = await ask(call, tool, proposed, verdict)
    if HookEvent.PERMISSION_DECISION in tool.hooks.by_event:
        await _side_hooks(call, tool, HookEvent.PERMISSION_DECISION, call_input, {"behavior": verdict.behavior.value})
    return call_input


def judge(call: Call, tool: Tool, proposed: JsonObject, hints: tuple[HookHint, ...] = ()) -> Verdict:
    """Decide by the rules in force; a tool without rules about its arguments is answered from memory."""
    policy = call.core.policy
    if not hints and not tool.has_computed_facts:
        standing = policy.standing(tool.subject)
        if standing is not None:
            return standing
    facts = None
    if tool.has_computed_facts:
        known = facts_of(tool.safety, proposed).record
        facts = Facts(
            is_read_only=bool(known.is_read_only),
            is_destructive=known.is_destructive is not False,
            is_open_world=known.is_open_world is not False,
        )
    return policy.decide(tool.subject, proposed, now=timestamp(call.core.now_ns()), facts=facts, hints=hints)


def _decided(call: Call, tool: Tool, verdict: Verdict, proposed: JsonObject) -> Decided:
    call.decisions += 1
    judged = call.request.model_input if not call.mutations else json_bytes(proposed)
    return Decided(verdict, judged, DecisionId(f"dec_{call.unique}-{call.decisions}"), tool.redactor)


async def _side_hooks(
    call: Call, tool: Tool, event: HookEvent, value: JsonObject, details: JsonObject | None = None
) -> None:
    rounds = await hook_round(call, tool, event, value, details=details)
    refuse_stop_and_fault(call, rounds, fault_class=ErrorClass.HOOK_FAILED)
