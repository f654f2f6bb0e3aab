"""Phase 8: run the tool, inside the caller's own task, with a deadline and a way to stop it."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import InvocationStatus, JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped

_PHASE = Phase.EXECUTE
_QUEUED = InvocationStatus.QUEUED
_STARTED = steps.STARTED
_RESUMED = steps.RESUMED


async def execute(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Run the tool once and give its native output untouched.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    call.phase = _PHASE
    core = call.core
    if call.abort_reason is not None:
        raise ToolFailure(failure_of_stop(call))
    call.call_input = call_input
    call.started_ns = core.journal.note(call, _RESUMED if call.status is _QUEUED else _STARTED)
    call.drive = drive = Drive(core.patience, call.arm_deadline)
    try:
        output = await drive.run(tool.start(call))
    finally:
        call.drive = None
        if call.deadline is not None:
            core.deadlines.cancel(call.deadline)
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if type(output) is Stopped:
        raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))
    return output
