"""Approvals: ask an approver about a call, wait for the answer, and record it as a second decision.

The answer covers only the input that the approver was shown. Without a durable store, only this process can give it, by
`answer`. On a durable store any process can (`stored_approvals.py`); recovery delivers it to the process of the call.
"""

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from agenttool.call.call import Call, Core
from agenttool.call.checkpoint import CheckpointKind, flush, save_checkpoint
from agenttool.call.evidence import AnswerGiven, Decided
from agenttool.call.failures import failure_of_stop
from agenttool.call.judge import (
    check_replacement,
    denial,
    judge,
    refuse_if_denied,
    replace_input,
    request_votes,
)
from agenttool.call.running import resolve, run_stoppable
from agenttool.call.services import Approve
from agenttool.call.tool import Tool
from agenttool.codec import Lazy, clone, json_bytes
from agenttool.codec.moments import later_timestamp, timestamp
from agenttool.errors import ConfigError, RecordError, ToolFailure
from agenttool.journal import steps
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Answered,
    Approver,
    ByRules,
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
    rules_record,
)
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule
from agenttool.policy.suggest import suggest
from agenttool.policy.targets import CallTargets
from agenttool.policy.verdict import SuggestedUpdates, Verdict, with_note
from agenttool.ports.evidence import input_digest
from agenttool.records import (
    UNSET,
    ApprovalId,
    Behavior,
    DecisionId,
    Digest,
    ErrorClass,
    JsonObject,
    MutationSource,
    PermissionDecision,
    Phase,
    SuggestedUpdate,
    ToolError,
)
from agenttool.records import replace as replace_record
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask, Scrubber, reject_moved_markers, restore_redacted

log = logging.getLogger("agenttool.approvals")


def remember(core: Core, rule: Rule) -> None:
    """Add a rule, also to all ancestors: a rule takes effect only if the parent's policy agrees."""
    policy = core.policy
    if core.parent is not None:
        remember(core.parent, rule)
        policy = replace(policy, parent=core.parent.policy)
    core.policy = policy.with_book(policy.book.with_rule(rule))
    core.host.policy_changed()


def forget(core: Core, rule: Rule) -> None:
    """Remove a rule. Sub-agents lose it too: they never get more permissions than their parent."""
    core.policy = core.policy.with_book(core.policy.book.without(rule.ref))
    core.host.policy_changed()


def answer(
    core: Core, approval_id: ApprovalId, given: Answer, *, by: Approver, shown: Question | Digest | None = None
) -> Answered | Refused:
    """Record an approver's answer to an open question and resume its call; the first answer stands."""
    question = core.questions.book.get(approval_id) if isinstance(cast("object", approval_id), str) else None
    call = None if question is None else core.registry.calls.get(question.invocation_id)
    if question is not None:
        fault = fault_of_edit(call, question, given, None if call is None else call.final_input)
        if fault is not None:
            return Refused(approval_id=approval_id, reason=RefusalReason.BAD_INPUT, message=fault)
        if _is_closed(core, question):
            core.questions.book.withdraw(approval_id, core.timestamp())
    outcome = core.questions.book.answer(approval_id, given, by=by, now=core.timestamp(), shown=shown)
    if isinstance(outcome, Answered):
        if call is not None:
            call.ensure_recovery().may_finish = True
        waiting = core.questions.waiting.get(approval_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)
    return outcome


def _is_closed(core: Core, question: Question) -> bool:
    """Return whether the call no longer waits, although its question is still open."""
    waiting, call = (
        core.questions.waiting.get(question.approval_id),
        core.registry.calls.get(question.invocation_id),
    )
    return (waiting is not None and waiting.done()) or (call is not None and call.stop.reason is not None)


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
    note = None if call.background is None else call.background.note_for_approver
    core, question = call.core, _open(call, tool, proposed, verdict if note is None else with_note(verdict, note))
    call.final_input = proposed
    if core.questions.notify is not None:
        core.questions.notify(question)
    core.questions.unstored.add(question.approval_id)
    answered = await wait_for_answer(call, question)
    return await conclude(call, tool, proposed, question, answered)


