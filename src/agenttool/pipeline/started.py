"""A tool that was started: it has ended at once, or it waits for something and is carried on to its end."""

import asyncio
from asyncio import CancelledError
from collections.abc import Coroutine

from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import acknowledge, failure_of_stop, stop
from agenttool.records import AbortReason, ErrorClass
from agenttool.results.failure import guided
from agenttool.scheduler.drive import CLOSED_ITSELF, Drive, Stopped

ENDED_EARLY = (CancelledError, GeneratorExit)
"""What a tool may raise that means something else when it comes from above."""


def end_early(call: Call, error: CancelledError | GeneratorExit) -> object:
    """End a call whose tool was canceled, or raised that itself, before it waited for anything.

    Raises:
        ToolFailure: canceled.
        RuntimeError: the tool says that it was closed, which nobody did.
    """
    if isinstance(error, CancelledError):
        drive = Drive(call.core.patience)
        return _ended(call, drive, drive.end_canceled(error))
    raise RuntimeError(CLOSED_ITSELF) from error


async def carry(call: Call, work: Coroutine[object, object, object], awaited: object) -> object:
    """Drive a tool that waits for something to its end: from now on it can be stopped, and its time runs.

    Raises:
        ToolFailure: timeout, canceled, sibling_canceled; and whatever the tool raises.
    """
    call.publish()
    call.drive = drive = Drive(call.core.patience)
    if call.abort_reason is not None:
        drive.stop()
    call.start_clocks()
    carrying = drive.carry(work, awaited)
    del work, awaited  # what is awaited may come to hold an error that knows this frame
    try:
        output = await carrying
    finally:
        call.drive = None
        call.stop_clocks()
    return _ended(call, drive, output)


def _ended(call: Call, drive: Drive, output: object) -> object:
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if type(output) is not Stopped:
        return output
    if call.abort_reason is None and call.interrupted is None:
        message = "CancelledError: the tool ended as if canceled, though nobody asked it to"
        raise ToolFailure(guided(ErrorClass.EXECUTION_FAILED, phase=call.phase, message=message))
    if call.interrupted is not None and call.children:
        stop(call, AbortReason.USER_INTERRUPTION)
    if not output.abandoned:
        acknowledge(call)
    raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))


async def pause(call: Call, seconds: float) -> None:
    """Wait in a call's own task, until the time is over or somebody stops it.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    core = call.core
    over: asyncio.Future[None] = core.loop.create_future()
    alarm = core.deadlines.arm(core.deadlines.now() + seconds, lambda: None if over.done() else over.set_result(None))
    call.drive = drive = Drive(core.patience)
    try:
        waited = await drive.run(_until(over))
    finally:
        call.drive = None
        core.deadlines.cancel(alarm)
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if isinstance(waited, Stopped):
        raise ToolFailure(failure_of_stop(call))


async def _until(over: "asyncio.Future[None]") -> None:
    await over
