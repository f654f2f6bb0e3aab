"""Phase 8: run the tool, inside the caller's own task, with a deadline and a way to stop it."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop, time_out
from agenttool.pipeline.tool import Tool
from agenttool.records import InvocationStatus, JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped

_PHASE = Phase.EXECUTE
_QUEUED = InvocationStatus.QUEUED


async def execute(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Run the tool once and give its native output untouched.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    call.phase = _PHASE
    core = call.core
    if call.abort_reason is not None:
        raise ToolFailure(failure_of_stop(call))
    step = steps.RESUMED if call.status is _QUEUED else steps.STARTED
    call.call_input = call_input
    call.started_ns = core.journal.note(call, step)
    call.drive = drive = Drive(core.patience)
    seconds = tool.timeout_s if tool.timeout_s is not None else core.default_timeout_s
    deadline = None
    if seconds is not None:
        call.deadline_ns = call.started_ns + int(seconds * 1e9)
        deadline = core.deadlines.arm(core.loop.time() + seconds, lambda: time_out(call))
    try:
        output = await drive.run(tool.start(call))
    finally:
        call.drive = None
        if deadline is not None:
            core.deadlines.cancel(deadline)
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if type(output) is Stopped:
        raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))
    return output
