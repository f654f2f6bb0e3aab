"""Judge one input: run the hooks, ask the advisers, evaluate the policy, and check an input that replaces it."""

import logging
from collections.abc import Awaitable, Coroutine
from typing import cast

from agenttool.call.call import Call
from agenttool.call.evidence import HookRan
from agenttool.call.failures import describe_misfits, refuse_if_stopped
from agenttool.call.services import guard
from agenttool.call.tool import Tool
from agenttool.codec import clone, json_bytes, parse_object
from agenttool.errors import ToolFailure
from agenttool.hooks.execution import HookRun, HookRuns, run_hooks
from agenttool.hooks.reply import changed_fields
from agenttool.journal import steps
from agenttool.policy.approvals import edit_stands
from agenttool.policy.subject import EffectFacts
from agenttool.policy.verdict import REMEDIES, Verdict, refusal
from agenttool.policy.votes import ExternalVote, ExternalVoteKind, ExternalVoteStatus, HookVote
from agenttool.ports.advice import Advice, AdviceQuestion, Adviser
from agenttool.ports.evidence import InputNoted
from agenttool.ports.facts import Step
from agenttool.ports.hooks import HookQuestion
from agenttool.records import (
    AbortReason,
    Behavior,
    ErrorClass,
    HookEvent,
    HookId,
    InputStage,
    Json,
    JsonObject,
    MutationSource,
    ToolError,
    replace,
)
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped
from agenttool.results.redaction import MARKER, Scrubber, reject_moved_markers, restore_redacted
from agenttool.scheduler.drive import Drive, Stopped

GRACE_S = 0.5
"""How long a hook may run after it was asked to stop; enough to terminate a command."""

_DECISION = HookEvent.PERMISSION_DECISION
_REFUSALS = frozenset({ErrorClass.PERMISSION_DENIED, ErrorClass.POLICY_BLOCKED, ErrorClass.APPROVAL_REJECTED})