async def conclude(
    call: Call, tool: Tool, proposed: JsonObject, question: Question, answered: Answered | None
) -> JsonObject:
    """Record the answer to a question, or its expiry, and return the input that may run.

    Raises:
        ToolFailure: approval_rejected, permission_denied (no answer in time), or an edited input is invalid.
    """
    decision_id = call.next_decision()
    if answered is None:
        now = call.core.timestamp()
        return _refused(call, Lazy(lambda: expiry_record(question, decision_id=decision_id, decided_at=now)))
    call.ensure_recovery().may_finish = True
    if isinstance(answered.answer, ByRules):
        return await _decide_by_rules(call, tool, proposed, question, decision_id)
    return await _conclude_answer(call, tool, proposed, answered, decision_id)


async def _conclude_answer(
    call: Call, tool: Tool, proposed: JsonObject, answered: Answered, decision_id: DecisionId
) -> JsonObject:
    core, question = call.core, answered.question
    call.votes = replace_record(call.votes, allowed_until=question.expires_at)
    made = Lazy(partial(_decision_of, answered, decision_id, call.mask))
    if isinstance(answered.answer, Edit):
        fault = fault_of_edit(call, question, answered.answer, proposed)
        if fault is not None and core.questions.approve is None:
            return await _ask_again(call, tool, proposed, question, made, fault)
        edited = await _edited(call, tool, proposed, answered, decision_id)
        _refuse_if_changed(call, tool, edited)
        return edited
    if isinstance(answered.answer, Deny):
        return _refused(call, made)
    if answered.rule is not None:
        remember(core, answered.rule)
    call.note(steps.ANSWERED, AnswerGiven(made))
    save_checkpoint(call, CheckpointKind.APPROVED, proposed, question)
    given = answered.answer
    is_for_store = isinstance(given, Remember) and given.scope is RememberScope.STORE
    if answered.rule is not None and is_for_store:
        await flush(call)  # the journal has the rule before other processes look for it
        await core.host.remembered.add(question, answered.rule)
    _refuse_if_changed(call, tool, proposed)
    return proposed


async def _decide_by_rules(
    call: Call, tool: Tool, proposed: JsonObject, question: Question, decision_id: DecisionId
) -> JsonObject:
    """Record the decision of rules that were added after the question; ask again if no rule decides any more.

    Raises:
        ToolFailure: permission_denied, policy_blocked; or as `ask`.
    """
    verdict = judge(call, tool, proposed)
    now = call.core.timestamp()
    decided = AnswerGiven(Lazy(lambda: rules_record(question, verdict, decision_id, now)))
    if verdict.behavior is Behavior.DENY:
        call.note(steps.ANSWERED_NO, decided)
        raise ToolFailure(denial(call, tool, verdict))
    call.note(steps.ANSWERED, decided)
    if verdict.behavior is Behavior.ASK:
        return await ask(call, tool, proposed, verdict)
    call.votes = replace_record(call.votes, allowed_until=verdict.expires_at)
    save_checkpoint(call, CheckpointKind.APPROVED, proposed, question)
    _refuse_if_changed(call, tool, proposed)
    return proposed


def questions_for_rules(core: Core) -> list[ApprovalId]:
    """Return the questions of this process that rules decide now."""
    found: list[ApprovalId] = []
    for approval_id in core.questions.waiting:
        question = core.questions.book.get(approval_id)
        call = None if question is None else core.registry.calls.get(question.invocation_id)
        if call is not None and call.tool is not None and call.stop.reason is None:
            verdict = judge(call, call.tool, call.final_input)
            if verdict.behavior is not Behavior.ASK:
                found.append(approval_id)
    return found


async def _ask_again(
    call: Call, tool: Tool, proposed: JsonObject, question: Question, made: Lazy[PermissionDecision], fault: str
) -> JsonObject:
    """Ask again after an edit that cannot run; the process that accepted it could not check it without the tool."""
    log.warning("the edited input of %s of %r is refused: %s", question.approval_id, question.tool_name, fault)
    call.note(steps.ANSWERED, AnswerGiven(_with_input_digest(made, None)))
    return await ask(call, tool, proposed, question.verdict)


