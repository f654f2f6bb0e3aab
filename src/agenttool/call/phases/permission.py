"""Phase 6: allow, ask or deny; only the input that was judged may run."""

from collections.abc import Awaitable

from agenttool.call.approval import ask
from agenttool.call.call import Call
from agenttool.call.call_state import NO_VOTES
from agenttool.call.judge import (
    decide_with_hooks,
    denial,
    judge,
    refuse_stop_and_fault,
    request_votes,
    run_hooks_at,
)
from agenttool.call.tool import Tool
from agenttool.codec import json_bytes
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.policy.rules import has_passed
from agenttool.records import Behavior, ErrorClass, HookEvent, JsonObject, Phase, replace

_PHASE = Phase.PERMISSION
_ALLOW = Behavior.ALLOW
_ADMITTED = steps.ADMITTED
_JUDGED = steps.JUDGED


def try_allow(call: Call, tool: Tool, proposed: JsonObject) -> bool:
    """Allow the call by the standing verdict, if nothing else votes; return False and change nothing otherwise.

    The policy caches one standing verdict for all calls of a tool, if no rule depends on the arguments.
    """
    core = call.core
    if tool.is_judged_by_call or call.votes is not NO_VOTES or core.advisers:
        return False
    verdict = core.policy.standing(tool.subject, proposed)
    if verdict is None or verdict.behavior is not _ALLOW:
        return False
    call.phase = _PHASE
    if call.unwritten is _ADMITTED:
        call.unwritten = _JUDGED
        call.verdict = verdict
    else:
        call.note(_JUDGED, call.decided(verdict, _encoded(call, proposed)))
    return True


def permission(call: Call, tool: Tool, proposed: JsonObject) -> Awaitable[JsonObject]:
    """Judge a call, ask an approver if necessary, and return the input that may run.

    Raises:
        ToolFailure: permission_denied, policy_blocked, approval_rejected, or the failure of a hook.
    """
    call.phase = _PHASE
    call.publish()
    if HookEvent.PERMISSION_REQUEST in tool.hooks:
        return _decide_after_hooks(call, tool, proposed)
    return decide_with_hooks(call, tool, proposed, _decide(call, tool, proposed))


async def _decide_after_hooks(call: Call, tool: Tool, proposed: JsonObject) -> JsonObject:
    outcome = await run_hooks_at(call, tool, HookEvent.PERMISSION_REQUEST, proposed)
    refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.HOOK_FAILED)
    return await decide_with_hooks(call, tool, proposed, _decide(call, tool, proposed))


async def _decide(call: Call, tool: Tool, proposed: JsonObject) -> JsonObject:
    if call.core.advisers:
        await request_votes(call, tool, proposed)
    verdict = judge(call, tool, proposed)
    # Another process may have remembered a rule that answers the question.
    if verdict.behavior is Behavior.ASK and await call.core.host.remembered.sync():
        verdict = judge(call, tool, proposed)
    if verdict.behavior is Behavior.ALLOW:
        call.note(steps.JUDGED, call.decided(verdict, _encoded(call, proposed)))
        call.votes = replace(call.votes, allowed_until=verdict.expires_at)
        return proposed
    if verdict.behavior is Behavior.DENY:
        call.note(steps.REFUSED, call.decided(verdict, _encoded(call, proposed)))
        raise ToolFailure(denial(call, tool, verdict))
    return await ask(call, tool, proposed, verdict)


def has_expired(call: Call) -> bool:
    """Return whether the permission of a call has expired (AT-PERM-28)."""
    return call.votes.allowed_until is not None and has_passed(call.votes.allowed_until, call.core.timestamp())


def _encoded(call: Call, proposed: JsonObject) -> bytes:
    return call.request.model_input if not call.mutation_refs else json_bytes(proposed)
