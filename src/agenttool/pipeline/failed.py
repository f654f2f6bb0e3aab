"""A failure becomes a result, in this one place."""

from agenttool.journal.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.records import PHASE_RULES, AbortReason, ErrorClass, Phase, ToolError
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.mapping import Mapped

_CRASH = {rule.phase: rule.crash for rule in PHASE_RULES}
_UNREACHABLE = (ConnectionError, TimeoutError)


def failed(call: Call, error: ToolError) -> Mapped:
    """Give the result of a call that failed."""
    result = result_of_failure(
        error,
        result_id=call.result_id,
        invocation_id=call.invocation_id,
        created_at=timestamp(call.core.now_ns()),
        scrubber=call.scrubber,
    )
    return Mapped(result=result)


def error_of_interruption(call: Call, crash: BaseException) -> ToolError:
    """Give the error of whatever ended the work; what is not for us to swallow is kept, to go on after the result."""
    if isinstance(crash, Exception | SystemExit):
        return error_of_crash(call, crash)
    call.interrupted = crash
    if call.abort_reason is None:
        above = call.parent.abort_reason if call.parent is not None else None
        call.abort_reason = above or AbortReason.USER_INTERRUPTION
    return failure_of_stop(call)


def error_of_crash(call: Call, crash: BaseException) -> ToolError:
    """Give the error of an exception that nobody meant to raise, by the phase it came from."""
    phase = call.phase
    error_class = _CRASH[phase]
    if phase is Phase.EXECUTE and isinstance(crash, _UNREACHABLE):
        error_class = ErrorClass.DEPENDENCY_UNAVAILABLE
    only_reads = call.tool is not None and call.tool.mapping.effects is False
    message = f"{type(crash).__name__}: {_words(crash)}"
    return guided(error_class, phase=phase, message=message, effects=False if only_reads else None)


def _words(crash: BaseException) -> str:
    """Read an exception's own words; some raise when asked."""
    try:
        return str(crash)
    except Exception:  # noqa: BLE001 -- somebody else's code
        return "it cannot even say what went wrong"
