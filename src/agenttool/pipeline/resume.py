"""What becomes of a call whose process died: it goes on, or it ends with a result that says what is known.

There are three ways to find one. It *waits* for an answer: with the answer it goes on, under the same id and with the
same inputs; so does one that was approved and had not started, if the rules still let it. It *may have run*: then it
ends as `unknown_after_crash`, unless its tool only reads or was declared safe to repeat; such a tool is run again and
finds the same `invocation_id` in its context, by which it can tell. Or it *never started*, or only read something for
a caller who is gone: then it ends as `process_died`, and whoever still wants it calls again.
"""

from collections.abc import Sequence
from dataclasses import replace

from agenttool.codec import parse_object
from agenttool.codec.moments import timestamp
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.journal.fold import invocation_of, records_of
from agenttool.pipeline.approval import conclude
from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.decision_hooks import told_to_hooks
from agenttool.pipeline.evidence import Request
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.faithful import unfaithful
from agenttool.pipeline.held import Held, Point, hold, kept, settle
from agenttool.pipeline.judge import judge
from agenttool.pipeline.parking import leave_parked
from agenttool.pipeline.phases.emit_terminal import emit_terminal, release_result
from agenttool.pipeline.phases.execute import execute, run
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.phases.schedule import release, schedule
from agenttool.pipeline.run import finish
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Answered, Question, edit_stands, rejection
from agenttool.policy.rules import has_passed
from agenttool.policy.verdict import refusal
from agenttool.ports.evidence import Ended, Made
from agenttool.ports.facts import Fact
from agenttool.ports.stores import OpenCall
from agenttool.records import (
    AbortReason,
    ErrorClass,
    InvocationStatus,
    JsonObject,
    PermissionDecision,
    Phase,
    ToolError,
    ToolResult,
)
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped

MAX_ATTEMPTS = 3
"""How many processes may begin to run one call before it is taken for the one that kills them."""


def recalled(core: Core, opened: OpenCall, held: Held | None, tool: Tool | None) -> Call:
    """Make the call anew, as the log says that it stands; it may have come further than where it was held."""
    facts = core.journal.log.facts_of(opened.invocation_id)
    if held is not None and held.thread is not None:
        core = replace(core, thread=held.thread, parent=core)
    call = Call(
        core,
        Request("", b"{}") if held is None else held.request,
        None,
        opened.invocation_id.partition("_")[2],
        opened.invocation_id,
        tool=tool,
        is_held=True,
        has_full_end=True,
        phase=Phase.EXECUTE if opened.kind in _AT_WORK else Phase.PERMISSION,
        is_detached=True,
    )
    for fact in facts:
        call.events = fact.sequence + fact.step.events
        call.status = fact.step.last or call.status
        call.tool_id = fact.tool_id or call.tool_id
        call.progress += fact.step in _REPORTS
        if isinstance(fact.data, Made):
            call.made = Ended(fact.data.result, fact.data.context_modifiers)
    if held is not None:
        call.decisions, call.mutations, call.hook_runs = held.decisions, held.mutations, held.hook_runs
        call.started_ns, call.attempts, call.salt = held.started_ns, held.attempts, held.salt or b""
    if tool is not None and held is not None:
        call.request = held.request if tool.redactor is None else held.request.with_redactor(tool.redactor)
        call.learn_secrets(parse_object(held.call_input))
    return call


_AT_WORK = (Point.RUNNING, Point.SENDING, Point.AWAY)
_REPORTS = (steps.PROGRESSED, steps.PARTIAL, steps.BACKGROUNDED, steps.NEEDS_INPUT)


async def let_leave(call: Call, made: Ended) -> ToolResult:
    """Let a result go that was made before the process died, and had to wait for others of its batch."""
    call.result = made.result
    release_result(call)
    call.core.calls.pop(call.invocation_id, None)
    for left in call.core.closing:
        left.set()
    return await kept(call, made.result)


async def end_begun(call: Call) -> ToolResult:
    """End a call that was held nowhere: it ran for whoever is gone, or was only on its way there."""
    mapped = failed(call, unknown_after_crash() if _may_have_changed_something(call) else _process_died(call))
    return await kept(call, emit_terminal(call, mapped.result, mapped.chars))


def _may_have_changed_something(call: Call) -> bool:
    """Tell from the log whether a call was started whose tool does more than read."""
    known = invocation_of(call.core.journal.log.facts_of(call.invocation_id))
    if known is None or known.started_at is None:
        return False
    return known.scheduler is None or known.scheduler.is_read_only is not True


async def resume_call(call: Call, tool: Tool, held: Held, answered: Answered | None) -> ToolResult:
    """Go on with a call of a process that died, under the same id and with the same inputs."""
    call.core.calls[call.invocation_id] = call
    try:
        call.note(steps.TAKEN_UP, {"attempt": call.attempts + 1})
        _refuse_unfaithful(call, held)
        call_input = parse_object(held.call_input)
        if call.phase is Phase.EXECUTE:
            mapped = await _run_again(call, tool, held, call_input)
        else:
            mapped = await _go_on(call, tool, held, call_input, answered)
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- as in run_call: there is a result whatever happens
        mapped = failed(call, error_of_interruption(call, crash))
    if call.is_parked:
        return leave_parked(call, mapped.result)
    result = await finish(call, mapped)
    return await kept(call, emit_terminal(call, result, mapped.chars))


