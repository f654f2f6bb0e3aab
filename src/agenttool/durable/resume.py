"""Resumes one call of a dead process, or ends it with a result that states what is known.

A call that *waits* for an answer continues with it, under the same id and with the same inputs. So does a call that was
approved and not started, or waited for its turn. A call that was only *planned* runs all phases, once the calls that it
depends on have ended. A call that *may have run* ends as `unknown_after_crash`, unless its tool only reads or is
declared repeatable: then it runs again and finds the same `invocation_id` in its context. A call that *never started*
ends as `process_died`. A deferred call continues with its result, or ends if that is overdue. If it was not
acknowledged, it is sent again where it may arrive twice, and ends as `unknown_after_crash` elsewhere.

Before a tool is started here, the rules of this process judge the call. A deny wins over an earlier approval.
"""

from collections.abc import Sequence
from dataclasses import replace

from agenttool.call.approval import conclude, declaration_changed, record_unused_answer, wait_for_answer
from agenttool.call.call import Call, Core, Nesting
from agenttool.call.call_state import MAX_ATTEMPTS, BackgroundState, CallSecrets, ResumeState
from agenttool.call.checkpoint import (
    Checkpoint,
    CheckpointKind,
    checkpoint_mismatch,
    flush,
    save_running_checkpoint,
    when_durable,
)
from agenttool.call.completion import complete, fail, map_any_result, release_result
from agenttool.call.failures import failure_of_stop, request_cancel
from agenttool.call.judge import decide_with_hooks, judge, refuse_if_denied
from agenttool.call.phases.execute import execute, mask_credentials_again, run_with_retries
from agenttool.call.phases.permission import permission
from agenttool.call.phases.schedule import release, schedule
from agenttool.call.run import run_call
from agenttool.call.running import RunningWithin, read_result, send_and_wait, withdraw_call
from agenttool.call.tool import Tool
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.journal.projection import invocation_of, may_have_acted, records_of, result_in
from agenttool.policy.approvals import Answered, Approver, Question, rejection
from agenttool.policy.rules import has_passed
from agenttool.ports.evidence import CallEnded, CallRequest, ResultMade
from agenttool.ports.facts import Fact
from agenttool.ports.stores import OpenCall
from agenttool.records import (
    AbortReason,
    ApprovalId,
    Behavior,
    ErrorClass,
    InputMutation,
    InvocationStatus,
    JsonObject,
    PermissionDecision,
    Phase,
    ToolError,
    ToolHook,
    ToolResult,
)
from agenttool.records import replace as replace_record
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped
from agenttool.results.redaction import InputMask, Redactor, compile_scrubber

PROCESS_DIED = "process_died"
"""The code of the error of a call that certainly did nothing before its process died."""


def restore_call(core: Core, opened: OpenCall, checkpoint: Checkpoint | None, tool: Tool | None) -> Call:
    """Return the call in the state of the journal, which may be newer than its checkpoint."""
    facts = core.journal.log.facts_of(opened.invocation_id)
    if checkpoint is not None and checkpoint.thread is not None:
        core = replace(core, thread=checkpoint.thread, parent=core)
    call = Call(
        core,
        CallRequest("", b"{}") if checkpoint is None else checkpoint.request,
        None,
        opened.invocation_id.partition("_")[2],
        opened.invocation_id,
        is_text=True,
        tool=tool,
        needs_detailed_end=True,
        phase=_PHASES.get(opened.kind, Phase.PERMISSION),
        background=BackgroundState(ends_with_process=checkpoint is not None and checkpoint.ends_with_process),
    )
    recovery = call.recovery = ResumeState(has_checkpoint=True, may_finish=True)
    recovery.is_planned = opened.kind == CheckpointKind.PLANNED
    if facts:
        core.journal.clock.continue_after(facts[-1].at_ns)
    for fact in facts:
        call.events = fact.sequence + fact.step.events
        call.status = fact.step.last or call.status
        call.tool_id = fact.tool_id or call.tool_id
        call.counts.progress += fact.step in _REPORTS
        if isinstance(fact.data, ResultMade):
            recovery.unreleased = CallEnded(fact.data.result, fact.data.context_modifiers)
    _count_records(call, facts)
    if checkpoint is not None:
        call.started_ns = checkpoint.started_ns
        recovery.attempts = checkpoint.attempts
        _restore_nesting(call, checkpoint)
        if checkpoint.salt is not None:
            call.secrets = _restore_secrets(call, checkpoint, checkpoint.salt, None if tool is None else tool.redactor)
    if tool is not None and checkpoint is not None:
        request = checkpoint.request
        redactor = call.mask or tool.redactor
        call.request = request if redactor is None else replace_record(request, redactor=redactor)
        call.learn_secrets(tool.redactor, checkpoint.arguments)
    return call


