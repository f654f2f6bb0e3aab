"""Phase 7: wait for a turn, if there is anything to wait for."""

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import JsonObject, Phase
from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.lines import Turn
from agenttool.scheduler.safety import CallFacts, facts_of

_PHASE = Phase.SCHEDULE


async def schedule(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Give the call its turn; it is given back with `release`.

    Raises:
        ToolFailure: canceled, sibling_canceled.
    """
    call.phase = _PHASE
    facts = facts_of(tool.safety, call_input)
    within = None if call.parent is None else call.parent.own_turn()
    call.turn = call.core.gate.try_enter(facts, within) or await _wait(call, facts, within)


def release(call: Call) -> None:
    """Give the turn back."""
    if call.turn is not None:
        call.core.gate.leave(call.turn)


async def _wait(call: Call, facts: CallFacts, within: Turn | None) -> Turn:
    core = call.core
    call.note(steps.QUEUED)
    call.drive = drive = Drive(core.patience)
    turn = await drive.run(core.gate.enter(facts, within))
    call.drive = None
    if isinstance(turn, Stopped):
        call.interrupted = call.interrupted or drive.caller_canceled
        raise ToolFailure(failure_of_stop(call))
    return turn
