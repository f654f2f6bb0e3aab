"""A call whose tool answers later: it is put down before anything is sent, and waits without costing more than a row.

It has left the gate once the tool has taken the work on: what a server does in its own time is for the server to order.
In a batch it keeps its place, since whoever made the batch waits for all of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.held import Point, hold_late, settle
from agenttool.pipeline.run_evidence import Progressed
from agenttool.pipeline.stopping import failure_of_stop
from agenttool.ports.later import LATER, AnswersLater, late_key
from agenttool.records import AbortReason, InvocationStatus, ProgressStatus, RetryGuidance, ToolError, replace
from agenttool.scheduler.drive import Drive, Stopped

_SOON_S = 3600.0
"""Who waits for longer on a durable store is found there when its time is over, and has no alarm of its own."""


async def hand_over(call: Call, later: AnswersLater, send: Callable[[], Awaitable[object]]) -> object:
    """Let a tool take the work on, and give its answer, or leave that to whoever will bring it.

    Raises:
        ToolFailure: it could not be handed over; canceled, timeout; or it waits, and nobody here waits for it.
    """
    core, key = call.core, late_key(call.invocation_id)
    expires_at_ns = later.until_ns(call.invocation_id, call.started_ns)
    answer: asyncio.Future[object] = core.loop.create_future()
    core.waiting[key] = answer  # it may come before the tool's side has acknowledged anything
    try:
        hold_late(call, Point.SENDING, expires_at_ns)
        await settle(call)
        output = await _sent(call, later, send, answer)
        if output is not LATER:
            return output
        _leave_the_gate(call)
        if not answer.done():
            tell_backgrounded(call)
            if not call.is_detached:
                hold_late(call, Point.AWAY, expires_at_ns)
                await _wait(call, later, answer, expires_at_ns)
    finally:
        core.waiting.pop(key, None)
    if answer.done():
        return await read_answer(call, later, answer.result())
    return await _leave(call, expires_at_ns)


async def _sent(
    call: Call, later: AnswersLater, send: Callable[[], Awaitable[object]], answer: "asyncio.Future[object]"
) -> object:
    """Send; an answer that came meanwhile is worth more than an acknowledgement that did not.

    Raises:
        ToolFailure: it was not taken on, or was stopped.
    """
    try:
        return await send()
    except BaseException as failure:
        if answer.done() and call.abort_reason is None and call.interrupted is None:
            return LATER
        if not _is_refusal(failure) or call.attempts > 1:
            later.withdraw(call.invocation_id, call.thread)  # nobody can say whether it was heard
        if isinstance(failure, ToolFailure) and call.attempts > 1:
            raise ToolFailure(_doubted(failure.error)) from failure
        raise


def _is_refusal(failure: BaseException) -> bool:
    """Tell whether the tool's side surely did nothing, as far as this process knows."""
    retry = failure.error.retry if isinstance(failure, ToolFailure) else None
    return retry is not None and retry.safe is True


def _doubted(error: ToolError) -> ToolError:
    """Say of a call that was not taken on now that a process before this one may have had it taken on."""
    if error.retry is None or error.retry.safe is not True:
        return error
    told = f"{error.message}; it was sent again after a crash, and may have been taken before"
    return replace(error, message=told, retry=RetryGuidance(safe=False))


def _leave_the_gate(call: Call) -> None:
    if call.turn is not None:
        call.core.gate.release(call.turn)
        call.turn = None


def tell_backgrounded(call: Call) -> None:
    """Note that the tool works on it elsewhere."""
    call.progress += 1
    message = "taken on; the answer comes later"
    call.note(steps.BACKGROUNDED, Progressed(call.progress, ProgressStatus.BACKGROUNDED, message))


async def _leave(call: Call, expires_at_ns: int | None) -> object:
    """Leave a call that nobody waits for: from here on it is a row, until its answer comes.

    Raises:
        ToolFailure: always; what became of the call is told when there is something to tell.
    """
    core = call.core
    hold_late(call, Point.AWAY, expires_at_ns, is_left=True)
    call.is_parked = True
    core.calls.pop(call.invocation_id, None)
    left = None if expires_at_ns is None else max(expires_at_ns - core.now_ns(), 0) / 1e9
    if left is not None and core.overdue is not None and (left < _SOON_S or not core.durable):
        core.deadlines.arm(core.deadlines.now() + left, partial(core.overdue, call.invocation_id))
    await settle(call)
    raise ToolFailure(failure_of_stop(call))


async def _wait(call: Call, later: AnswersLater, answer: "asyncio.Future[object]", expires_at_ns: int | None) -> None:
    """Wait in the caller's own task.

    Raises:
        ToolFailure: canceled, timeout; the tool's side is told that nobody waits any more.
    """
    core = call.core
    alarm = None
    if expires_at_ns is not None:
        left = max(expires_at_ns - core.now_ns(), 0) / 1e9
        alarm = core.deadlines.arm(core.deadlines.now() + left, lambda: _run_out(call))
    call.drive = drive = Drive(core.patience)
    call.is_away = True
    try:
        waited = await drive.run(_until(answer))
    finally:
        call.drive, call.is_away = None, False
        if alarm is not None:
            core.deadlines.cancel(alarm)
    call.interrupted = call.interrupted or drive.caller_canceled
    if isinstance(waited, Stopped):
        if call.abort_reason is AbortReason.TIMEOUT and await _last_word(call, answer):
            call.abort_reason = None
            return
        if not call.is_parked:
            await give_up(call, later)
        raise ToolFailure(failure_of_stop(call))


def _run_out(call: Call) -> None:
    if call.abort_reason is None:
        call.abort_reason = AbortReason.TIMEOUT
    if call.drive is not None:
        call.drive.stop()


async def _last_word(call: Call, answer: "asyncio.Future[object]") -> bool:
    """Look whether the answer came in time to another process, though this one has not heard of it."""
    opened = None
    if call.core.parked is not None:
        with suppress(StoreError):
            opened = await call.core.parked.get(call.invocation_id)
    if opened is None or opened.answer is None:
        return False
    if not answer.done():
        answer.set_result(opened.answer)
    return True


async def _until(answer: "asyncio.Future[object]") -> object:
    return await asyncio.shield(answer)


async def give_up(call: Call, later: AnswersLater) -> None:
    """Let the tool's side, and whoever was asked, know that nobody waits for this call any more."""
    later.withdraw(call.invocation_id, call.thread)
    await take_prompt_down(call)


async def take_prompt_down(call: Call) -> None:
    """Ask nobody any more on behalf of this call; whatever is left of its prompt goes when somebody lists prompts."""
    if call.status is InvocationStatus.NEEDS_INPUT and call.core.withdraw_prompt is not None:
        with suppress(StoreError):
            await call.core.withdraw_prompt(call.invocation_id)


async def read_answer(call: Call, later: AnswersLater, body: object) -> object:
    """Read the answer that came.

    Raises:
        ToolFailure: it says that the work failed, or cannot be read.
    """
    await take_prompt_down(call)
    call.note(steps.ANSWERED_LATER)
    return later.read(body if isinstance(body, bytes) else b"")
