"""Cancellation of calls: request it, record it, and return the error of a stopped call."""

from contextlib import suppress

from agenttool.codec.moments import timestamp
from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import CancelState
from agenttool.policy.approvals import Approver
from agenttool.records import (
    AbortReason,
    Cancellation,
    CancellationOutcome,
    ErrorClass,
    InvocationStatus,
    Phase,
    ToolError,
    replace,
)
from agenttool.results.failure import guided, stopped_by
from agenttool.scheduler.drive import TOO_LATE, UNSUPPORTED, stops_on_interrupt

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
            cancel_requested=timestamp(call.core.now_ns()),
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
            call.note(steps.CANCEL_REQUESTED, CancelState(requested))
            if requested.message is not None:
                call.note(steps.CANCEL_FAILED, CancelState(requested))


def acknowledge(call: Call) -> None:
    """Record that the tool acknowledged the cancellation: it ended when it was interrupted."""
    if call.stop.cancellation is not None:
        call.stop.cancellation = replace(call.stop.cancellation, cancel_acknowledged=timestamp(call.core.now_ns()))
        call.note(steps.CANCEL_ACKNOWLEDGED, CancelState(call.stop.cancellation))


def settle_cancellation(call: Call, *, canceled: bool) -> None:
    """Record the outcome of a cancellation."""
    record_cancellation(call)
    requested = call.stop.cancellation
    if requested is not None:
        outcome = CancellationOutcome.CANCELED if canceled else CancellationOutcome.CANCEL_FAILED
        settled = replace(requested, outcome=outcome)
        is_failure_unrecorded = not canceled and requested.message is None
        call.note(steps.CANCEL_FAILED if is_failure_unrecorded else steps.CANCEL_SETTLED, CancelState(settled))


def _why_not_cancelable(call: Call) -> str | None:
    if call.phase in _AFTER_TOOL:
        return TOO_LATE
    is_running = call.started_ns != 0 and call.tool is not None
    return UNSUPPORTED if is_running and call.tool is not None and not call.tool.supports_cancel else None


def is_interruptible(call: Call) -> bool:
    """Return whether a user interruption stops a running call; its tool and its batch decide."""
    declared = call.tool.interrupt_behavior if call.tool is not None else None
    return stops_on_interrupt(declared, None if call.batch is None else call.batch.policy.interrupt_behavior)


def refuse_if_stopped(call: Call) -> None:
    """Raise the failure of a call that was asked to stop.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    if call.stop.reason is not None:
        raise ToolFailure(failure_of_stop(call))


def failure_of_stop(call: Call, *, abandoned: bool = False) -> ToolError:
    """Return the error of a stopped call; a read-only tool has no effects."""
    reason = call.stop.reason or AbortReason.USER_INTERRUPTION
    effects = False if call.tool is not None and call.tool.mapping.effects is False else None
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
    if call.background is not None:
        return f"{call.invocation_id} waits for an answer that comes later"
    return f"the runtime closed before an answer arrived; {call.invocation_id} continues once there is one"


def _why_timed_out(call: Call, *, abandoned: bool) -> str:
    later, now_ns = None if call.tool is None else call.tool.later, call.core.now_ns()
    why = None if later is None else later.why_over(call.invocation_id, now_ns)
    if why is not None:
        return why
    left = "; it ignored the request to stop and was left behind" if abandoned else ""
    return f"no result after {(now_ns - call.started_ns) / 1e9:.3g} s{left}; ask for less, or allow it more time"
