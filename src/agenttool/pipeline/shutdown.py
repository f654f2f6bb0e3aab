"""Shutdown of a runtime: running calls are canceled; calls that wait for an answer are parked for another process."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.cancellation import request_cancel
from agenttool.records import AbortReason, InvocationStatus, ToolResult

SHUTDOWN_S = 15.0
"""How long a runtime waits for calls that it canceled."""

FINISH_S = 5.0
"""How long a runtime waits for calls that were approved or recovered and run already, before it cancels them."""

log = logging.getLogger("agenttool.calls")


async def stop_calls(core: Core, open_calls: Callable[[], tuple[Call, ...]]) -> None:
    """Park or cancel every open call, and wait up to `SHUTDOWN_S` until their results are written.

    The process that answers a question, or recovers a call, may end at once. So a call that is approved and did not
    start is left to another process, and one that runs gets `FINISH_S` to end.
    """
    finishing = [call for call in open_calls() if not await _stop(call, may_finish=True)]
    with core.registry.waiter() as call_ended:
        if finishing:
            log.info("closing waits up to %g s for calls that were approved: %s", FINISH_S, _ids(finishing))
            await _wait_for(lambda: not any(call in finishing for call in open_calls()), call_ended, FINISH_S)
            for call in open_calls():
                await _stop(call, may_finish=False)
        await _wait_for(lambda: not open_calls(), call_ended, SHUTDOWN_S)
    with suppress(TimeoutError):
        async with asyncio.timeout(SHUTDOWN_S):
            await core.payloads.close()


async def _stop(call: Call, *, may_finish: bool) -> bool:
    """Park or cancel a call; return false if it may finish first."""
    if can_park(call) or await _can_resume(call):
        park(call)
        return True
    if may_finish and call.recovery is not None and call.recovery.may_finish:
        return False
    request_cancel(call, AbortReason.RUNTIME_SHUTDOWN)
    return True


async def _wait_for(is_done: Callable[[], bool], call_ended: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_done():
                call_ended.clear()
                await call_ended.wait()


def _ids(calls: Iterable[Call]) -> str:
    return ", ".join(call.invocation_id for call in calls)


def can_park(call: Call) -> bool:
    """Return whether a call waits for an answer, or for its start, and another process can resume it."""
    if not call.has_checkpoint or call.parent is not None:
        return False  # a parent ends with this process and takes no result
    if call.status is InvocationStatus.AWAITING_APPROVAL:
        return call.drive is not None
    recovery = call.ensure_recovery()
    if recovery.is_remote:
        return call.core.durable and call.drive is not None
    is_waiting = recovery.may_finish or call.status in _NOT_STARTED
    return is_waiting and not call.started_ns and call.core.durable


_NOT_STARTED = (InvocationStatus.PLANNED, InvocationStatus.QUEUED)


async def _can_resume(call: Call) -> bool:
    """Return whether another process can send the request of a deferred call again, and so continue the call."""
    later = None if call.tool is None else call.tool.later
    is_sending = call.has_checkpoint and call.core.durable and call.drive is not None and call.parent is None
    return later is not None and is_sending and await later.may_resend(call.invocation_id)


def park(call: Call) -> None:
    """Stop the wait of a call in this process without ending the call."""
    call.ensure_recovery().is_parked = True
    call.stop.reason = AbortReason.RUNTIME_SHUTDOWN
    if call.drive is not None:
        call.drive.stop()


def stop_after_close(call: Call) -> None:
    """Park a call that was about to start when its runtime closed; cancel it if no other process can resume it."""
    if can_park(call):
        park(call)
    else:
        call.stop.reason = AbortReason.RUNTIME_SHUTDOWN


def leave_parked(call: Call, result: ToolResult) -> ToolResult:
    """Drop a parked call from this process and return the result that says so; the journal gets no fact."""
    core, call.result = call.core, result
    if core.registry.calls.get(call.invocation_id) is call:  # a recovered call may have taken its place
        core.registry.remove(call.invocation_id)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result