def _count_records(call: Call, facts: Sequence[Fact]) -> None:
    """Count the records of a call in the journal, so that the next ones get other ids.

    A process that resumed the call and died as well may have written records after the checkpoint.
    """
    for record in records_of(facts):
        call.counts.decisions += isinstance(record, PermissionDecision)
        call.counts.hook_runs += isinstance(record, ToolHook)
        if isinstance(record, InputMutation):
            call.mutation_refs = (*call.mutation_refs, record.mutation_id)


def _restore_secrets(call: Call, checkpoint: Checkpoint, salt: bytes, redactor: Redactor | None) -> CallSecrets:
    """Return the secrets of a call: the stored ones, and the credentials that were leased to its caller again."""
    inherited = compile_scrubber(checkpoint.secrets)
    leased = None if call.parent is None or call.parent.secrets is None else call.parent.secrets.leased
    known = inherited if leased is None else leased.merged_with(inherited)
    return CallSecrets(salt, InputMask(redactor, known), leased=leased)


def _restore_nesting(call: Call, checkpoint: Checkpoint) -> None:
    """Link a call to the one that made it, if that was resumed here, and let it find its nested calls again."""
    parent_id = checkpoint.parent_invocation_id
    parent = None if parent_id is None else call.core.registry.calls.get(parent_id)
    if parent is not None and checkpoint.parent_resumes:
        above = parent.ensure_nesting()
        call.nesting = Nesting(parent, above.depth + 1)
        call.stop.reason = parent.stop.reason  # it may have been canceled while this call was claimed
        above.children[call.invocation_id] = call
    call.ensure_nesting().key = checkpoint.nested_key


_PHASES: dict[str, Phase] = {
    CheckpointKind.PLANNED: Phase.RESOLVE_TOOL,
    CheckpointKind.RUNNING: Phase.EXECUTE,
    CheckpointKind.SENDING: Phase.EXECUTE,
    CheckpointKind.REMOTE: Phase.EXECUTE,
}
_CANCELABLE = frozenset(CheckpointKind) - {CheckpointKind.RUNNING}
_REPORTS = (steps.PROGRESSED, steps.PARTIAL, steps.BACKGROUNDED, steps.NEEDS_INPUT)


async def deliver_made_result(call: Call, made: CallEnded) -> ToolResult:
    """Deliver a result that was made before the process died and waited for others of its batch."""
    call.result = made.result
    release_result(call)
    call.core.registry.remove(call.invocation_id)
    return await when_durable(call, made.result)


async def end_without_checkpoint(call: Call) -> ToolResult:
    """End a call that has no checkpoint: nothing can be resumed."""
    return await fail(call, _error_of_crash(call))


async def cancel_call(
    call: Call, kind: str, question: Question | None, reason: AbortReason, by: Approver
) -> ToolResult:
    """End a call whose cancellation was requested, without running it; the effect of one that ran is unknown."""
    later = None if call.tool is None or call.phase is not Phase.EXECUTE else call.tool.later
    if later is not None:
        await withdraw_call(call, later)
    if (kind in _CANCELABLE or not _may_have_acted(call)) and request_cancel(call, reason, by):
        if question is not None:
            await _record_late_answer(call, question, None)
        return await fail(call, failure_of_stop(call))
    return await end_without_checkpoint(call)


async def _record_late_answer(call: Call, question: Question, answered: Answered | None) -> None:
    """Withdraw the question of a call that ends now, and record the answer that was accepted before that."""
    answered = answered or await call.core.host.withdraw_question(question)
    if answered is not None:
        record_unused_answer(call, answered)


