"""Shutdown of a runtime: running calls are canceled; calls that wait for an answer are parked for another process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.cancellation import request_cancel
from agenttool.records import AbortReason, InvocationStatus, ToolResult

SHUTDOWN_S = 15.0
"""How long a runtime waits for calls that it canceled."""


async def stop_calls(core: Core, open_calls: Callable[[], tuple[Call, ...]]) -> None:
    """Park or cancel every open call, and wait up to `SHUTDOWN_S` until their results are written."""
    for call in open_calls():
        if can_park(call) or await _can_resume(call):
            park(call)
        else:
            request_cancel(call, AbortReason.RUNTIME_SHUTDOWN)
    with suppress(TimeoutError), core.registry.waiter() as call_ended:
        async with asyncio.timeout(SHUTDOWN_S):
            while open_calls():
                call_ended.clear()
                await call_ended.wait()
            await core.payloads.close()


def can_park(call: Call) -> bool:
    """Return whether a call only waits for an answer and has a checkpoint from which another process can resume it."""
    is_remote = call.recovery is not None and call.recovery.is_remote
    waits = call.status is InvocationStatus.AWAITING_APPROVAL or (is_remote and call.core.durable)
    is_waiting = call.has_checkpoint and waits and call.drive is not None
    return is_waiting and call.parent is None  # the parent ends with this process and takes no result


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


def leave_parked(call: Call, result: ToolResult) -> ToolResult:
    """Drop a parked call from this process and return the result that says so; the journal gets no fact."""
    core, call.result = call.core, result
    if core.registry.calls.get(call.invocation_id) is call:  # a recovered call may have taken its place
        core.registry.remove(call.invocation_id)
    if call.stop.interrupted is not None:
        raise call.stop.interrupted
    return result
