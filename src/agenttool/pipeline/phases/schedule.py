"""Phase 7: wait for a turn, if there is anything to wait for."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.lines import Turn

_PHASE = Phase.SCHEDULE


def enter_at_once(call: Call, tool: Tool, call_input: JsonObject) -> Turn | None:
    """Give the call its turn if nobody is in its way; whoever gets one gives it back to the gate."""
    call.phase = _PHASE
    facts = tool.static_facts or tool.safety.compute(call_input)
    call.turn = turn = call.core.gate.try_enter(facts, call.parent.turn if call.parent is not None else None)
    return turn


async def schedule(call: Call, tool: Tool, call_input: JsonObject) -> Turn:
    """Wait for a turn.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    core = call.core
    facts = tool.static_facts or tool.safety.compute(call_input)
    call.note(steps.QUEUED)
    call.drive = drive = Drive(core.patience)
    turn = await drive.run(core.gate.enter(facts, call.parent.turn if call.parent is not None else None))
    call.drive = None
    if isinstance(turn, Stopped):
        call.interrupted = call.interrupted or drive.caller_canceled
        raise ToolFailure(failure_of_stop(call))
    call.turn = turn
    return turn
