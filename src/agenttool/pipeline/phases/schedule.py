"""Phase 7: wait for a turn, if there is anything to wait for."""

from asyncio import CancelledError, sleep

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Scheduled
from agenttool.pipeline.outlast import outlast
from agenttool.pipeline.started import pause
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.pipeline.tool import Tool
from agenttool.records import InvocationStatus, JsonObject, Phase
from agenttool.scheduler.call_facts import CallFacts, call_facts_of
from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.limiter import CallLimiter, Permit
from agenttool.scheduler.rate_limits import rate_limited, reserve_tokens

_PHASE = Phase.SCHEDULE


def takes_free_turn(call: Call, tool: Tool, call_input: JsonObject) -> bool:
    """Take a turn if the call need not wait for anything; return False, without a trace, if it may have to."""
    if tool.buckets or call.gate is not None or call.parent is not None:
        return False
    facts = tool.safety.static or call_facts_of(tool.safety, call_input)
    turn = call.core.gate.try_acquire(facts)
    if turn is None:
        return False
    call.phase = _PHASE
    call.facts = facts.record
    call.turn = turn
    return True


async def schedule(call: Call, tool: Tool, call_input: JsonObject) -> None:
    """Give the call its turn, in its batch and in the runtime; it is given back with `release`.

    Raises:
        ToolFailure: canceled, sibling_canceled, rate_limited.
    """
    call.phase = _PHASE
    call.publish()
    facts = call_facts_of(tool.safety, call_input)
    call.facts = facts.record
    within = None if call.parent is None else call.parent.own_turn()
    if call.gate is not None:
        call.batch_turn = call.gate.try_acquire(facts) or await _wait(call, call.gate, facts, None)
    try:
        if tool.buckets:
            await _keep_to_the_rate(call, tool)
        gate = call.core.gate
        call.turn = gate.try_acquire(facts, within) or await _wait(call, gate, facts, within)
    except BaseException:
        release(call)
        raise


def release(call: Call) -> None:
    """Give the turns back, once nothing of the call runs any more."""
    if call.goes_on_until is not None:
        outlast(call, lambda: _leave(call))
    elif call.gate is None and call.turn is not None:
        call.core.gate.release(call.turn)
    else:
        _leave(call)


async def give_way(call: Call) -> None:
    """Let those in the batch who waited for this turn begin before the rest of this call is done.

    That takes two turns of the event loop: in the first they are told, in the second they go. The tool has run, so
    whoever cancels the caller meanwhile gets its way once the result is written.
    """
    if call.gate is None or not call.gate.has_waiters:
        return
    try:
        await sleep(0)
        await sleep(0)
    except CancelledError as canceled:
        call.interrupted = canceled


def _leave(call: Call) -> None:
    if call.turn is not None:
        call.core.gate.release(call.turn)
    if call.gate is not None and call.batch_turn is not None:
        call.gate.release(call.batch_turn)


async def _keep_to_the_rate(call: Call, tool: Tool) -> None:
    core = call.core
    now = core.deadlines.now()
    seconds = reserve_tokens(tool.buckets, now)
    if seconds is None:
        longest = max(bucket.wait(now) for bucket in tool.buckets)
        raise ToolFailure(rate_limited(tool.name, longest))
    if seconds:
        _note_queued(call)
        await pause(call, seconds)


async def _wait(call: Call, gate: CallLimiter, facts: CallFacts, within: Permit | None) -> Permit:
    _note_queued(call)
    call.drive = drive = Drive(call.core.patience)
    try:
        turn = await drive.run(gate.acquire(facts, within))
    finally:
        call.drive = None
    if isinstance(turn, Stopped):
        call.interrupted = call.interrupted or drive.caller_canceled
        raise ToolFailure(failure_of_stop(call))
    return turn


def _note_queued(call: Call) -> None:
    if call.status is not InvocationStatus.QUEUED:
        call.note(steps.QUEUED, None if call.facts is None else Scheduled(call.facts))
