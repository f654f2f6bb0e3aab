"""Ask classifiers and policy engines about one input, before the rules decide (AT-PERM-24)."""

from agenttool.codec import json_bytes, parse_object
from agenttool.pipeline.call import Call
from agenttool.pipeline.hook_world import HookWorld
from agenttool.pipeline.tool import Tool
from agenttool.policy.votes import ExternalVote, ExternalVoteKind, ExternalVoteStatus
from agenttool.ports.advice import Advice, AdviceQuestion, Adviser
from agenttool.records import Behavior, JsonObject

_UNDERSTOOD = frozenset(Behavior)


async def consult(call: Call, tool: Tool, proposed: JsonObject) -> None:
    """Hear every adviser about an input; what they say is kept for the decision about it."""
    call.opinions = tuple([await _opinion(call, tool, proposed, each) for each in call.core.advisers])


async def _opinion(call: Call, tool: Tool, proposed: JsonObject, adviser: Adviser) -> ExternalVote:
    world = HookWorld(call, tool)
    own = parse_object(json_bytes(proposed))
    question = AdviceQuestion(
        tool_id=tool.tool_id,
        tool_name=tool.name,
        input=own if adviser.is_trusted else world.shown(own),
        actor_ref=call.request.actor_ref,
    )

    async def ask() -> object:
        return await adviser.judge.advise(question)

    advice, fault = await world.attempt(ask, timeout_s=adviser.timeout_s)
    kind = ExternalVoteKind.ENGINE if adviser.is_engine else ExternalVoteKind.CLASSIFIER
    is_heard = fault is None and isinstance(advice, Advice) and advice.behavior in (None, *_UNDERSTOOD)
    if not is_heard or not isinstance(advice, Advice):
        return ExternalVote(ref=adviser.ref, kind=kind, authority=adviser.authority, status=ExternalVoteStatus.FAILED)
    reason = advice.reason
    return ExternalVote(
        ref=adviser.ref,
        kind=kind,
        authority=adviser.authority,
        behavior=advice.behavior,
        confidence=advice.confidence,
        reason=call.scrubber.text(reason) if call.scrubber and reason else reason,
        policy_refs=advice.policy_refs,
    )
