"""Turn failures into results, record tracebacks, and describe invalid input."""

import logging
from asyncio import CancelledError
from collections.abc import Sequence
from contextlib import suppress

from agenttool.codec import read, write
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError, StoreError, words_of
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import failure_of_stop
from agenttool.records import CRASH_CLASSES, AbortReason, ErrorClass, Phase, ToolError, replace
from agenttool.results.failure import MAX_SCRUBBED_CHARS, guided, result_of_failure
from agenttool.results.mapping import Mapped
from agenttool.results.messages import without_controls
from agenttool.results.redaction import scrubbed_message
from agenttool.schema.explain import Misfit

_UNREACHABLE = (ConnectionError, TimeoutError)
_INTERRUPTIONS = (CancelledError, KeyboardInterrupt, GeneratorExit)
"""Exceptions for the caller's task; they are raised again once the result is written."""

MAX_DESCRIBED = 5
MAX_TRACE_CHARS = 8000
"""So many characters of a traceback are recorded; the middle of a longer one is left out."""

log = logging.getLogger("agenttool.calls")


def failed_result(call: Call, error: ToolError) -> Mapped:
    """Return the result of a failed call."""
    result = result_of_failure(
        valid_error(call, error),
        result_id=call.result_id,
        invocation_id=call.invocation_id,
        created_at=timestamp(call.core.now_ns()),
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
    """Return the error of an exception; store an interruption, to raise it after the result is written."""
    if not isinstance(crash, _INTERRUPTIONS):
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
    is_safe = tool is not None and (tool.mapping.effects is False or tool.supports_retries)
    message = f"{type(crash).__name__}: {_bounded(call, words_of(crash))}"
    return guided(error_class, phase=phase, message=message, effects=False if is_safe else None)


def describe_misfits(misfits: Sequence[Misfit]) -> str:
    """Return a message about the first violations."""
    described = [
        f"at {each.pointer or '/'!r}: expected {each.expected}; {each.advice}" for each in misfits[:MAX_DESCRIBED]
    ]
    more = f" (and {len(misfits) - MAX_DESCRIBED} more)" if len(misfits) > MAX_DESCRIBED else ""
    return "; ".join(described) + more
