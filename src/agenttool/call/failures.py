"""Why calls stop or fail: cancellation, shutdown, exceptions and invalid input; each becomes an error or a result."""

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from contextlib import suppress

from agenttool.call.call import Call, Core
from agenttool.call.call_state import MAX_ATTEMPTS
from agenttool.call.evidence import cancel_state
from agenttool.codec import read, write
from agenttool.errors import RecordError, StoreError, ToolFailure, words_of
from agenttool.journal import steps
from agenttool.policy.approvals import Approver
from agenttool.records import (
    CRASH_CLASSES,
    AbortReason,
    Cancellation,
    CancellationOutcome,
    ErrorClass,
    InvocationStatus,
    Phase,
    ToolError,
    ToolResult,
    replace,
)
from agenttool.results.failure import MAX_SCRUBBED_CHARS, guided, result_of_failure, stopped_by
from agenttool.results.mapping import Mapped
from agenttool.results.messages import without_controls
from agenttool.results.redaction import scrubbed_message
from agenttool.scheduler.drive import TOO_LATE, UNSUPPORTED, stops_on_interrupt
from agenttool.schema.explain import Misfit

_AFTER_TOOL = frozenset({Phase.MAP_RESULT, Phase.POST_HOOKS, Phase.PERSIST_RESULT, Phase.EMIT_TERMINAL})


def request_cancel(call: Call, reason: AbortReason, by: Approver | None = None) -> bool:
    """Request the cancellation of a call and its nested calls; return whether it will stop.

    The request is recorded either way, with the person who made it. Only the first one is recorded (AT-PROG-10).
    """
    if call.result is not None:
        return False
    call.needs_detailed_end = True
    if call.stop.cancellation is None:
        failure = _why_not_cancelable(call)
        call.stop.cancellation = Cancellation(
            cancel_requested=call.core.timestamp(),
            abort_reason=reason,
            message=failure,
            requested_by=None if by is None else by.members(),
        )
        if call.stop.signal is not None:
            call.stop.signal.set()
        if call.status is not None or call.unwritten is not None:
            record_cancellation(call)
        if failure is None:
            stop(call, reason)
    return call.stop.reason is not None and call.phase not in _AFTER_TOOL


def stop(call: Call, reason: AbortReason) -> None:
    """Stop a call and its nested calls by interrupting what they wait for."""
    if call.stop.reason is None:
        call.stop.reason = reason
    for child in call.children:
        request_cancel(child, reason)
    if call.drive is not None:
        call.drive.stop()


def record_cancellation(call: Call) -> None:
    """Record the request, and its failure if the call cannot be canceled."""
    requested = call.stop.cancellation
    if requested is not None and not call.stop.is_recorded:
        call.stop.is_recorded = True
        with suppress(StoreError):  # the call's result reports that the journal failed
            call.note(steps.CANCEL_REQUESTED, cancel_state(requested, is_request=True))
            if requested.message is not None:
                call.note(steps.CANCEL_FAILED, cancel_state(requested))


def acknowledge(call: Call) -> None:
    """Record that the tool acknowledged the cancellation: it ended when it was interrupted."""
    if call.stop.cancellation is not None:
        call.stop.cancellation = replace(call.stop.cancellation, cancel_acknowledged=call.core.timestamp())
        call.note(steps.CANCEL_ACKNOWLEDGED, cancel_state(call.stop.cancellation))


def settle_cancellation(call: Call, *, canceled: bool) -> None:
    """Record the outcome of a cancellation."""
    record_cancellation(call)
    requested = call.stop.cancellation
    if requested is not None:
        outcome = CancellationOutcome.CANCELED if canceled else CancellationOutcome.CANCEL_FAILED
        settled = replace(requested, outcome=outcome)
        is_failure_unrecorded = not canceled and requested.message is None
        call.note(steps.CANCEL_FAILED if is_failure_unrecorded else steps.CANCEL_SETTLED, cancel_state(settled))


