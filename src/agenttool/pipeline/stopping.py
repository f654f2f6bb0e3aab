"""Why a call stopped before its end, and how somebody asks it to."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.records import AbortReason, ErrorClass, Phase, ToolError
from agenttool.results.failure import guided
from agenttool.results.synthetic import canceled_by_user, stopped_by_shutdown

_AFTER_THE_TOOL = (Phase.POST_HOOKS, Phase.PERSIST_RESULT)


def request_cancel(call: Call, reason: AbortReason) -> bool:
    """Ask a call to stop; tell whether it will. The request is noted either way (AT-PROG-10).

    Once its tool has run, a person may still end the hooks that hold its result, but the failure of a call beside it
    takes no result away.
    """
    call.wants_to_stop = True
    if call.status is None:
        call.abort_reason = call.abort_reason or reason
        return True
    if call.status.is_terminal:
        return False
    call.note(steps.CANCEL_REQUESTED, {"abort_reason": reason.value})
    is_running = call.started_ns != 0
    if is_running and call.tool is not None and not call.tool.supports_cancel:
        call.note(steps.CANCEL_FAILED, {"reason": "unsupported"})
        return False
    if reason is AbortReason.SIBLING_ERROR and call.phase in _AFTER_THE_TOOL:
        call.note(steps.CANCEL_FAILED, {"reason": "too_late"})
        return False
    if call.abort_reason is None:
        call.abort_reason = reason
    if call.drive is not None:
        call.drive.stop()
    return True


def refuse_if_stopped(call: Call) -> None:
    """End a call that was asked to stop while nothing of it was running.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    if call.abort_reason is not None:
        raise ToolFailure(failure_of_stop(call))


def failure_of_stop(call: Call, *, abandoned: bool = False) -> ToolError:
    """Give the error of a call that was stopped, by whoever stopped it."""
    reason = call.abort_reason or AbortReason.USER_INTERRUPTION
    if reason is AbortReason.TIMEOUT:
        left = "; it ignored the request to stop and was left behind" if abandoned else ""
        seconds = (call.core.now_ns() - call.started_ns) / 1e9
        message = f"no result after {seconds:.3g} s{left}; ask for less, or allow it more time"
        return guided(ErrorClass.TIMEOUT, phase=call.phase, message=message, abort_reason=reason)
    if reason is AbortReason.RUNTIME_SHUTDOWN:
        return stopped_by_shutdown(call.phase)
    if reason is AbortReason.SIBLING_ERROR:
        message = "a call beside this one failed, so this one was not finished"
        return guided(ErrorClass.SIBLING_CANCELED, phase=call.phase, message=message, abort_reason=reason)
    return canceled_by_user(call.phase)
