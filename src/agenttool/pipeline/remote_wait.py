"""Sends the request of a deferred tool and waits for its result.

The call has a checkpoint before the request is sent, and releases its permit once the tool acknowledges it,
because the server schedules its own work. It keeps the permit of its batch, because the caller waits for the batch.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import failure_of_stop
from agenttool.pipeline.checkpoint import CheckpointKind, flush, save_deferred_checkpoint
from agenttool.pipeline.evidence import Progressed
from agenttool.ports.deferred import DEFERRED, Deferral, DeferredTool, result_key
from agenttool.records import AbortReason, InvocationStatus, ProgressStatus, RetryGuidance, ToolError, replace
from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.timeouts import Deadline


async def send_and_wait(call: Call, later: DeferredTool, send: Callable[[], Awaitable[object]]) -> object:
    """Send the request of a call and return its result; a detached call is parked instead.

    Raises:
        ToolFailure: the request was rejected; canceled, timeout; or the call is parked.
    """
    core, key = call.core, result_key(call.invocation_id)
    expires_at_ns = later.until_ns(call.invocation_id, call.started_ns)
    result: asyncio.Future[object] = core.timing.loop.create_future()
    core.questions.waiting[key] = result  # it may arrive before the acknowledgement
    deadline = None
    try:
        save_deferred_checkpoint(call, CheckpointKind.SENDING, expires_at_ns)
        await flush(call)
        deadline = _arm_deadline(call, expires_at_ns)
        output = await _sent(call, later, send, result)
        if not isinstance(output, Deferral):
            return output
        _release_permit(call)
        if not result.done():
            note_backgrounded(call, output)
            if call.background is None:
                call.become_idle()
                save_deferred_checkpoint(call, CheckpointKind.REMOTE, expires_at_ns)
                await _wait(call, later, result)
    finally:
        core.questions.waiting.pop(key, None)
        if deadline is not None:
            core.timing.deadlines.cancel(deadline)
    if result.done():
        return await read_result(call, later, result.result())
    return await _park(call, expires_at_ns)


async def _sent(
    call: Call, later: DeferredTool, send: Callable[[], Awaitable[object]], result: "asyncio.Future[object]"
) -> object:
    """Send the request until it is acknowledged, its result arrives, or the deadline of the result is over.

    Raises:
        ToolFailure: the request was rejected, or the call was stopped.
    """
    is_sending = True

    def stop_sending(_: object) -> None:
        if is_sending and call.drive is not None:
            call.drive.stop()

    result.add_done_callback(stop_sending)
    try:
        return DEFERRED if result.done() else await send()
    except BaseException as failure:
        if isinstance(failure, Exception) and await _has_arrived(call, result):
            return DEFERRED
        if not call.is_parked and (not _is_rejection(failure) or call.ensure_recovery().attempts > 1):
            later.withdraw(call.invocation_id, call.thread)  # the request may have arrived
        if isinstance(failure, ToolFailure) and call.ensure_recovery().attempts > 1:
            raise ToolFailure(_maybe_sent_before(failure.error)) from failure
        raise
    finally:
        is_sending = False


def _is_rejection(failure: BaseException) -> bool:
    """Return whether the server certainly did nothing, as far as this process knows."""
    retry = failure.error.retry if isinstance(failure, ToolFailure) else None
    return retry is not None and retry.safe is True


def _maybe_sent_before(error: ToolError) -> ToolError:
    """Return the error of a request that was rejected now and may have been accepted before a crash."""
    if error.retry is None or error.retry.safe is not True:
        return error
    message = f"{error.message}; it was sent again after a crash, and may have been taken before"
    return replace(error, message=message, retry=RetryGuidance(safe=False))


def _release_permit(call: Call) -> None:
    if call.permit is not None:
        call.core.limiter.release(call.permit)
        call.permit = None


def note_backgrounded(call: Call, deferral: Deferral) -> None:
    """Record that the result is deferred, and whether the tool has acknowledged the request."""
    call.counts.progress += 1
    call.note(steps.BACKGROUNDED, Progressed(call.counts.progress, ProgressStatus.BACKGROUNDED, deferral.value))


async def _park(call: Call, expires_at_ns: int | None) -> object:
    """Park a detached call: it is a row in the store until its result arrives.

    Raises:
        ToolFailure: always; it says that the call waits.
    """
    core = call.core
    save_deferred_checkpoint(call, CheckpointKind.REMOTE, expires_at_ns, is_unowned=True)
    call.ensure_recovery().is_parked = True
    core.registry.calls.pop(call.invocation_id, None)
    left_s = None if expires_at_ns is None else max(expires_at_ns - core.now_ns(), 0) / 1e9
    if left_s is not None and not core.durable:
        core.timing.deadlines.arm(
            core.timing.deadlines.now() + left_s, partial(core.host.end_overdue, call.invocation_id)
        )
    await flush(call)
    raise ToolFailure(failure_of_stop(call))


def _arm_deadline(call: Call, expires_at_ns: int | None) -> Deadline | None:
    """Stop a call that sends its request or waits for its result at the deadline of the result."""
    if expires_at_ns is None:
        return None
    deadlines, left_s = call.core.timing.deadlines, max(expires_at_ns - call.core.now_ns(), 0) / 1e9
    return deadlines.arm(deadlines.now() + left_s, lambda: _expire(call))


async def _wait(call: Call, later: DeferredTool, result: "asyncio.Future[object]") -> None:
    """Wait for the result in the caller's own task.

    Raises:
        ToolFailure: canceled, timeout; the request is withdrawn.
    """
    call.drive = drive = Drive(call.core.timing.grace_period)
    if call.stop.reason is not None:
        drive.stop()
    recovery = call.ensure_recovery()
    recovery.is_remote = True
    try:
        waited = await drive.run(_until(result))
    finally:
        call.drive, recovery.is_remote = None, False
    call.stop.interrupted = call.stop.interrupted or drive.caller_canceled
    if isinstance(waited, Stopped) and not await _has_arrived(call, result):
        if not call.is_parked:
            await withdraw_call(call, later)
        raise ToolFailure(failure_of_stop(call))


def _expire(call: Call) -> None:
    if call.stop.reason is None:
        call.stop.reason = AbortReason.TIMEOUT
    if call.drive is not None:
        call.drive.stop()


async def _has_arrived(call: Call, result: "asyncio.Future[object]") -> bool:
    """Return whether the result of a stopped call is here; one that another process received in time counts, too."""
    if call.stop.interrupted is not None or call.stop.reason not in (None, AbortReason.TIMEOUT):
        return False
    if not result.done() and call.stop.reason is AbortReason.TIMEOUT:
        with suppress(StoreError):
            opened = await call.core.durability.deferred.get(call.invocation_id)
            if opened is not None and opened.answer is not None and not result.done():
                result.set_result(opened.answer)
    if result.done():
        call.stop.reason = None
    return result.done()


async def _until(result: "asyncio.Future[object]") -> object:
    return await asyncio.shield(result)


async def withdraw_call(call: Call, later: DeferredTool) -> None:
    """Notify the server that the result is not wanted any more, and withdraw the prompt of the call."""
    later.withdraw(call.invocation_id, call.thread)
    await withdraw_prompt_of(call)


async def withdraw_prompt_of(call: Call) -> None:
    """Withdraw the open prompt of a call; if the store fails, the next listing of prompts removes it."""
    if call.status is InvocationStatus.NEEDS_INPUT:
        with suppress(StoreError):
            await call.core.host.withdraw_prompt(call.invocation_id)


async def read_result(call: Call, later: DeferredTool, body: object) -> object:
    """Return the native output in a deferred result.

    Raises:
        ToolFailure: the work failed, or the result cannot be read.
    """
    await withdraw_prompt_of(call)
    call.note(steps.ANSWERED_LATER)
    return later.read(body if isinstance(body, bytes) else b"")
