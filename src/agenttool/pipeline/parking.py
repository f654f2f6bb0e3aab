"""The end of a runtime: calls are stopped, and those that wait for an answer are left to whoever comes next."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.stopping import request_cancel
from agenttool.records import AbortReason, InvocationStatus, ToolResult

CLOSING_S = 15.0
"""How long a runtime that closes waits for calls that were asked to stop."""


async def let_end(core: Core, under_way: Callable[[], tuple[Call, ...]]) -> None:
    """Stop or park every call, and wait, for a while, until they have written their results."""
    left = asyncio.Event()
    core.closing.append(left)
    for call in under_way():
        if can_park(call):
            park(call)
        else:
            request_cancel(call, AbortReason.RUNTIME_SHUTDOWN)
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSING_S):
            while under_way():
                left.clear()
                await left.wait()
            if core.storing:
                await asyncio.wait(core.storing)


def can_park(call: Call) -> bool:
    """Tell whether a call only waits for an answer, and the store holds what it takes to go on with it."""
    waits = call.status is InvocationStatus.AWAITING_APPROVAL or (call.is_away and call.core.durable)
    is_waiting = call.is_held and waits and call.drive is not None
    return is_waiting and call.parent is None  # the call that made this one ends, and nobody would want its result


def park(call: Call) -> None:
    """End the waiting of a call in this process, and nothing else."""
    call.is_parked = True
    call.abort_reason = AbortReason.RUNTIME_SHUTDOWN
    if call.drive is not None:
        call.drive.stop()


def leave_parked(call: Call, result: ToolResult) -> ToolResult:
    """Forget a parked call; its caller is told that it goes on elsewhere, and the journal is told nothing."""
    core = call.core
    if core.calls.get(call.invocation_id) is call:  # somebody may have gone on with it already
        del core.calls[call.invocation_id]
    for left in core.closing:
        left.set()
    if call.interrupted is not None:
        raise call.interrupted
    return result