def _open(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> Question:
    """Open a question about a call, record it, and return it."""
    core, now, decision_id = call.core, call.core.now_ns(), call.next_decision()
    judged = json_bytes(proposed)  # as for `input_digest`: model_input may have `1.0` for an integer
    shown = clone(proposed)
    shown = shown if call.mask is None else call.mask.redact(shown)
    question = Question(
        approval_id=ApprovalId(f"apr_{decision_id.removeprefix('dec_')}"),
        invocation_id=call.invocation_id,
        decision_id=decision_id,
        tool_id=tool.tool_id,
        tool_name=tool.name,
        shown=shown,
        input_digest=input_digest(proposed, call.mask, call.digest_key),
        declaration_digest=tool.subject.declaration_digest,
        verdict=verdict,
        suggestions=_suggested(call, tool, proposed, verdict),
        asked_at=timestamp(now),
        expires_at=later_timestamp(now + round(core.questions.ttl_s * 1e9)),
    )
    core.questions.book.open(question)
    evidence = Decided(
        verdict,
        judged,
        question.decision_id,
        call.mask,
        question.suggestions,
        question.approval_id,
        call.digest_key,
    )
    call.note(steps.ASKED, evidence)
    return question


async def wait_for_answer(call: Call, question: Question) -> Answered | None:
    """Return the first answer to a question, of the program's approver or of any other; none if it expires.

    The program's approver is asked first. If its answer needs no wait, the question is never stored.

    Raises:
        ToolFailure: canceled, dependency_unavailable.
    """
    questions, approval_id = call.core.questions, question.approval_id
    future = questions.waiting[approval_id] = call.core.timing.loop.create_future()
    try:
        asking = None if questions.approve is None else _ask_program(call, questions.approve, question)
        if future.done() and asking is None:
            return cast("Answered", future.result())
        if approval_id in questions.unstored and not future.done():
            questions.unstored.discard(approval_id)
            save_checkpoint(call, CheckpointKind.ASKED, call.final_input, question)
        answered = await _wait_for_answer(call, question, future, asking)
    finally:
        questions.unstored.discard(approval_id)
        del questions.waiting[approval_id]
        if questions.book.get(approval_id) is not None:
            questions.book.withdraw(approval_id, call.core.timestamp())
    return answered or await call.core.host.stored_answer(question)


_Asking: TypeAlias = tuple[Coroutine[object, object, None], object]
"""The running `approve` function of the program, and the future that it waits for first."""


def _ask_program(call: Call, approve: Approve, question: Question) -> _Asking | None:
    """Ask the approver of the program; return none if it has answered without a wait."""
    asking = call.core.host.ask_approver(approve, question)
    try:
        return asking, asking.send(None)
    except StopIteration:
        return None


async def _wait_for_answer(
    call: Call, question: Question, future: "asyncio.Future[object]", asking: _Asking | None
) -> Answered | None:
    """Store a question, and wait for its first answer; none if it expires.

    The call waits in its caller's task; a cancellation withdraws the question. The drive exists before the question is
    stored, because from then on the runtime may be closed, and the call must be parked.

    Raises:
        ToolFailure: canceled, dependency_unavailable.
    """
    deadlines, ttl_s = call.core.timing.deadlines, call.core.questions.ttl_s
    # If the tool's own work is to ask a person, the timeouts of its callers include the wait; approvals pause them.
    is_work = call.tool is not None and bool(call.tool.subject.interface.requires_user_interaction)
    with deadlines.within(ttl_s, partial(resolve, future)):
        try:
            with call.without_permits(), paused_timeouts(None if is_work else call.parent):
                if asking is not None:
                    await _until_program_answers(call, question, future, asking)
                answered = await run_stoppable(call, _first_answer(call, future))
        except ToolFailure:
            # An answer that was accepted is recorded, although the call does not run.
            answered = None if call.is_parked else await _withdraw(call, question, future)
            if answered is None:
                raise
    return cast("Answered | None", answered)


async def _first_answer(call: Call, future: "asyncio.Future[object]") -> object:
    if not future.done():
        await flush(call)
    if future.done():
        return future.result()
    call.become_idle()  # people are asked, or the answer of the program could not be stored
    try:
        return await future
    finally:
        call.resume()


async def _until_program_answers(
    call: Call, question: Question, future: "asyncio.Future[object]", asking: _Asking
) -> None:
    """Wait for the end of the program's approver, which did not answer at once; it is canceled with the call.

    The call waits for nothing else before this: the approver may hold a resource that such a wait needs, such as the
    next commit.

    Raises:
        ToolFailure: canceled.
    """
    questions, drive = call.core.questions, call.new_drive()
    questions.for_program.add(question.approval_id)
    future.add_done_callback(lambda _: drive.stop())  # another approver was faster
    try:
        await drive.carry(*asking)
    finally:
        call.drive = None
        questions.for_program.discard(question.approval_id)
    if drive.caller_canceled is not None:
        call.stop.interrupted = drive.caller_canceled
    if drive.caller_canceled is not None or call.is_parked:
        raise ToolFailure(failure_of_stop(call))


async def _withdraw(call: Call, question: Question, future: "asyncio.Future[object]") -> object:
    if future.done() and not future.cancelled():
        return future.result()
    return await call.core.host.withdraw_question(question)


def _suggested(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> SuggestedUpdates:
    """Return rules that would answer the question, without those that contain a secret of the call.

    Paths and commands are resolved at once, because their symbolic links may change later.
    """
    policy = call.core.policy
    targets = policy.targets(tool.subject, proposed, call.request.actor_ref)
    found = Lazy(partial(_suggest, policy, verdict, targets, call.scrubber))
    if targets.may_name_files and (targets.paths or targets.lines):
        _ = found.value
    return found


def _suggest(
    policy: Policy, verdict: Verdict, targets: CallTargets, scrubber: Scrubber | None
) -> tuple[SuggestedUpdate, ...]:
    found = suggest(policy, verdict, targets)
    return found if scrubber is None else tuple(each for each in found if scrubber.part(each) is each)


def _decision_of(answered: Answered, decision_id: DecisionId, mask: InputMask | None) -> PermissionDecision:
    """Return the decision of an answer, without the secrets of its call."""
    decision = answer_record(answered, decision_id=decision_id)
    if mask is not None and decision.updated_input is not UNSET:
        decision = replace_record(decision, updated_input=mask.redact(decision.updated_input))
    scrub = None if mask is None else mask.scrubber
    if scrub is None:
        return decision
    feedback = decision.accept_feedback
    return replace_record(
        decision,
        accept_feedback=feedback and scrub.text(feedback),
        content_blocks=decision.content_blocks and tuple(map(scrub.part, decision.content_blocks)),
        suggested_updates=decision.suggested_updates and tuple(map(scrub.part, decision.suggested_updates)),
    )


def _with_input_digest(made: Lazy[PermissionDecision], digest: Digest | None) -> Lazy[PermissionDecision]:
    return Lazy(lambda: replace_record(made.value, input_digest=digest))


def record_unused_answer(call: Call, answered: Answered) -> None:
    """Record an answer to a canceled call; without its tool, omit an edited input, which may be sensitive."""
    decision_id = call.next_decision()
    made = Lazy(partial(_decision_of, answered, decision_id, call.mask))
    if isinstance(answered.answer, Edit):
        updated = UNSET if call.tool is None else made.value.updated_input
        decision = replace_record(made.value, updated_input=updated, input_digest=None)
        made = Lazy(lambda: decision)
    step = steps.ANSWERED_NO if isinstance(answered.answer, Deny) else steps.ANSWERED
    call.note(step, AnswerGiven(made))


def _refused(call: Call, made: Lazy[PermissionDecision]) -> JsonObject:
    """Record that an approver denied the call, or that the question expired, and raise the failure."""
    call.note(steps.ANSWERED_NO, AnswerGiven(made))
    raise ToolFailure(rejection(made.value))


async def _edited(
    call: Call, tool: Tool, proposed: JsonObject, answered: Answered, decision_id: DecisionId
) -> JsonObject:
    """Validate an edited input, and return it. The answer is recorded either way.

    Raises:
        ToolFailure: it is invalid.
    """
    updated = cast("JsonObject", cast("Edit", answered.answer).input)
    if call.mask is not None:
        updated = cast("JsonObject", restore_redacted(updated, proposed, answered.question.shown))
        call.learn_secrets(tool.redactor, updated)
    made, digest = Lazy(partial(_decision_of, answered, decision_id, call.mask)), None
    try:
        edited = replace_input(call, tool, proposed, updated, MutationSource.PERMISSION_PROMPT, decision_id)
        digest = input_digest(edited, call.mask, call.digest_key)
    finally:  # the approval of an invalid input covers none
        call.note(steps.ANSWERED, AnswerGiven(_with_input_digest(made, digest)))
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


@contextmanager
def paused_timeouts(call: Call | None) -> Generator[None]:
    """Pause the timeouts of a call and its ancestors; pauses are counted."""
    paused: list[Call] = []
    while call is not None:
        paused.append(call)
        call = call.parent
    for each in paused:
        each.ensure_timer().pause()
    try:
        yield
    finally:
        for each in paused:
            each.ensure_timer().resume()
