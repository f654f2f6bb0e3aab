"""Approvals: ask an approver about a call, wait for the answer, and record it as a second decision.

The answer covers only the input that the approver was shown. In memory it is given by `answer`; on a durable store any
process may give it (`stored_approvals.py`), and recovery delivers it to the process of the call.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import cast

from agenttool.codec import json_bytes, parse_object
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError, RecordError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.checkpoint import CheckpointKind, flush, save_checkpoint
from agenttool.pipeline.evidence import AnswerGiven, Decided
from agenttool.pipeline.input_replacement import Replacement, check_replacement, replace_input
from agenttool.pipeline.judge import denial, judge, refuse_if_denied, request_votes
from agenttool.pipeline.remembered_rules import remember
from agenttool.pipeline.running import run_stoppable
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Answered,
    Approver,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    Remember,
    RememberScope,
    answer_record,
    edit_stands,
    expiry_record,
    rejection,
)
from agenttool.policy.suggest import suggest
from agenttool.policy.verdict import Verdict
from agenttool.ports.evidence import input_digest
from agenttool.records import (
    UNSET,
    ApprovalId,
    Behavior,
    DecisionId,
    Digest,
    ErrorClass,
    InputStage,
    JsonObject,
    MutationSource,
    PermissionDecision,
    Phase,
    SuggestedUpdate,
    ToolError,
    replace,
)
from agenttool.results.failure import guided
from agenttool.results.redaction import reject_moved_markers, restore_redacted

log = logging.getLogger("agenttool.approvals")


def answer(
    core: Core, approval_id: ApprovalId, given: Answer, *, by: Approver, shown_digest: Digest | None = None
) -> Answered | Refused:
    """Record an approver's answer to an open question and resume its call; the first answer stands."""
    question = core.questions.book.get(approval_id) if isinstance(cast("object", approval_id), str) else None
    asking = None if question is None else core.registry.calls.get(question.invocation_id)
    if question is not None:
        fault = fault_of_edit(asking, question, given, None if asking is None else asking.final_input)
        if fault is not None:
            return Refused(approval_id=approval_id, reason=RefusalReason.BAD_INPUT, message=fault)
        if _is_closed(core, question):
            core.questions.book.withdraw(approval_id, timestamp(core.now_ns()))
    outcome = core.questions.book.answer(
        approval_id, given, by=by, now=timestamp(core.now_ns()), shown_digest=shown_digest
    )
    if isinstance(outcome, Answered):
        if asking is not None:
            asking.ensure_recovery().may_finish = True
        waiting = core.questions.waiting.get(approval_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)
    return outcome


def _is_closed(core: Core, question: Question) -> bool:
    """Return whether the call no longer waits, although its question is still open."""
    waiting, asking = (
        core.questions.waiting.get(question.approval_id),
        core.registry.calls.get(question.invocation_id),
    )
    return (waiting is not None and waiting.done()) or (asking is not None and asking.stop.reason is not None)


def answer_in(word: str, updated_input: JsonObject | None, message: str | None) -> Answer:
    """Return the answer for the word "allow" or "deny".

    Raises:
        ConfigError: it is another word.
    """
    if word == "deny":
        return Deny(message=message)
    if word != "allow":
        raise ConfigError(f"an answer is 'allow' or 'deny', got {word!r}; use one of them")
    return Allow(feedback=message) if updated_input is None else Edit(input=updated_input, feedback=message)


def fault_of_edit(call: Call | None, question: Question, given: Answer, asked: JsonObject | None) -> str | None:
    """Return why an edited input cannot run: it moves a redacted value, is invalid, or is denied by rules.

    Without the call and its tool, only the first is checked; the process of the call checks the rest.

    Args:
        call: the call, with its tool if that is known here; none if it is not.
        question: the question that the edit answers.
        given: the answer; one that is no edit has no fault.
        asked: the input that was asked about.
    """
    if not isinstance(given, Edit):
        return None
    tool = None if call is None else call.tool
    try:
        if call is None or tool is None or call.mask is not None:
            reject_moved_markers(given.input, question.shown)
        if call is None or tool is None or asked is None or not isinstance(given.input, dict):
            return None
        restored = given.input if call.mask is None else restore_redacted(given.input, asked, question.shown)
        error = _why_refused(call, tool, asked, cast("JsonObject", restored))
    except RecordError as fault:
        return str(fault)
    message = None if error is None else error.message or str(error.error_class)
    return message if message is None or call.scrubber is None else call.scrubber.text(message)


def _why_refused(call: Call, tool: Tool, asked: JsonObject, edited: JsonObject) -> ToolError | None:
    """Return the error of an edited input that is invalid or that rules deny; none if it may run."""
    try:
        verdict = judge(call, tool, check_replacement(call, tool, asked, edited, MutationSource.PERMISSION_PROMPT))
    except ToolFailure as failure:
        return failure.error
    return None if edit_stands(verdict) else denial(call, tool, verdict)