def _why_not_cancelable(call: Call) -> str | None:
    if call.phase in _AFTER_TOOL:
        return TOO_LATE
    is_running = call.started_ns != 0 and call.tool is not None
    return UNSUPPORTED if is_running and call.tool is not None and not call.tool.supports_cancel else None


def is_interruptible(call: Call) -> bool:
    """Return whether a user interruption stops a running call; its tool and its batch decide."""
    declared = None if call.tool is None else call.tool.subject.interface.interrupt_behavior
    return stops_on_interrupt(declared, None if call.batch is None else call.batch.policy.interrupt_behavior)


def refuse_if_stopped(call: Call) -> None:
    """Raise the failure of a call that was asked to stop.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    if call.stop_state is not None and call.stop_state.reason is not None:
        raise ToolFailure(failure_of_stop(call))


def failure_of_stop(call: Call, *, abandoned: bool = False) -> ToolError:
    """Return the error of a stopped call; a retry is safe if its tool only reads or may be repeated."""
    reason = call.stop.reason or AbortReason.USER_INTERRUPTION
    effects = None if call.tool is None else call.tool.mapping.effects
    is_discarded = reason is AbortReason.FALLBACK and call.parent is None
    if is_discarded or (reason in _ENDED_FROM_OUTSIDE and not call.is_parked):
        return stopped_by(reason, call.phase, effects=effects)
    error_class = _CLASSES.get(reason, ErrorClass.CANCELED)
    message = _why_stopped(call, reason, abandoned=abandoned)
    code = None
    if call.is_parked:  # it may still run, so a repeated call could run twice
        code, effects = "waits_for_answer", effects is None
    return guided(error_class, phase=call.phase, message=message, code=code, abort_reason=reason, effects=effects)


_ENDED_FROM_OUTSIDE = (AbortReason.RUNTIME_SHUTDOWN, AbortReason.USER_INTERRUPTION)
_CLASSES = {AbortReason.TIMEOUT: ErrorClass.TIMEOUT, AbortReason.SIBLING_ERROR: ErrorClass.SIBLING_CANCELED}


def _why_stopped(call: Call, reason: AbortReason, *, abandoned: bool) -> str:
    if call.is_parked:
        return _why_parked(call)
    if reason is AbortReason.TIMEOUT:
        return _why_timed_out(call, abandoned=abandoned)
    if reason is AbortReason.SIBLING_ERROR:
        return "a call beside this one failed, so this one was not finished"
    return "the call that made this one has ended, so its result is not needed"


def _why_parked(call: Call) -> str:
    if call.status is not InvocationStatus.AWAITING_APPROVAL and not call.started_ns:
        return (
            f"its process closed or lost its lease before the call started; another process runs {call.invocation_id}"
        )
    if call.started_ns and call.tool is not None and call.tool.later is None:
        return f"its process lost its lease while the tool ran; another process records the end of {call.invocation_id}"
    if call.background is not None:
        return f"{call.invocation_id} waits for an answer that comes later"
    return f"the runtime closed before an answer arrived; {call.invocation_id} continues once there is one"


def _why_timed_out(call: Call, *, abandoned: bool) -> str:
    later, now_ns = None if call.tool is None else call.tool.later, call.core.now_ns()
    why = None if later is None else later.why_over(call.invocation_id, now_ns)
    if why is not None:
        return why
    left = "; it ignored the request to stop and was left behind" if abandoned else ""
    after = f"no result after {(now_ns - call.started_ns) / 1e9:.3g} s"
    asked = call.stop.unanswered
    if asked is not None:
        return f"{after}: its question {asked} was not answered in time{left}; answer it sooner, or allow it more time"
    return f"{after}{left}; ask for less, or allow it more time"


_UNREACHABLE = (ConnectionError, TimeoutError)
_INTERRUPTIONS = (CancelledError, KeyboardInterrupt, GeneratorExit)
"""Exceptions for the caller's task; they are raised again once the result is written."""

MAX_DESCRIBED = 5
MAX_TRACE_CHARS = 8000
"""How many characters of a traceback are recorded; the middle of a longer one is left out."""

