"""An `ask` parks the call as an open question; the answer is a second decision, bound to what was shown."""

import asyncio
from typing import cast

from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.journal.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.pipeline.consult import consult
from agenttool.pipeline.digests import input_digest
from agenttool.pipeline.evidence import AnswerGiven, Decided
from agenttool.pipeline.judge import judge
from agenttool.pipeline.rejudge import Replacement, replaced
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.policy.answers import answer_record, edit_stands, expiry_record, rejection
from agenttool.policy.approvals import Answered, Edit, Question
from agenttool.policy.suggest import suggest
from agenttool.policy.verdict import Verdict, refusal
from agenttool.records import (
    UNSET,
    ApprovalId,
    Behavior,
    DecisionId,
    InputStage,
    JsonObject,
    MutationSource,
    PermissionDecision,
    replace,
)
from agenttool.results.redaction import restored
from agenttool.scheduler.drive import Drive, Stopped


async def ask(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> JsonObject:
    """Wait for an answer, and give the input that it allows.

    Raises:
        ToolFailure: approval_rejected, permission_denied (nobody answered in time), canceled, or what is wrong with an
            edited input.
    """
    question = _open(call, tool, proposed, verdict)
    answered = await _wait(call, question)
    core = call.core
    call.decisions += 1
    decision_id = DecisionId(f"dec_{call.unique}-{call.decisions}")
    if answered is None:
        return _refused(call, expiry_record(question, decision_id=decision_id, decided_at=timestamp(core.now_ns())))
    decision = _told(tool, answer_record(answered, decision_id=decision_id))
    if decision.behavior is Behavior.DENY:
        return _refused(call, decision)
    if answered.rule is not None:
        core.remember(answered.rule)
    allowed = proposed
    if isinstance(answered.answer, Edit):
        allowed = await _edited(call, tool, proposed, answered, decision)
        decision = replace(decision, input_digest=input_digest(allowed))
    call.note(steps.ANSWERED, AnswerGiven(decision))
    return allowed


def _open(call: Call, tool: Tool, proposed: JsonObject, verdict: Verdict) -> Question:
    core, now = call.core, call.core.now_ns()
    call.decisions += 1
    shown = parse_object(json_bytes(proposed))
    shown = tool.redactor.redact(shown) if tool.redactor else shown
    question = Question(
        approval_id=ApprovalId(f"apr_{call.unique}-{call.decisions}"),
        invocation_id=call.invocation_id,
        decision_id=DecisionId(f"dec_{call.unique}-{call.decisions}"),
        tool_id=tool.tool_id,
        tool_name=tool.name,
        shown=shown,
        input_digest=input_digest(proposed),
        declaration_digest=tool.subject.declaration_digest,
        verdict=verdict,
        suggested_updates=suggest(core.policy, verdict, tool.subject, proposed),
        asked_at=timestamp(now),
        expires_at=timestamp(now + round(core.approval_ttl_s * 1e9)),
    )
    core.approvals.open(question)
    evidence = Decided(
        verdict,
        json_bytes(proposed),
        question.decision_id,
        tool.redactor,
        question.suggested_updates,
        question.approval_id,
    )
    call.note(steps.ASKED, evidence)
    return question


async def _wait(call: Call, question: Question) -> Answered | None:
    """Wait inside the caller's task; a cancellation withdraws the question."""
    core = call.core
    future: asyncio.Future[object] = core.loop.create_future()
    core.waiting[question.approval_id] = future
    expiry = core.deadlines.arm(core.loop.time() + core.approval_ttl_s, lambda: _expire(future))
    call.drive = drive = Drive(core.patience)
    try:
        answered = await drive.run(_result_of(future))
    finally:
        core.deadlines.cancel(expiry)
        del core.waiting[question.approval_id]
        core.approvals.withdraw(question.approval_id, timestamp(core.now_ns()))
        call.drive = None
    if isinstance(answered, Stopped):
        call.interrupted = call.interrupted or drive.caller_canceled
        raise ToolFailure(failure_of_stop(call))
    return cast("Answered | None", answered)


async def _result_of(future: "asyncio.Future[object]") -> object:
    return await future


def _expire(future: "asyncio.Future[object]") -> None:
    if not future.done():
        future.set_result(None)


def _told(tool: Tool, decision: PermissionDecision) -> PermissionDecision:
    """Give a decision as it is written down: an edited input without its secrets."""
    if tool.redactor is None or decision.updated_input is UNSET:
        return decision
    return replace(decision, updated_input=tool.redactor.redact(decision.updated_input))


def _refused(call: Call, decision: PermissionDecision) -> JsonObject:
    call.note(steps.ANSWERED_NO, AnswerGiven(decision))
    raise ToolFailure(rejection(decision))


async def _edited(
    call: Call, tool: Tool, proposed: JsonObject, answered: Answered, decision: PermissionDecision
) -> JsonObject:
    """Take an edit: it is parsed, validated and judged again, and what a rule denies stays denied."""
    updated = cast("JsonObject", cast("Edit", answered.answer).updated_input)
    if tool.redactor is not None:
        updated = cast("JsonObject", restored(updated, proposed))
    by = Replacement(
        source=MutationSource.PERMISSION_PROMPT,
        source_ref=decision.decision_id,
        from_stage=InputStage.PERMISSION_INPUT,
    )
    edited = replaced(call, tool, proposed, updated, by)
    if call.core.advisers:
        await consult(call, tool, edited)
    verdict = judge(call, tool, edited)
    if not edit_stands(verdict):
        call.note(steps.ANSWERED_NO, AnswerGiven(decision))
        raise ToolFailure(refusal(verdict))
    return edited
