"""Going on with a call whose answer came later: the answer is its output, and from there it goes like any other."""

from agenttool.codec import parse_object
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.away import give_up, hand_over, read_answer
from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.failed import error_of_interruption, failed
from agenttool.pipeline.faithful import unfaithful
from agenttool.pipeline.held import Held, Point, kept
from agenttool.pipeline.parking import leave_parked
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.phases.execute import run
from agenttool.pipeline.phases.map_result import map_result
from agenttool.pipeline.resume import unknown_after_crash
from agenttool.pipeline.run import finish
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.ports.stores import OpenCall
from agenttool.records import AbortReason, ApprovalId, ToolResult


def hand_in(core: Core, key: ApprovalId, body: bytes) -> bool:
    """Hand an answer to the call of this process that waits for it; tell whether there is one."""
    waiting = core.waiting.get(key)
    if waiting is None:
        return False
    if not waiting.done():
        waiting.set_result(body)
    return True


async def go_on_late(call: Call, tool: Tool, held: Held, opened: OpenCall) -> ToolResult:
    """Go on with a call that was left: with its answer, without one that is overdue, or to be sent once more."""
    call.core.calls[call.invocation_id] = call
    call.call_input = parse_object(held.call_input)
    try:
        mapped = map_result(call, await _output(call, tool, held, opened))
    except ToolFailure as failure:
        mapped = failed(call, failure.error)
    except BaseException as crash:  # noqa: BLE001 -- as in run_call: there is a result whatever happens
        mapped = failed(call, error_of_interruption(call, crash))
    if call.is_parked:
        return leave_parked(call, mapped.result)
    result = await finish(call, mapped)
    return await kept(call, emit_terminal(call, result, mapped.chars))


async def _output(call: Call, tool: Tool, held: Held, opened: OpenCall) -> object:
    """Give what the tool says.

    Raises:
        ToolFailure: its answer is overdue, or a failure; or it cannot be asked again.
    """
    later = tool.later
    if later is None:
        raise ToolFailure(unknown_after_crash())
    if opened.answer is not None:
        return await read_answer(call, later, opened.answer)
    if opened.kind == Point.AWAY:
        call.abort_reason = AbortReason.TIMEOUT
        await give_up(call, later)
        raise ToolFailure(failure_of_stop(call))
    call.attempts += 1
    call.note(steps.TAKEN_UP, {"attempt": call.attempts})
    facts = call.core.journal.log.facts_of(call.invocation_id)
    if tool.subject.declaration_digest != held.declaration_digest or unfaithful(opened.kind, held, facts):
        raise ToolFailure(unknown_after_crash())
    # The same words under the same id: whoever heard them before knows that it is the same call. However often: what
    # is done here is to send them, which has killed nobody.
    return await hand_over(call, later, lambda: run(call, tool))
