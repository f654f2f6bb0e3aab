"""Phase 8: run the tool, inside the caller's own task, with a deadline and a way to stop it."""

from asyncio import CancelledError
from collections.abc import Coroutine
from dataclasses import dataclass

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Launched
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import InvocationStatus, JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped

_PHASE = Phase.EXECUTE
_QUEUED = InvocationStatus.QUEUED
_LAUNCHED = steps.LAUNCHED
_STARTED = steps.STARTED
_RESUMED = steps.RESUMED


@dataclass(slots=True)
class Waiting:
    """A run that has begun and waits for something."""

    work: Coroutine[object, object, object]
    awaited: object


def begin(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Start the tool; give its native output if it never waits, and otherwise what it waits for.

    Raises:
        ToolFailure: execution_failed, dependency_unavailable, rate_limited, canceled.
    """
    call.phase = _PHASE
    if call.abort_reason is not None:
        raise ToolFailure(failure_of_stop(call))
    call.call_input = call_input
    if call.standing is not None:
        launched = Launched(call.request, call.standing, call.unique)
        call.is_admitted = False
        call.decisions = 1
        call.started_ns = call.core.journal.note(call, _LAUNCHED, launched)
    else:
        call.started_ns = call.note(_RESUMED if call.status is _QUEUED else _STARTED)
    work = tool.start(call)
    try:
        return Waiting(work, work.send(None))
    except StopIteration as end:
        return end.value
    except CancelledError as canceled:
        drive = Drive(call.core.patience)
        return _ended(call, drive, drive.end_canceled(canceled))


async def execute(call: Call, run: Waiting) -> object:
    """Go on with a tool that waits for something: from now on it can be stopped, and its time runs.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    call.drive = drive = Drive(call.core.patience, call.arm_deadline)
    if call.abort_reason is not None:
        drive.stop()
    carrying = drive.carry(run.work, run.awaited)
    run.awaited = None  # it may come to hold an error that knows this frame
    try:
        output = await carrying
    finally:
        call.drive = None
        if call.deadline is not None:
            call.core.deadlines.cancel(call.deadline)
    return _ended(call, drive, output)


def _ended(call: Call, drive: Drive, output: object) -> object:
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if type(output) is Stopped:
        raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))
    return output