log = logging.getLogger("agenttool.calls")


def failed_result(call: Call, error: ToolError) -> Mapped:
    """Return the result of a failed call."""
    result = result_of_failure(
        valid_error(call, error),
        result_id=call.result_id,
        invocation_id=call.invocation_id,
        created_at=call.core.timestamp(),
        scrubber=call.scrubber,
    )
    return Mapped(result=result)


def valid_error(call: Call, error: ToolError) -> ToolError:
    """Return an error with its phase; an invalid error is replaced by one that says so."""
    try:
        message = None if error.message is None else str(error.message)
        if message is not None:
            message = _bounded(call, message).encode(errors="replace").decode()
        return read(write(replace(error, phase=error.phase or call.phase.value, message=message)), ToolError)
    except (RecordError, TypeError, ValueError, AttributeError, RecursionError) as flaw:
        message = f"the error that was raised is not a valid ToolError: {words_of(flaw)}; fill it as declared"
        return guided(CRASH_CLASSES[call.phase], phase=call.phase, message=message)


def _bounded(call: Call, message: str) -> str:
    """Return a message that is short enough to be copied and searched."""
    is_long = len(message) > MAX_SCRUBBED_CHARS
    return scrubbed_message(message, call.scrubber, MAX_SCRUBBED_CHARS) if is_long else message


def error_of_interruption(call: Call, crash: BaseException) -> ToolError:
    """Return the error of an exception; store an interruption, to raise it after the result is written.

    A parked call belongs to another process, so this one does not record the tracebacks of its exceptions.
    """
    if not isinstance(crash, _INTERRUPTIONS):
        if call.is_parked:
            return failure_of_stop(call)
        _record_traceback(call, crash)
        return error_of_crash(call, crash)
    call.stop.interrupted = crash
    if call.stop.reason is None:
        above = call.parent.stop.reason if call.parent is not None else None
        call.stop.reason = above or AbortReason.USER_INTERRUPTION
    return failure_of_stop(call)


def _record_traceback(call: Call, crash: BaseException) -> None:
    """Write the traceback of an exception to the journal and to the log, without the secrets of the call.

    The result does not contain it: a model would read it.
    """
    trace = call.core.format_crash(crash)
    if trace is None:
        return
    text = without_controls(scrubbed_message(trace, call.scrubber, MAX_TRACE_CHARS))
    log.warning("%s of %s failed in phase %s:\n%s", call.invocation_id, call.tool_id, call.phase.value, text)
    if call.status is not None or call.unwritten is not None:
        with suppress(StoreError):
            call.note(steps.CRASHED, {"traceback": text})


def error_of_crash(call: Call, crash: BaseException) -> ToolError:
    """Return the error of an unexpected exception; its class depends on the phase."""
    phase = call.phase
    error_class = CRASH_CLASSES[phase]
    if phase is Phase.EXECUTE and isinstance(crash, _UNREACHABLE):
        error_class = ErrorClass.DEPENDENCY_UNAVAILABLE
    tool = call.tool
    message = f"{type(crash).__name__}: {_bounded(call, words_of(crash))}"
    return guided(error_class, phase=phase, message=message, effects=None if tool is None else tool.mapping.effects)


def describe_misfits(misfits: Sequence[Misfit]) -> str:
    """Return a message about the first violations."""
    described = [
        f"at {each.pointer or '/'!r}: expected {each.expected}; {each.advice}" for each in misfits[:MAX_DESCRIBED]
    ]
    more = f" (and {len(misfits) - MAX_DESCRIBED} more)" if len(misfits) > MAX_DESCRIBED else ""
    return "; ".join(described) + more


SHUTDOWN_S = 15.0
"""How long a runtime waits for calls that it canceled."""

FINISH_S = 5.0
"""How long a runtime waits for running calls that were approved or recovered, before it cancels them."""


