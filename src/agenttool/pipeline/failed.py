"""A failure becomes a result, in this one place."""

from asyncio import CancelledError

from agenttool.codec import read, write
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError, words_of
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.records import PHASE_RULES, AbortReason, ErrorClass, Phase, ToolError, replace
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.mapping import Mapped

_CRASH = {rule.phase: rule.crash for rule in PHASE_RULES}
_UNREACHABLE = (ConnectionError, TimeoutError)
_NOT_FOR_US = (CancelledError, KeyboardInterrupt, GeneratorExit)
"""What is meant for whoever runs the call: it goes on once the result is written."""


def failed(call: Call, error: ToolError) -> Mapped:
    """Give the result of a call that failed."""
    result = result_of_failure(
        whole(call, error),
        result_id=call.result_id,
        invocation_id=call.invocation_id,
        created_at=timestamp(call.core.now_ns()),
        scrubber=call.scrubber,
    )
    return Mapped(result=result)


def whole(call: Call, error: ToolError) -> ToolError:
    """Say where a call failed, and hold the error to its shape: whoever raised it may have put anything there."""
    try:
        message = None if error.message is None else str(error.message).encode(errors="replace").decode()
        return read(write(replace(error, phase=error.phase or call.phase.value, message=message)), ToolError)
    except (RecordError, TypeError, ValueError, AttributeError, RecursionError) as flaw:
        message = f"the error that was raised is none: {words_of(flaw)}; fill ToolError as it is declared"
        return guided(_CRASH[call.phase], phase=call.phase, message=message)


def error_of_interruption(call: Call, crash: BaseException) -> ToolError:
    """Give the error of whatever ended the work; what is not for us to swallow is kept, to go on after the result."""
    if not isinstance(crash, _NOT_FOR_US):
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
    message = f"{type(crash).__name__}: {words_of(crash)}"
    return guided(error_class, phase=phase, message=message, effects=False if only_reads else None)