def _refuse_unfaithful(call: Call, held: Held) -> None:
    """Let nothing run that was kept of a call and is not what the log tells of it.

    Raises:
        ToolFailure: permission_denied; or execution_failed, where the log says that the tool was started.
    """
    kind = Point.RUNNING if call.phase is Phase.EXECUTE else Point.ASKED
    what = unfaithful(kind, held, call.core.journal.log.facts_of(call.invocation_id))
    if what is not None:
        raise ToolFailure(unknown_after_crash() if call.phase is Phase.EXECUTE and what != "start" else _edited(what))


async def _go_on(call: Call, tool: Tool, held: Held, call_input: JsonObject, answered: Answered | None) -> Mapped:
    """Go on with a call that was asked about or approved.

    Raises:
        ToolFailure: what was asked about, or who asked, is no more; it was refused; and all that running it may raise.
    """
    question = held.question
    if question is None or tool.subject.declaration_digest != held.declaration_digest:
        raise ToolFailure(_changed(tool))
    if held.parent_invocation_id is not None:
        raise ToolFailure(_nobody_waits(call))
    if call.status is InvocationStatus.AWAITING_APPROVAL:
        _refuse_again(call)
        concluding = conclude(call, tool, call_input, question, answered)
        call_input = await told_to_hooks(call, tool, call_input, concluding)
    else:
        _look_again(call, tool, call_input, held, question)
    await schedule(call, tool, call_input)
    try:
        output = await execute(call, tool, call_input)
    finally:
        release(call)
    return map_result(call, output)


def _refuse_again(call: Call) -> None:
    """Let a refusal stand that was written down before the process died.

    Raises:
        ToolFailure: approval_rejected, permission_denied.
    """
    facts: Sequence[Fact] = call.core.journal.log.facts_of(call.invocation_id)
    for record in records_of(fact for fact in facts if fact.step is steps.ANSWERED_NO):
        if isinstance(record, PermissionDecision):
            raise ToolFailure(rejection(record))


def _look_again(call: Call, tool: Tool, call_input: JsonObject, held: Held, question: Question) -> None:
    """Let a call that was approved in another process start only if the approval lasts, and no rule denies it by now.

    Raises:
        ToolFailure: permission_denied, policy_blocked; or its answer never came to allow anything.
    """
    if held.status is InvocationStatus.AWAITING_APPROVAL:
        raise ToolFailure(_process_died(call))  # an edit that did not fit
    if has_passed(question.expires_at, timestamp(call.core.now_ns())):
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
    verdict = judge(call, tool, call_input)
    if not edit_stands(verdict):
        raise ToolFailure(refusal(verdict))


async def _run_again(call: Call, tool: Tool, held: Held, call_input: JsonObject) -> Mapped:
    """Run a tool once more that was declared safe to repeat; of any other nobody can say what it did.

    Raises:
        ToolFailure: it may not be run again; and all that running it may raise.
    """
    call.attempts += 1
    may_repeat = tool.repeatability is not None or not tool.has_effects
    is_same = tool.subject.declaration_digest == held.declaration_digest
    if not may_repeat or not is_same or call.attempts > MAX_ATTEMPTS:
        raise ToolFailure(unknown_after_crash())
    if held.parent_invocation_id is not None:
        raise ToolFailure(_nobody_waits(call))
    await schedule(call, tool, call_input)
    try:
        call.phase = Phase.EXECUTE
        call.call_input = call_input
        hold(call, Point.RUNNING, call_input)
        await _settle_again(call, tool)
        output = await run(call, tool)
    finally:
        release(call)
    return map_result(call, output)


async def _settle_again(call: Call, tool: Tool) -> None:
    """Go on only once another attempt is on disk; if it cannot be, the one before may have run all the same.

    Raises:
        ToolFailure: execution_failed, or dependency_unavailable if the tool only reads.
    """
    try:
        await settle(call)
    except ToolFailure as failure:
        if not tool.has_effects:
            raise
        raise ToolFailure(unknown_after_crash()) from failure


def unknown_after_crash() -> ToolError:
    """Give the error of a call that may have run, and that nobody may run again."""
    message = "the process died while the tool ran, so that nobody knows what it did; look before you repeat it"
    return guided(
        ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="unknown_after_crash", effects=True
    )


def _edited(what: str) -> ToolError:
    message = (
        f"the {what} that was kept of this call is not what the journal tells, so nothing was run; verify the journal"
    )
    return guided(
        ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message=message, code="kept_call_changed", effects=False
    )


def _process_died(call: Call) -> ToolError:
    message = "the process died before the call could change anything; call it again if it is still wanted"
    return guided(
        ErrorClass.CANCELED,
        phase=call.phase,
        message=message,
        code="process_died",
        abort_reason=AbortReason.RUNTIME_SHUTDOWN,
        effects=False,
    )


def _nobody_waits(call: Call) -> ToolError:
    message = "the call that made this one has ended with its process, so that nobody waits for it"
    return guided(
        ErrorClass.CANCELED,
        phase=call.phase,
        message=message,
        abort_reason=AbortReason.FALLBACK,
        effects=call.phase is Phase.EXECUTE,
    )


def _changed(tool: Tool) -> ToolError:
    message = f"{tool.name!r} has changed since it was asked about, so the answer does not cover it; call it again"
    return guided(
        ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message=message, code="declaration_changed", effects=False
    )