async def ask(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> JsonObject:
    """Wait for an answer and return the input that it allows.

    Raises:
        ToolFailure: approval_rejected, permission_denied (no answer in time), canceled, or an edited input is invalid.
    """
    core, question = call.core, _open(call, tool, proposed, verdict)
    call.final_input = proposed
    if core.questions.notify is not None:
        core.questions.notify(question)
    if core.durable:
        save_checkpoint(call, CheckpointKind.ASKED, proposed, question)
    answered = await wait_for_answer(call, question)
    return await conclude(call, tool, proposed, question, answered)


async def conclude(
    call: Call, tool: Tool, proposed: JsonObject, question: Question, answered: Answered | None
) -> JsonObject:
    """Record the answer to a question, or its expiry, and return the input that may run.

    Raises:
        ToolFailure: approval_rejected, permission_denied (no answer in time), or an edited input is invalid.
    """
    core = call.core
    call.counts.decisions += 1
    decision_id = DecisionId(f"dec_{call.unique}-{call.counts.decisions}")
    if answered is None:
        return _refused(call, expiry_record(question, decision_id=decision_id, decided_at=timestamp(core.now_ns())))
    call.votes = replace(call.votes, allowed_until=question.expires_at)
    call.ensure_recovery().may_finish = True
    decision = answer_record(answered, decision_id=decision_id)
    if isinstance(answered.answer, Edit):
        fault = fault_of_edit(call, question, answered.answer, proposed)
        if fault is not None and core.questions.approve is None:
            return await _ask_again(call, tool, proposed, question, decision, fault)
        edited = await _edited(call, tool, proposed, answered, decision)
        _refuse_if_changed(call, tool, edited)
        return edited
    decision = _without_secrets(call, decision)
    if decision.behavior is Behavior.DENY:
        return _refused(call, decision)
    if answered.rule is not None:
        remember(core, answered.rule)
    call.note(steps.ANSWERED, AnswerGiven(decision))
    save_checkpoint(call, CheckpointKind.APPROVED, proposed, question)
    remembered, given = core.host.remembered, answered.answer
    is_for_store = isinstance(given, Remember) and given.scope is RememberScope.STORE
    if remembered is not None and answered.rule is not None and is_for_store:
        await flush(call)  # the journal has the rule before other processes look for it
        await remembered.add(question, answered.rule)
    _refuse_if_changed(call, tool, proposed)
    return proposed


async def _ask_again(
    call: Call, tool: Tool, proposed: JsonObject, question: Question, decision: PermissionDecision, fault: str
) -> JsonObject:
    """Ask again after an edit that cannot run; the process that accepted it did not have the tool."""
    log.warning("the edited input of %s of %r is refused: %s", question.approval_id, question.tool_name, fault)
    call.note(steps.ANSWERED, AnswerGiven(replace(_without_secrets(call, decision), input_digest=None)))
    return await ask(call, tool, proposed, question.verdict)


def _open(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> Question:
    core, now = call.core, call.core.now_ns()
    call.counts.decisions += 1
    shown = parse_object(json_bytes(proposed))
    shown = shown if call.mask is None else call.mask.redact(shown)
    question = Question(
        approval_id=ApprovalId(f"apr_{call.unique}-{call.counts.decisions}"),
        invocation_id=call.invocation_id,
        decision_id=DecisionId(f"dec_{call.unique}-{call.counts.decisions}"),
        tool_id=tool.tool_id,
        tool_name=tool.name,
        shown=shown,
        input_digest=input_digest(proposed, call.mask, call.digest_key),
        declaration_digest=tool.subject.declaration_digest,
        verdict=verdict,
        suggested_updates=_suggested(call, tool, proposed, verdict),
        asked_at=timestamp(now),
        expires_at=timestamp(now + round(core.questions.ttl_s * 1e9)),
    )
    core.questions.book.open(question)
    evidence = Decided(
        verdict,
        json_bytes(proposed),
        question.decision_id,
        call.mask,
        question.suggested_updates,
        question.approval_id,
        call.digest_key,
    )
    call.note(steps.ASKED, evidence)
    return question


async def wait_for_answer(call: Call, question: Question) -> Answered | None:
    """Store a question, and return its first answer, of the program's approver or of any other; none if it expires.

    The call waits in its caller's task; a cancellation withdraws the question. Others see the question as soon as it
    is stored, and may close the runtime then: the drive exists before, so that the call is parked.

    Raises:
        ToolFailure: canceled, dependency_unavailable.
    """
    core = call.core
    future: asyncio.Future[object] = core.timing.loop.create_future()
    core.questions.waiting[question.approval_id] = future
    expiry = core.timing.deadlines.arm(core.timing.loop.time() + core.questions.ttl_s, partial(_expire, future))
    paused = pause_timeouts(call.parent)
    try:
        answered = await run_stoppable(call, _first_answer(call, question, future))
    finally:
        resume_timeouts(paused)
        core.timing.deadlines.cancel(expiry)
        del core.questions.waiting[question.approval_id]
        core.questions.book.withdraw(question.approval_id, timestamp(core.now_ns()))
    return cast("Answered | None", answered) or await core.host.stored_answer(question)


async def _first_answer(call: Call, question: Question, future: "asyncio.Future[object]") -> object:
    core, approve = call.core, call.core.questions.approve
    if core.durable:
        await flush(call)
    call.become_idle()
    if approve is None:
        return await future
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(core.host.ask_approver(approve, question))
        try:
            return await future
        finally:
            asking.cancel()


def _expire(future: "asyncio.Future[object]") -> None:
    if not future.done():
        future.set_result(None)


def _suggested(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> tuple[SuggestedUpdate, ...]:
    """Return rules that would answer the question, without those that contain a secret of the call."""
    found = suggest(call.core.policy, verdict, tool.subject, proposed, call.request.actor_ref)
    scrubber = call.scrubber
    return found if scrubber is None else tuple(each for each in found if scrubber.part(each) is each)


def _without_secrets(call: Call, decision: PermissionDecision) -> PermissionDecision:
    """Return a decision without the secrets of the call."""
    if call.mask is not None and decision.updated_input is not UNSET:
        decision = replace(decision, updated_input=call.mask.redact(decision.updated_input))
    scrub = call.scrubber
    if scrub is None:
        return decision
    feedback = decision.accept_feedback
    return replace(
        decision,
        accept_feedback=feedback and scrub.text(feedback),
        content_blocks=decision.content_blocks and tuple(map(scrub.part, decision.content_blocks)),
        suggested_updates=decision.suggested_updates and tuple(map(scrub.part, decision.suggested_updates)),
    )


def _refused(call: Call, decision: PermissionDecision) -> JsonObject:
    call.note(steps.ANSWERED_NO, AnswerGiven(decision))
    raise ToolFailure(rejection(decision))


async def _edited(
    call: Call, tool: Tool, proposed: JsonObject, answered: Answered, decision: PermissionDecision
) -> JsonObject:
    """Validate an edited input, and return it. The answer is recorded either way.

    Raises:
        ToolFailure: it is invalid.
    """
    updated = cast("JsonObject", cast("Edit", answered.answer).input)
    if call.mask is not None:
        updated = cast("JsonObject", restore_redacted(updated, proposed, answered.question.shown))
        call.learn_secrets(tool.redactor, updated)
    recordable = _without_secrets(call, decision)
    by = Replacement(
        source=MutationSource.PERMISSION_PROMPT,
        source_ref=decision.decision_id,
        from_stage=InputStage.PERMISSION_INPUT,
    )
    try:
        edited = replace_input(call, tool, proposed, updated, by)
    except ToolFailure:
        call.note(steps.ANSWERED, AnswerGiven(replace(recordable, input_digest=None)))  # the approval covers no input
        raise
    call.note(
        steps.ANSWERED,
        AnswerGiven(replace(recordable, input_digest=input_digest(edited, call.mask, call.digest_key))),
    )
    save_checkpoint(call, CheckpointKind.APPROVED, edited, answered.question)
    if call.core.advisers:
        await request_votes(call, tool, edited)
    return edited


def _refuse_if_changed(call: Call, tool: Tool, allowed: JsonObject) -> None:
    """Refuse an approved call whose tool was replaced or retired since it was asked about, or that rules deny now.

    Raises:
        ToolFailure: permission_denied, policy_blocked.
    """
    current = call.core.host.tool_of(tool.tool_id)
    if current is None or current.subject.declaration_digest != tool.subject.declaration_digest:
        raise ToolFailure(declaration_changed(tool))
    refuse_if_denied(call, tool, allowed)


def declaration_changed(tool: Tool) -> ToolError:
    """Return the error of an approved call whose tool is not the one that was asked about."""
    message = f"{tool.name!r} has changed since it was asked about, so the answer does not cover it; call it again"
    return guided(
        ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message=message, code="declaration_changed", effects=False
    )


def pause_timeouts(call: Call | None) -> tuple[Call, ...]:
    """Pause the timeouts of a call and its ancestors, and return these for `resume_timeouts`; pauses are counted."""
    paused = tuple(_with_ancestors(call))
    for each in paused:
        each.ensure_timer().pause()
    return paused


def resume_timeouts(paused: tuple[Call, ...]) -> None:
    """Resume the timeouts of calls."""
    for each in paused:
        each.ensure_timer().resume()


def _with_ancestors(call: Call | None) -> Iterator[Call]:
    while call is not None:
        yield call
        call = call.parent