def _error_of_crash(call: Call) -> ToolError:
    """Return the error of a call that does not continue; its effect is unknown if its tool was started and may act."""
    return unknown_after_crash() if _may_have_acted(call) else _process_died(call)


def _may_have_acted(call: Call) -> bool:
    return may_have_acted(invocation_of(call.core.journal.log.facts_of(call.invocation_id)))


async def resume_planned(call: Call, checkpoint: Checkpoint) -> ToolResult:
    """Run a call of a dead process that was not started; cancel it if a call that it depends on failed."""
    facts = call.core.journal.log.facts_of
    part = checkpoint_mismatch(CheckpointKind.PLANNED, checkpoint, facts(call.invocation_id))
    if part is not None:
        return await fail(call, _checkpoint_changed(part))
    if call.status is not InvocationStatus.PLANNED:
        return await end_without_checkpoint(call)
    results = [result_in(facts(each)) for each in checkpoint.depends_on or ()]
    if not checkpoint.ignores_failures and any(each is None or each.is_error for each in results):
        request_cancel(call, AbortReason.SIBLING_ERROR)
    call.note(steps.TAKEN_UP, {"attempt": call.ensure_recovery().attempts})
    with RunningWithin(call.invocation_id, alone=True):
        return await run_call(call)


async def resume_call(call: Call, tool: Tool, checkpoint: Checkpoint, answered: Answered | None) -> ToolResult:
    """Resume a call of a dead process, under the same id and with the same inputs."""
    call.core.registry.add(call)
    with RunningWithin(call.invocation_id, alone=True):
        return await complete(call, lambda call: _resumed(call, tool, checkpoint, answered))


async def _resumed(call: Call, tool: Tool, checkpoint: Checkpoint, answered: Answered | None) -> Mapped:
    call.note(steps.TAKEN_UP, {"attempt": call.ensure_recovery().attempts + 1})
    _refuse_mismatch(call, checkpoint)
    call_input = checkpoint.arguments
    if call.phase is Phase.EXECUTE:
        return await _run_again(call, tool, checkpoint, call_input)
    return await _continue_approval(call, tool, checkpoint, call_input, answered)


def _refuse_mismatch(call: Call, checkpoint: Checkpoint) -> None:
    """Run nothing from a checkpoint that differs from the journal.

    Raises:
        ToolFailure: permission_denied; or execution_failed, where the journal says that the tool was started.
    """
    kind = CheckpointKind.RUNNING if call.phase is Phase.EXECUTE else CheckpointKind.ASKED
    part = checkpoint_mismatch(kind, checkpoint, call.core.journal.log.facts_of(call.invocation_id))
    if part is not None:
        may_have_run = call.phase is Phase.EXECUTE and part != "start"
        raise ToolFailure(unknown_after_crash() if may_have_run else _checkpoint_changed(part))


async def _continue_approval(
    call: Call, tool: Tool, checkpoint: Checkpoint, call_input: JsonObject, answered: Answered | None
) -> Mapped:
    """Continue a call that waits for approval or was approved.

    Raises:
        ToolFailure: the tool or the parent call is gone; the call was rejected; and all that running it may raise.
    """
    question = checkpoint.question
    is_asked = call.status is InvocationStatus.AWAITING_APPROVAL
    if is_asked:
        _repeat_rejection(call)
    obstacle = _obstacle(call, tool, checkpoint)
    if obstacle is not None:
        if is_asked and question is not None:
            await _record_late_answer(call, question, answered)
        raise ToolFailure(obstacle)
    if question is None:
        if call.status is not InvocationStatus.QUEUED:
            raise ToolFailure(_process_died(call))
        call_input = await permission(call, tool, call_input)  # the rules may have changed, or have expired
    elif is_asked:
        answered = answered or await _wait_again(call, tool, call_input, question)
        concluding = conclude(call, tool, call_input, question, answered)
        call_input = await decide_with_hooks(call, tool, call_input, concluding)
    else:
        _check_approval(call, tool, call_input, checkpoint, question)
    await schedule(call, tool, call_input)
    try:
        refuse_if_denied(call, tool, call_input)  # a rule may have been added while it waited
        output = await execute(call, tool, call_input)
    finally:
        release(call)
    return await map_any_result(call, output)


