"""Phase 8: run the tool, inside the caller's own task, with a deadline and a way to stop it."""

from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.started import Waiting, carry, start
from agenttool.pipeline.stopping import refuse_if_stopped
from agenttool.pipeline.tool import Tool
from agenttool.records import InvocationStatus, JsonObject, Phase

_PHASE = Phase.EXECUTE


async def execute(call: Call, tool: Tool, call_input: JsonObject) -> object:
    """Run the tool once and give its native output untouched.

    Raises:
        ToolFailure: execution_failed, timeout, dependency_unavailable, rate_limited, canceled.
    """
    call.phase = _PHASE
    refuse_if_stopped(call)
    call.call_input = call_input
    call.started_ns = call.note(steps.RESUMED if call.status is InvocationStatus.QUEUED else steps.STARTED)
    output = start(call, tool.start(call))
    return await carry(call, output) if type(output) is Waiting else output