class HookWorld:
    """The environment of the hooks of one call."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def now_ns(self) -> int:
        """Return the current time."""
        return self._call.core.now_ns()

    def shown(self, value: JsonObject) -> JsonObject:
        """Return a redacted input; if all of it is sensitive, only the names of its members remain."""
        mask = self._call.mask
        if mask is None:
            return value
        redacted = mask.redact(value)
        return redacted if isinstance(redacted, dict) else dict.fromkeys(value, MARKER)

    def restored(self, value: JsonObject, before: JsonObject) -> JsonObject:
        """Return an input with the redacted values restored.

        Raises:
            RecordError: the hook moved a redacted value, so its meaning is unclear.
        """
        if self._call.mask is None:
            return value
        shown = self.shown(before)
        reject_moved_markers(value, shown)
        return cast("JsonObject", restore_redacted(value, before, shown))

    async def attempt(
        self, work: Coroutine[object, object, object], *, timeout_s: float
    ) -> tuple[object, Exception | None]:
        """Run a hook in the caller's task, until its deadline or until the call is stopped.

        An answer after that is dropped, because it may be a reaction to the interruption.
        """
        call, timing = self._call, self._call.core.timing
        call.drive = drive = Drive(timing.grace_period, GRACE_S, deadlines=timing.deadlines, timeout_s=timeout_s)
        try:
            answer, fault = await guard(drive.run(work))
        finally:
            call.drive = None
        if drive.caller_canceled is not None:  # it is raised once the result is written
            call.stop.interrupted = call.stop.interrupted or drive.caller_canceled
            call.stop.reason = call.stop.reason or AbortReason.USER_INTERRUPTION
        if drive.is_late:
            left = isinstance(answer, Stopped) and answer.abandoned
            message = f"no answer within {timeout_s:g} s" + ("; it ignored that, and was left behind" if left else "")
            return None, TimeoutError(message)
        if drive.stop_asked or isinstance(answer, Stopped):
            return None, InterruptedError("it was stopped before it answered")
        return answer, fault


_STEPS: dict[HookEvent, tuple[Step, Step]] = {
    HookEvent.PRE_TOOL_USE: (steps.PRE_HOOKS_STARTED, steps.PRE_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.POST_TOOL_USE_FAILURE: (steps.POST_HOOKS_STARTED, steps.POST_HOOKS_COMPLETED),
    HookEvent.PERMISSION_REQUEST: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.PERMISSION_DECISION: (steps.SIDE_HOOKS_STARTED, steps.SIDE_HOOKS_COMPLETED),
    HookEvent.RESULT_PERSISTENCE: (steps.SIDE_POST_STARTED, steps.SIDE_POST_COMPLETED),
}


async def run_hooks_at(
    call: Call,
    tool: Tool,
    event: HookEvent,
    value: JsonObject,
    *,
    output: Json = None,
    details: JsonObject | None = None,
) -> HookRuns:
    """Run the hooks of one event in order, and record a started and a completed step.

    Their permission votes are stored for the decision.
    """
    started, completed = _STEPS[event]
    hooks = tool.hooks.get(event, ())
    question = HookQuestion(
        hook_event=event,
        invocation_id=call.invocation_id,
        tool_id=tool.tool_id,
        tool_name=tool.name,
        input=value,
        output=output,
        details=details,
    )
    call.note(started, {"hook_event": event.value, "hooks": len(hooks)})
    outcome = await run_hooks(hooks, question, HookWorld(call))
    if call.scrubber is not None:
        outcome.runs = [_scrubbed_run(run, call.scrubber) for run in outcome.runs]
    counts = call.counts
    for run in outcome.runs:
        counts.hook_runs += 1
        if run.reply.progress is not None:
            call.report(run.reply.progress)
        hook_id = HookId(f"hook_{call.unique}-{counts.hook_runs}")
        behavior, reason = run.reply.permission_result, run.reply.permission_reason
        if behavior is not None:
            vote = HookVote(hook=run.hook.name, hook_ref=hook_id, behavior=behavior, message=reason)
            call.votes = replace(call.votes, hooks=(*call.votes.hooks, vote))
        call.note(completed, HookRan(run, event, hook_id), run.ended_ns)
    return outcome


def visible(mapped: Mapped) -> Json:
    """Return the model-facing text, which hooks may see; the raw output may contain secrets (G-28)."""
    return [item.text for item in mapped.result.model_facing_content or () if item.text is not None]


def _scrubbed_run(run: HookRun, scrubber: Scrubber) -> HookRun:
    """Return a run without the secrets of the call in its texts."""
    reply = run.reply

    def clean(text: str | None) -> str | None:
        return None if text is None else scrubber.text(text)

    scrubbed = replace(
        reply,
        message=clean(reply.message),
        progress=clean(reply.progress),
        stop=clean(reply.stop),
        permission_reason=clean(reply.permission_reason),
        additional_context=tuple(cast("JsonObject", scrubber.value(each)) for each in reply.additional_context),
    )
    return run._replace(reply=scrubbed, fault=clean(run.fault))


def refuse_stop_and_fault(call: Call, outcome: HookRuns, *, fault_class: ErrorClass) -> None:
    """Raise the failure if a hook stopped the call or failed.

    A call that is stopped before its tool runs is canceled, even if the interrupted hook failed. Once the tool has
    run, an interrupted hook counts as failed.

    Raises:
        ToolFailure: canceled, hook_blocked, or `fault_class`.
    """
    if not call.started_ns:
        refuse_if_stopped(call)
    failed, stopped = outcome.failed, outcome.stopped_by
    if failed is not None:
        raise ToolFailure(guided(fault_class, phase=call.phase, message=failed.fault or "a hook failed"))
    if stopped is not None:
        message = f"hook {stopped.hook.name!r} stopped the call: {stopped.reply.stop}"
        raise ToolFailure(guided(ErrorClass.HOOK_BLOCKED, phase=call.phase, message=message))


def decide_with_hooks(
    call: Call, tool: Tool, proposed: JsonObject, deciding: Awaitable[JsonObject]
) -> Awaitable[JsonObject]:
    """Await the decision about a call, run the `permission_decision` hooks, and return the input that may run.

    Raises:
        ToolFailure: the call was denied, which hooks cannot change; or a hook stopped an allowed call, or failed.
    """
    return _decide_and_run_hooks(call, tool, proposed, deciding) if _DECISION in tool.hooks else deciding


async def _decide_and_run_hooks(
    call: Call, tool: Tool, proposed: JsonObject, deciding: Awaitable[JsonObject]
) -> JsonObject:
    try:
        call_input = await deciding
    except ToolFailure as refused:
        if refused.error.error_class in _REFUSALS:
            await _run_decision_hooks(call, tool, proposed, Behavior.DENY)
        raise
    outcome = await _run_decision_hooks(call, tool, call_input, Behavior.ALLOW)
    refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.HOOK_FAILED)
    return call_input


async def _run_decision_hooks(call: Call, tool: Tool, value: JsonObject, behavior: Behavior) -> HookRuns:
    return await run_hooks_at(call, tool, _DECISION, value, details={"behavior": behavior.value})


log = logging.getLogger("agenttool.approvals")


def judge(call: Call, tool: Tool, proposed: JsonObject) -> Verdict:
    """Return the verdict of the policy on an input, with the votes of hooks and advisers.

    The standing verdict of the tool is used if there are no votes and no rule depends on the arguments.
    """
    policy, hook_votes, external_votes = call.core.policy, call.votes.hooks, call.votes.advisers
    if not hook_votes and not external_votes and not tool.subject.computed:
        standing = policy.standing(tool.subject, proposed)
        if standing is not None:
            return standing
    facts = None
    if tool.subject.computed:
        known = tool.safety.facts_for(proposed).record
        facts = EffectFacts(
            is_read_only=bool(known.is_read_only),
            is_destructive=known.is_destructive is not False,
            is_open_world=known.is_open_world is not False,
        )
    now = call.core.timestamp()
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
    """Return the error of a call that a verdict denies; log what the developer can change."""
    remedies = (verdict.reason.details or {}).get(REMEDIES)
    if remedies:
        lines = "\n".join(f"  {line}" for line in str(remedies).splitlines())
        log.warning("%s was denied: %s. One of these changes that:\n%s", tool.name, verdict.reason.message, lines)
    return refusal(verdict)


def is_denied(call: Call, tool: Tool, value: JsonObject) -> bool:
    """Return whether the rules deny an input, so that no preflight needs to run (G-22)."""
    return judge(call, tool, value).behavior is Behavior.DENY


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
        reason=replace(verdict.reason, message=message and scrubber.text(message)),
        blocked_path=path and scrubber.text(path),
        pending_classifier_check=check and scrubber.part(check),
    )


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
    advice, fault = await world.attempt(_advised(adviser, question), timeout_s=adviser.timeout_s)
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


async def _advised(adviser: Adviser, question: AdviceQuestion) -> object:
    return await adviser.judge.advise(question)


_STAGES = {
    MutationSource.HOOK: (InputStage.OBSERVABLE_INPUT, (InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT)),
    MutationSource.PERMISSION_PROMPT: (InputStage.PERMISSION_INPUT, (InputStage.CALL_INPUT,)),
}
"""For each source of a change: the stage of the input that it replaces, and the stages that get the new input."""


def check_replacement(
    call: Call, tool: Tool, before: JsonObject, after: JsonObject, source: MutationSource
) -> JsonObject:
    """Return a copy of the new input with its defaults, if it is valid; or `before`, if nothing is changed.

    Raises:
        ToolFailure: input_mutation_failed, schema_validation_failed, invalid_arguments.
    """
    after = tool.with_defaults(parse_object(json_bytes(after)))[0]  # a copy: its author may change the original
    if not changed_fields(before, after):
        return before
    policy = tool.mutation_policy
    if (policy.hooks if source is MutationSource.HOOK else policy.permission_prompts) is False:
        message = f"{tool.name!r} allows no replacement of its input by a {source.value}; call it with what it needs"
        raise ToolFailure(guided(ErrorClass.INPUT_MUTATION_FAILED, phase=call.phase, message=message))
    if not tool.check_runtime.accepts(after):
        message = f"the replaced input does not fit: {describe_misfits(tool.check_runtime.misfits(after))}"
        raise ToolFailure(guided(ErrorClass.SCHEMA_VALIDATION_FAILED, phase=call.phase, message=message))
    if tool.convert is not None:
        call.arguments = after, tool.convert(after)
    if tool.check_values is not None:
        tool.check_values(clone(after))
    return after


def replace_input(
    call: Call, tool: Tool, before: JsonObject, after: JsonObject, source: MutationSource, source_ref: str
) -> JsonObject:
    """Return the replaced input after policy, schema and the tool's own checks accept it.

    Raises:
        ToolFailure: input_mutation_failed, schema_validation_failed, invalid_arguments, or a preflight failed.
    """
    after = check_replacement(call, tool, before, after, source)
    if after is before:
        return before
    if tool.preflight is not None and not is_denied(call, tool, after):
        tool.preflight(clone(after))
    after = tool.with_integers(after) if tool.validated is None else tool.validated(after)
    call.learn_secrets(tool.redactor, after)
    from_stage, stages = _STAGES[source]
    note = InputNoted(
        stages,
        json_bytes(after),
        call.mask,
        source,
        source_ref,
        from_stage,
        changed_fields(before, after),
        None,
        call.next_mutation(),
    )
    call.note(steps.INPUT_CHANGED, note)
    return after
