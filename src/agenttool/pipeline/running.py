"""Drive a started tool to its end, with timeouts and cancellation."""

import asyncio
from asyncio import CancelledError
from collections.abc import Coroutine, Mapping
from typing import TypeVar

from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.call_state import CallSecrets
from agenttool.pipeline.cancellation import acknowledge, failure_of_stop, stop
from agenttool.pipeline.checkpoint import ensure_checkpoint
from agenttool.pipeline.credentials import LeasedCredentials
from agenttool.ports.credentials import Secret
from agenttool.records import AbortReason, ErrorClass, replace
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask, compile_scrubber
from agenttool.scheduler.drive import CLOSED_ITSELF, Drive, Stopped

_T = TypeVar("_T")

ENDED_EARLY = (CancelledError, GeneratorExit)
"""Exceptions with another meaning when the tool raises them itself."""


def end_early(call: Call, error: CancelledError | GeneratorExit) -> object:
    """End a call whose tool raised one of `ENDED_EARLY` before its first wait.

    Raises:
        ToolFailure: canceled.
        RuntimeError: the tool raised `GeneratorExit`, and was not closed.
    """
    if isinstance(error, CancelledError):
        drive = Drive(call.core.timing.grace_period)
        return _ended(call, drive, drive.end_canceled(error))
    raise RuntimeError(CLOSED_ITSELF) from error


async def drive_tool(call: Call, work: Coroutine[object, object, object], awaited: object) -> object:
    """Drive a waiting tool to its end; timeouts start, and it can be canceled.

    Raises:
        ToolFailure: timeout, canceled, sibling_canceled; and the exceptions of the tool.
    """
    call.publish()
    ensure_checkpoint(call)
    call.drive = drive = Drive(call.core.timing.grace_period)
    if call.stop.reason is not None:
        drive.stop()
    timer = call.ensure_timer()
    timer.start(call.timeout_s, None if call.tool is None else call.tool.idle_timeout_s)
    carrying = drive.carry(work, awaited)
    del work, awaited  # avoids a reference cycle between this frame and an error
    try:
        output = await carrying
    finally:
        call.drive = None
        timer.stop()
    return _ended(call, drive, output)


def _ended(call: Call, drive: Drive, output: object) -> object:
    if drive.caller_canceled is not None:
        call.stop.interrupted = drive.caller_canceled
    if type(output) is not Stopped:
        return output
    if call.stop.reason is None and call.stop.interrupted is None:
        message = "CancelledError: the tool raised it without a request to cancel"
        raise ToolFailure(guided(ErrorClass.EXECUTION_FAILED, phase=call.phase, message=message))
    if call.stop.interrupted is not None and call.children:
        stop(call, AbortReason.USER_INTERRUPTION)
    if not output.abandoned:
        acknowledge(call)
    raise ToolFailure(failure_of_stop(call, abandoned=output.abandoned))


async def pause(call: Call, seconds: float) -> None:
    """Wait in the task of a call until the time is over or the call is stopped.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    core = call.core
    over: asyncio.Future[None] = core.timing.loop.create_future()
    alarm = core.timing.deadlines.arm(
        core.timing.deadlines.now() + seconds, lambda: None if over.done() else over.set_result(None)
    )
    try:
        await run_stoppable(call, _until(over))
    finally:
        core.timing.deadlines.cancel(alarm)


async def run_stoppable(call: Call, work: Coroutine[object, object, _T]) -> _T:
    """Run work of the runtime in the task of a call; it is stopped with the call.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    call.drive = drive = Drive(call.core.timing.grace_period)
    if call.stop.reason is not None:
        drive.stop()
    try:
        done = await drive.run(work)
    finally:
        call.drive = None
    if drive.caller_canceled is not None:
        call.stop.interrupted = drive.caller_canceled
    if isinstance(done, Stopped):
        raise ToolFailure(failure_of_stop(call))
    return done


def lend_credentials(call: Call, values: Mapping[str, str]) -> None:
    """Lend credentials to a call, and remove their values from all its records."""
    secrets = mask_credentials(call, values)
    if secrets is not None:
        secrets.credentials = LeasedCredentials({name: Secret(name, value) for name, value in values.items()})
        call.note(steps.CREDENTIALS_LEASED, {"credentials": [*values]})


def mask_credentials(call: Call, values: Mapping[str, str]) -> CallSecrets | None:
    """Remove the values of credentials from all records of a call; return its secrets, if one is long enough."""
    found = compile_scrubber(values.values())
    if found is None:
        return None
    mask = InputMask(None if call.mask is None else call.mask.redactor, found.merged_with(call.scrubber))
    secrets = call.secrets = call.secrets or CallSecrets(call.core.ids.secret(), mask)
    secrets.mask, secrets.leased = mask, found.merged_with(secrets.leased)
    call.request = replace(call.request, redactor=mask)
    return secrets


async def _until(over: "asyncio.Future[None]") -> None:
    await over
