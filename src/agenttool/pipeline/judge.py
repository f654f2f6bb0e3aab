"""Judge one input: ask the advisers, and evaluate the policy with the votes of hooks and advisers."""

from dataclasses import replace

from agenttool.codec import json_bytes, parse_object
from agenttool.codec.moments import timestamp
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.hook_runs import HookWorld
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import edit_stands
from agenttool.policy.subject import EffectFacts
from agenttool.policy.verdict import Verdict, refusal
from agenttool.policy.votes import ExternalVote, ExternalVoteKind, ExternalVoteStatus
from agenttool.ports.advice import Advice, AdviceQuestion, Adviser
from agenttool.records import Behavior, JsonObject, ToolError
from agenttool.records import replace as replace_record
from agenttool.results.redaction import Scrubber


def judge(call: Call, tool: Tool, proposed: JsonObject) -> Verdict:
    """Return the verdict of the policy; it is cached for tools without rules about arguments."""
    policy, hook_votes, external_votes = call.core.policy, call.votes.hooks, call.votes.advisers
    if not hook_votes and not external_votes and not tool.has_computed_facts:
        standing = policy.standing(tool.subject)
        if standing is not None:
            return standing
    facts = None
    if tool.has_computed_facts:
        known = tool.safety.facts_for(proposed).record
        facts = EffectFacts(
            is_read_only=bool(known.is_read_only),
            is_destructive=known.is_destructive is not False,
            is_open_world=known.is_open_world is not False,
        )
    now = timestamp(call.core.now_ns())
    verdict = policy.decide(
        tool.subject,
        proposed,
        now=now,
        actor=call.request.actor_ref,
        actor_roles=call.request.actor_roles,
        facts=facts,
        hook_votes=hook_votes,
        external_votes=external_votes,
    )
    return verdict if call.scrubber is None else _scrubbed(verdict, call.scrubber)


def denial(call: Call, tool: Tool, verdict: Verdict) -> ToolError:
    """Return the error of a call that a verdict denies."""
    return refusal(verdict, tool.name, tool.entry.tool.declaration.tool_kind, call.core.policy.remedies)


def is_denied(call: Call, tool: Tool, value: JsonObject) -> bool:
    """Return whether the rules deny an input, so that no preflight needs to run (G-22)."""
    return judge(call, tool, tool.with_defaults(value)[0]).behavior is Behavior.DENY


def refuse_if_denied(call: Call, tool: Tool, value: JsonObject) -> None:
    """Refuse a call that was allowed before, if the rules deny it now.

    Raises:
        ToolFailure: permission_denied, policy_blocked.
    """
    verdict = judge(call, tool, value)
    if not edit_stands(verdict):
        call.note(steps.REFUSED, call.decided(verdict, json_bytes(value)))
        raise ToolFailure(denial(call, tool, verdict))


def _scrubbed(verdict: Verdict, scrubber: Scrubber) -> Verdict:
    """Return a verdict without the secrets of the call in texts of rules, hooks and advisers."""
    message, path, check = verdict.reason.message, verdict.blocked_path, verdict.pending_classifier_check
    return replace(
        verdict,
        reason=replace_record(verdict.reason, message=message and scrubber.text(message)),
        blocked_path=path and scrubber.text(path),
        pending_classifier_check=check and scrubber.part(check),
    )


_BEHAVIORS = frozenset(Behavior)


async def request_votes(call: Call, tool: Tool, proposed: JsonObject) -> None:
    """Request the vote of every adviser and store the votes for the decision."""
    votes = tuple([await _ask_adviser(call, tool, proposed, each) for each in call.core.advisers])
    call.votes = replace_record(call.votes, advisers=votes)


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