def _obstacle(call: Call, tool: Tool, checkpoint: Checkpoint) -> ToolError | None:
    """Return why a call cannot continue with any answer: its tool has changed, or the call that made it has ended."""
    is_asked = call.status is InvocationStatus.AWAITING_APPROVAL
    is_unknown = is_asked and checkpoint.question is None
    if is_unknown or tool.subject.declaration_digest != checkpoint.declaration_digest:
        return declaration_changed(tool)
    is_orphan = checkpoint.parent_invocation_id is not None and call.parent is None
    return _parent_ended(call) if is_orphan else None


async def _wait_again(call: Call, tool: Tool, call_input: JsonObject, question: Question) -> Answered | None:
    """Wait for the answer to a question of an earlier process, unless rules decide now; none if it has expired.

    Raises:
        ToolFailure: as `wait_for_answer`.
    """
    if has_passed(question.expires_at, call.core.timestamp()):
        return None
    call.core.questions.book.open(question)
    if judge(call, tool, call_input).behavior is not Behavior.ASK:
        await call.core.host.leave_to_rules(question)
    return await wait_for_answer(call, question)


def _repeat_rejection(call: Call) -> None:
    """Reject the call again if the journal has a rejection from before the crash.

    Raises:
        ToolFailure: approval_rejected, permission_denied.
    """
    facts: Sequence[Fact] = call.core.journal.log.facts_of(call.invocation_id)
    for record in records_of(fact for fact in facts if fact.step is steps.ANSWERED_NO):
        if isinstance(record, PermissionDecision):
            raise ToolFailure(rejection(record))


def _check_approval(call: Call, tool: Tool, call_input: JsonObject, checkpoint: Checkpoint, question: Question) -> None:
    """Check that the approval from another process is still valid and that no rule denies the call now.

    Raises:
        ToolFailure: permission_denied, policy_blocked; or the answer allowed nothing.
    """
    if checkpoint.status is InvocationStatus.AWAITING_APPROVAL:
        raise ToolFailure(_process_died(call))  # an edit that did not fit
    if has_passed(question.expires_at, call.core.timestamp()):
        message = f"the approval expired at {question.expires_at}, before the call started; call it again"
        raise ToolFailure(
            guided(
                ErrorClass.PERMISSION_DENIED,
                phase=Phase.PERMISSION,
                message=message,
                code="approval_expired",
                effects=False,
            )
        )
    refuse_if_denied(call, tool, call_input)


async def _run_again(call: Call, tool: Tool, checkpoint: Checkpoint, call_input: JsonObject) -> Mapped:
    """Run a repeatable tool once more; the effect of any other is unknown.

    Raises:
        ToolFailure: it may not be run again; and all that running it may raise.
    """
    recovery = call.ensure_recovery()
    recovery.attempts += 1
    is_same = tool.subject.declaration_digest == checkpoint.declaration_digest
    is_last = recovery.attempts > MAX_ATTEMPTS or checkpoint.ends_with_process
    if not tool.is_repeatable or not is_same or is_last:
        raise ToolFailure(_error_of_crash(call))
    if checkpoint.parent_invocation_id is not None and call.parent is None:
        raise ToolFailure(_parent_ended(call))
    await schedule(call, tool, call_input)
    try:
        call.phase = Phase.EXECUTE
        call.final_input = call_input
        _refuse_repeat(call, tool, call_input)
        save_running_checkpoint(call, tool, call_input)
        await _flush_attempt(call, tool)
        output = await run_with_retries(call, tool)
    finally:
        release(call)
    return await map_any_result(call, output)


