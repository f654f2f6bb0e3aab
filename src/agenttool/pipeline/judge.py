"""One input before the rules."""

from dataclasses import replace

from agenttool.codec.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.pipeline.tool import Tool
from agenttool.policy.subject import EffectFacts
from agenttool.policy.verdict import Verdict
from agenttool.records import Behavior, JsonObject
from agenttool.records import replace as replace_record
from agenttool.results.redaction import Scrubber
from agenttool.scheduler.call_facts import call_facts_of


def judge(call: Call, tool: Tool, proposed: JsonObject) -> Verdict:
    """Decide by the rules in force; a tool without rules about its arguments is answered from memory."""
    policy, hints, opinions = call.core.policy, call.hints, call.opinions
    if not hints and not opinions and not tool.has_computed_facts:
        standing = policy.standing(tool.subject)
        if standing is not None:
            return standing
    facts = None
    if tool.has_computed_facts:
        known = call_facts_of(tool.safety, proposed).record
        facts = EffectFacts(
            is_read_only=bool(known.is_read_only),
            is_destructive=known.is_destructive is not False,
            is_open_world=known.is_open_world is not False,
        )
    now = timestamp(call.core.now_ns())
    verdict = policy.decide(tool.subject, proposed, now=now, facts=facts, hook_votes=hints, external_votes=opinions)
    return verdict if call.scrubber is None else _scrubbed(verdict, call.scrubber)


def is_denied(call: Call, tool: Tool, value: JsonObject) -> bool:
    """Tell whether the rules deny an input anyway, so that nothing need be touched to find out more (G-22)."""
    return judge(call, tool, {**(tool.defaults or {}), **value}).behavior is Behavior.DENY


def _scrubbed(verdict: Verdict, scrubber: Scrubber) -> Verdict:
    """Take the call's secrets out of what rules, hooks and opinions said in words; refs and details are ours."""
    said, path, check = verdict.reason.message, verdict.blocked_path, verdict.pending_classifier_check
    return replace(
        verdict,
        reason=replace_record(verdict.reason, message=said and scrubber.text(said)),
        blocked_path=path and scrubber.text(path),
        pending_classifier_check=check and scrubber.part(check),
    )
