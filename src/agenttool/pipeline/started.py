"""A tool that was started: it has ended at once, or it waits for something and is carried on to its end."""

from asyncio import CancelledError
from collections.abc import Coroutine

from agenttool.errors import ToolFailure
from agenttool.pipeline.call import Call
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.records import Live
from agenttool.scheduler.drive import Drive, Stopped


class Waiting(Live, eq=False):
    """A run that has begun and waits for something."""

    work: Coroutine[object, object, object]
    awaited: object


def start(call: Call, work: Coroutine[object, object, object]) -> object:
    """Let a tool begin; give its native output if it never waits, and otherwise what it waits for.

    Raises:
        ToolFailure: canceled; and whatever the tool raises.
    """
    try:
        return Waiting(work, work.send(None))
    except StopIteration as end:
        return end.value
    except CancelledError as canceled:
        return end_canceled(call, canceled)


def end_canceled(call: Call, canceled: CancelledError) -> object:
    """End a call whose tool was canceled, or raised that itself, before it waited for anything.

    Raises:
        ToolFailure: canceled.
    """
    drive = Drive(call.core.patience)
    return _ended(call, drive, drive.end_canceled(canceled))


async def carry(call: Call, run: Waiting) -> object:
    """Go on with a tool that waits for something: from now on it can be stopped, and its time runs.

    Raises:
        ToolFailure: timeout, canceled, sibling_canceled; and whatever the tool raises.
    """
    call.drive = drive = Drive(call.core.patience, call.arm_deadline)
    if call.abort_reason is not None:
        drive.stop()
    carrying = drive.carry(run.work, run.awaited)
    run.awaited = None  # it may come to hold an error that knows this frame
    try:
        output = await carrying
    finally:
        call.drive = None
        if call.deadline is not None:
            call.core.deadlines.cancel(call.deadline)
    return _ended(call, drive, output)


def _ended(call: Call, drive: Drive, output: object) -> object:
    if drive.caller_canceled is not None:
        call.interrupted = drive.caller_canceled
    if type(output) is Stopped:
        raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))
    return output