async def stop_calls(core: Core, open_calls: Callable[[], tuple[Call, ...]]) -> None:
    """Park or cancel every open call, and wait up to `SHUTDOWN_S` until their results are written.

    A process may exist only to answer a question, and close right after. So an approved or recovered call that has not
    started is parked for another process, and one that runs gets `FINISH_S` to end.
    """
    finishing = [call for call in open_calls() if not await _park_or_cancel(call, may_finish=True)]
    with core.registry.waiter() as call_ended:
        if finishing:
            ids = ", ".join(call.invocation_id for call in finishing)
            log.info("closing waits up to %g s for calls that were approved: %s", FINISH_S, ids)
            await _wait_for(lambda: not any(call in finishing for call in open_calls()), call_ended, FINISH_S)
            for call in open_calls():
                await _park_or_cancel(call, may_finish=False)
        await _wait_for(lambda: not open_calls(), call_ended, SHUTDOWN_S)
    with suppress(TimeoutError):
        async with asyncio.timeout(SHUTDOWN_S):
            await core.payloads.close()


async def _park_or_cancel(call: Call, *, may_finish: bool) -> bool:
    """Park or cancel a call; return False if it may finish first."""
    root = call
    while root.parent is not None:
        root = root.parent
    if call.is_parked:
        return True
    if can_park(root) or await _can_resend(root):
        park(root)
        return True
    if may_finish and call.recovery is not None and call.recovery.may_finish:
        return False
    request_cancel(call, AbortReason.RUNTIME_SHUTDOWN)
    return True


async def _wait_for(is_done: Callable[[], bool], call_ended: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_done():
                call_ended.clear()
                await call_ended.wait()


def can_park(call: Call) -> bool:
    """Return whether another process can resume a call that waits: for an answer, its start, or nested calls."""
    return call.parent is None and _waits(call)  # a nested call is parked with its parent


def _waits(call: Call) -> bool:
    if not call.has_checkpoint:
        return False
    if call.status is InvocationStatus.AWAITING_APPROVAL:
        return call.drive is not None
    recovery = call.ensure_recovery()
    if recovery.is_remote:
        return call.core.durable and call.drive is not None
    if call.started_ns:
        return _waits_for_nested(call)
    return (recovery.may_finish or call.status in _NOT_STARTED) and call.core.durable


def _waits_for_nested(call: Call) -> bool:
    """Return whether a tool waits only for nested calls that wait, and may run again in the next process.

    That run finds its nested calls by their ids. One of an earlier process is in `awaited`, because it is open in this
    process only once it is answered.
    """
    nesting, background = call.nesting, call.background
    if nesting is None or nesting.key is None or (background is not None and background.ends_with_process):
        return False
    is_waiting = bool(nesting.children or nesting.awaited) and all(map(_waits, call.children))
    return is_waiting and call.core.durable and call.ensure_recovery().attempts < MAX_ATTEMPTS


_NOT_STARTED = (InvocationStatus.PLANNED, InvocationStatus.QUEUED)


async def _can_resend(call: Call) -> bool:
    """Return whether a call is sending the request of a deferred tool, and another process may send it again."""
    later = None if call.tool is None else call.tool.later
    is_sending = call.has_checkpoint and call.core.durable and call.drive is not None and call.parent is None
    return later is not None and is_sending and await later.may_resend(call.invocation_id)


def park(call: Call) -> None:
    """Stop a call and its nested calls in this process without recording an end; another process resumes them."""
    for child in call.children:
        park(child)
    call.ensure_recovery().is_parked = True
    call.stop.reason = AbortReason.RUNTIME_SHUTDOWN
    if call.drive is not None:
        call.drive.stop()


def stop_after_close(call: Call) -> None:
    """Park a call that was about to start when its runtime closed; cancel it if no other process can resume it."""
    if can_park(call):
        park(call)
    else:
        call.stop.reason = AbortReason.RUNTIME_SHUTDOWN


def leave_parked(call: Call, result: ToolResult) -> ToolResult:
    """Remove a parked call from this process and return the result that reports this; the journal gets no fact."""
    core, call.result = call.core, result
    if core.registry.calls.get(call.invocation_id) is call:  # a recovered call may have taken its place
        core.registry.remove(call.invocation_id)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result
