"""A failure becomes a result, in this one place."""

from agenttool.journal.moments import timestamp
from agenttool.pipeline.call import Call
from agenttool.records import PHASE_RULES, ErrorClass, Phase, ToolError
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
        created_at=timestamp(call.core.clock.now_ns()),
        scrubber=call.scrubber,
    )
    return Mapped(result=result)


def error_of_crash(call: Call, crash: Exception) -> ToolError:
    """Give the error of an exception that nobody meant to raise, by the phase it came from."""
    phase = call.phase
    error_class = _CRASH[phase]
    if phase is Phase.EXECUTE and isinstance(crash, _UNREACHABLE):
        error_class = ErrorClass.DEPENDENCY_UNAVAILABLE
    only_reads = call.tool is not None and call.tool.mapping.effects is False
    message = f"{type(crash).__name__}: {crash}"
    return guided(error_class, phase=phase, message=message, effects=False if only_reads else None)
