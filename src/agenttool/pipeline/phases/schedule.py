"""Phase 7: wait for a turn, if there is anything to wait for."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.lines import Turn
from agenttool.scheduler.safety import CallFacts

_PHASE = Phase.SCHEDULE


async def schedule(call: Call, tool: Tool, call_input: JsonObject) -> Turn:
    """Give the call its turn; whoever gets one gives it back with `release`.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    call.phase = _PHASE
    facts = tool.safety.static or tool.safety.compute(call_input)
    within = call.parent.turn if call.parent is not None else None
    turn = call.core.gate.try_enter(facts, within)
    if turn is None:
        turn = await _wait(call, facts, within)
    call.turn = turn
    return turn


def release(call: Call, turn: Turn) -> None:
    """Give the turn back."""
    call.turn = None
    call.core.gate.leave(turn)


async def _wait(call: Call, facts: CallFacts, within: Turn | None) -> Turn:
    core = call.core
    core.journal.note(call, steps.QUEUED)
    call.drive = drive = Drive(core.patience)
    turn = await drive.run(core.gate.enter(facts, within))
    call.drive = None
    if isinstance(turn, Stopped):
        call.interrupted = call.interrupted or drive.caller_canceled
        raise ToolFailure(failure_of_stop(call))
    return turn
