"""The votes of advisers: classifiers and policy engines that are asked before the rules decide."""

from agenttool.codec import json_bytes, parse_object
from agenttool.pipeline.call import Call
from agenttool.pipeline.hook_runs import HookWorld
from agenttool.pipeline.tool import Tool
from agenttool.policy.votes import ExternalVote, ExternalVoteKind, ExternalVoteStatus
from agenttool.ports.advice import Advice, AdviceQuestion, Adviser
from agenttool.records import Behavior, JsonObject, replace

_BEHAVIORS = frozenset(Behavior)


async def request_votes(call: Call, tool: Tool, proposed: JsonObject) -> None:
    """Request the vote of every adviser and store the votes for the decision."""
    votes = tuple([await _ask_adviser(call, tool, proposed, each) for each in call.core.advisers])
    call.votes = replace(call.votes, advisers=votes)


async def _ask_adviser(call: Call, tool: Tool, proposed: JsonObject, adviser: Adviser) -> ExternalVote:
    world = HookWorld(call)
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
    is_valid = fault is None and isinstance(advice, Advice) and advice.behavior in (None, *_BEHAVIORS)
    if not is_valid or not isinstance(advice, Advice):
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