def _refuse_repeat(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Refuse to run a tool again if the rules deny the call now; what it did before the crash is unknown.

    Raises:
        ToolFailure: execution_failed, or the denial if the tool only reads.
    """
    try:
        refuse_if_denied(call, tool, call_input)
    except ToolFailure as denial:
        if not tool.has_effects:
            raise
        message = f"the process died while the tool ran, so its effect is unknown; it was not run again: {denial}"
        raise ToolFailure(replace_record(unknown_after_crash(), message=message)) from denial


async def _flush_attempt(call: Call, tool: Tool) -> None:
    """Wait until another attempt is on disk; if it cannot be written, the one before may have run all the same.

    Raises:
        ToolFailure: execution_failed, or dependency_unavailable if the tool only reads.
    """
    try:
        await flush(call)
    except ToolFailure as failure:
        if not tool.has_effects:
            raise
        raise ToolFailure(unknown_after_crash()) from failure


def deliver_result(core: Core, key: ApprovalId, body: bytes) -> bool:
    """Deliver a deferred result to the call of this process that waits for it; return whether there is one."""
    waiting = core.questions.waiting.get(key)
    if waiting is None:
        return False
    if not waiting.done():
        waiting.set_result(body)
    return True


async def resume_deferred(call: Call, tool: Tool, checkpoint: Checkpoint, opened: OpenCall) -> ToolResult:
    """Resume a deferred call: with its result, without one that is overdue, or by sending it again."""
    call.core.registry.add(call)
    call.final_input = checkpoint.arguments
    return await complete(call, lambda call: _deferred(call, tool, checkpoint, opened))


async def _deferred(call: Call, tool: Tool, checkpoint: Checkpoint, opened: OpenCall) -> Mapped:
    """Return the mapped output of a deferred tool.

    Raises:
        ToolFailure: its result is overdue, or a failure; or it cannot be sent again.
    """
    return await map_any_result(call, await _deferred_output(call, tool, checkpoint, opened))


async def _deferred_output(call: Call, tool: Tool, checkpoint: Checkpoint, opened: OpenCall) -> object:
    later = tool.later
    if later is None:
        raise ToolFailure(unknown_after_crash())
    if opened.answer is not None:
        if tool.credentials:  # the server may repeat them in its result
            await mask_credentials_again(call, tool)
        return await read_result(call, later, opened.answer)
    if opened.kind == CheckpointKind.REMOTE or is_overdue(opened, call.core.now_ns()):
        call.stop.reason = AbortReason.TIMEOUT
        await withdraw_call(call, later)
        raise ToolFailure(failure_of_stop(call))
    recovery = call.ensure_recovery()
    recovery.attempts += 1
    call.note(steps.TAKEN_UP, {"attempt": recovery.attempts})
    facts = call.core.journal.log.facts_of(call.invocation_id)
    is_same = tool.subject.declaration_digest == checkpoint.declaration_digest
    if (
        not await later.may_resend(call.invocation_id)
        or not is_same
        or checkpoint_mismatch(opened.kind, checkpoint, facts)
    ):
        await withdraw_call(call, later)
        raise ToolFailure(unknown_after_crash())
    try:
        _refuse_repeat(call, tool, call.final_input)
    except ToolFailure:
        await withdraw_call(call, later)
        raise
    # The same request under the same id: a server that has it recognises it. There is no limit on attempts, because
    # sending a request does not crash a process.
    return await send_and_wait(call, later, lambda: run_with_retries(call, tool))


def is_overdue(opened: OpenCall, now_ns: int) -> bool:
    """Return whether the deadline of the answer that a call waits for is over."""
    return opened.expires_at_ns is not None and opened.expires_at_ns <= now_ns


def unknown_after_crash() -> ToolError:
    """Return the error of a call that may have run and may not be run again."""
    message = "the process died while the tool ran, so its effect is unknown; check it before you repeat the call"
    return guided(
        ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="unknown_after_crash", effects=True
    )


def _checkpoint_changed(part: str) -> ToolError:
    message = f"the {part} in the checkpoint differs from the journal, so nothing was run; verify the journal"
    return guided(
        ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message=message, code="checkpoint_changed", effects=False
    )


def _process_died(call: Call) -> ToolError:
    message = "the process died before the call could change anything; call it again if it is still wanted"
    return guided(
        ErrorClass.CANCELED,
        phase=call.phase,
        message=message,
        code=PROCESS_DIED,
        abort_reason=AbortReason.RUNTIME_SHUTDOWN,
        effects=False,
    )


def _parent_ended(call: Call) -> ToolError:
    message = "the call that made this one ended with its process, so its result is not wanted any more"
    return guided(
        ErrorClass.CANCELED,
        phase=call.phase,
        message=message,
        abort_reason=AbortReason.FALLBACK,
        effects=call.phase is Phase.EXECUTE,
    )
