"""Drive a started tool to its end: timeouts, cancellation, deferred results, and waits that would never end."""

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TypeVar

from agenttool.call.call import Call
from agenttool.call.call_state import CallSecrets
from agenttool.call.checkpoint import CheckpointKind, ensure_checkpoint, flush, save_checkpoint
from agenttool.call.evidence import Progressed
from agenttool.call.failures import acknowledge, failure_of_stop, stop
from agenttool.call.services import LeasedCredentials
from agenttool.errors import StoreError, ToolFailure
from agenttool.journal import steps
from agenttool.ports.credentials import Secret
from agenttool.ports.deferred import DEFERRED, PROMPTS, Deferral, DeferredTool, result_key
from agenttool.records import (
    AbortReason,
    ErrorClass,
    InvocationId,
    InvocationStatus,
    ProgressStatus,
    RetryGuidance,
    ToolError,
    replace,
)
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask, compile_scrubber
from agenttool.scheduler.drive import CLOSED_ITSELF, Drive, Stopped

WITHIN: ContextVar[tuple[InvocationId, ...]] = ContextVar("calls_within", default=())
"""The calls that the present code runs within, the outermost first. Tasks and threads that it starts inherit them.

They are ids, because a task that outlives a call must not keep its input and secrets in memory.
"""

# Ids are unique, so all runtimes of the process share these three.
RUNNING: dict[InvocationId, Call] = {}
"""The calls whose tools run now. The registry has a call only once it waits."""
_awaited: dict[InvocationId, list[InvocationId]] = {}
"""The calls whose ends the code of each call waits for."""
_queued: dict[InvocationId, Callable[[], Iterable[InvocationId]]] = {}
"""The calls that wait for a permit, each with a function that returns the calls ahead of it."""


def callers() -> list[Call]:
    """Return the calls within whose tools the present code runs, and whose tools have not ended."""
    return [RUNNING[each] for each in WITHIN.get() if each in RUNNING]


class RunningWithin:
    """The context in which the code of a call runs, within the calls of the present code.

    `alone` leaves those out, for a call that they do not wait for. Every started call enters this context, and a class
    takes a third of the time of a generator.
    """

    __slots__ = ("_calls", "_token")

    def __init__(self, invocation_id: InvocationId, *, alone: bool = False) -> None:
        """Take the call."""
        self._calls = (invocation_id,) if alone else (*WITHIN.get(), invocation_id)

    def __enter__(self) -> None:
        """Enter the code of the call."""
        self._token = WITHIN.set(self._calls)

    def __exit__(self, *error: object) -> None:
        """Leave it."""
        WITHIN.reset(self._token)


@contextmanager
def waiting_for_end(invocation_id: InvocationId) -> Generator[bool]:
    """Register that the present code waits for the end of a call; yield whether the wait would be a deadlock."""
    waiters = set(WITHIN.get())
    for waiter in waiters:
        _awaited.setdefault(waiter, []).append(invocation_id)
    try:
        yield not _reached((), [invocation_id]).isdisjoint(waiters)
    finally:
        for waiter in waiters:
            _awaited[waiter].remove(invocation_id)
            if not _awaited[waiter]:
                del _awaited[waiter]


@contextmanager
def waiting_for_permit(invocation_id: InvocationId, ahead: Callable[[], Iterable[InvocationId]]) -> Generator[bool]:
    """Register that a call waits for a permit; yield whether the wait would be a deadlock.

    `ahead` returns all calls ahead of it in the queue, directly or through others.
    """
    waiters = set(WITHIN.get())
    _queued[invocation_id] = ahead
    # Waits for permits alone form no cycle; it needs code that awaits a call. Most calls run within no other call.
    may_deadlock = bool(waiters) and (bool(_awaited) or any(each != invocation_id for each in waiters))
    try:
        yield may_deadlock and not _reached(ahead(), []).isdisjoint(waiters)
    finally:
        del _queued[invocation_id]


def _reached(calls: Iterable[InvocationId], ends: list[InvocationId]) -> set[InvocationId]:
    """Return all calls that a wait depends on, directly or through other waits.

    `calls` are ahead of it in the queue for a permit, and it awaits the ends of `ends`. The end of a queued call
    depends on the calls ahead of that one, and each call depends on the ends that its code awaits.
    """
    reached: set[InvocationId] = set()
    found, expanded = [*calls], set[InvocationId]()
    while found or ends:
        if ends:
            end = ends.pop()
            if end not in expanded:
                expanded.add(end)
                found += [end, *(_queued[end]() if end in _queued else ())]
        elif (each := found.pop()) not in reached:
            reached.add(each)
            ends += _awaited.get(each, ())
    return reached


_T = TypeVar("_T")

ENDED_EARLY = (CancelledError, GeneratorExit)
"""Exceptions that stop a coroutine from outside; they have another meaning if the tool raises one itself."""


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
    drive = call.new_drive()
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
    """Wait in the task of a call until the time is over or the call is stopped; it holds no permit meanwhile.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    timing = call.core.timing
    over: asyncio.Future[None] = timing.loop.create_future()
    with timing.deadlines.within(seconds, partial(resolve, over)):
        await run_outside(call, _until(over))


def resolve(waiting: "asyncio.Future[None] | asyncio.Future[object]") -> None:
    """Set the result of a future to None, unless it is done."""
    if not waiting.done():
        waiting.set_result(None)


async def run_outside(call: Call, work: Coroutine[object, object, _T]) -> _T:
    """Run work that waits for a person or a remote side, as `run_stoppable`; the call holds no permit meanwhile.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    with call.without_permits():
        done = await run_stoppable(call, work)
    await run_stoppable(call, call.regain_permits())
    return done


async def run_stoppable(call: Call, work: Coroutine[object, object, _T]) -> _T:
    """Run work of the runtime in the task of a call; it is stopped with the call.

    Raises:
        ToolFailure: canceled, sibling_canceled, timeout.
    """
    drive = call.new_drive()
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


async def send_and_wait(call: Call, later: DeferredTool, send: Callable[[], Awaitable[object]]) -> object:
    """Send the request of a call and return its deferred result; without a waiting caller, park the call instead.

    The checkpoint is on disk before the request is sent. The call releases its permit once the tool acknowledges the
    request, because the server schedules its own work.

    Raises:
        ToolFailure: the request was rejected; canceled, timeout; or the call is parked.
    """
    core, key = call.core, result_key(call.invocation_id)
    expires_at_ns = later.until_ns(call.invocation_id, call.started_ns)
    result: asyncio.Future[object] = core.timing.loop.create_future()
    core.questions.waiting[key] = result  # it may arrive before the acknowledgement
    try:
        save_checkpoint(call, CheckpointKind.SENDING, call.final_input, expires_at_ns=expires_at_ns)
        await flush(call)
        with core.timing.deadlines.within(_left_s(call, expires_at_ns), partial(stop, call, AbortReason.TIMEOUT)):
            output = await _sent(call, later, send, result)
            if not isinstance(output, Deferral):
                return output
            _release_permit(call)
            if not result.done():
                note_backgrounded(call, output)
                if call.background is None:
                    call.become_idle()
                    try:
                        save_checkpoint(call, CheckpointKind.REMOTE, call.final_input, expires_at_ns=expires_at_ns)
                        await _wait_for_result(call, later, result)
                    finally:
                        call.resume()
    finally:
        core.questions.waiting.pop(key, None)
    if result.done():
        return await read_result(call, later, result.result())
    return await _park(call, expires_at_ns)


async def _sent(
    call: Call, later: DeferredTool, send: Callable[[], Awaitable[object]], result: "asyncio.Future[object]"
) -> object:
    """Send the request, and wait until it is acknowledged, its result arrives, or the deadline of the result is over.

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
    """Return whether the error is a rejection, after which a retry is safe; an earlier request may have arrived."""
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
    """Park a call without a waiting caller: it is only a row in the store until its result arrives.

    Raises:
        ToolFailure: always; its message is that the call waits.
    """
    core = call.core
    save_checkpoint(call, CheckpointKind.REMOTE, call.final_input, expires_at_ns=expires_at_ns, is_unowned=True)
    call.ensure_recovery().is_parked = True
    core.registry.discard(call.invocation_id)
    if expires_at_ns is not None and not core.durable:
        deadlines, end = core.timing.deadlines, partial(core.host.end_overdue, call.invocation_id)
        deadlines.arm(deadlines.now() + _left_s(call, expires_at_ns), end)
    await flush(call)
    raise ToolFailure(failure_of_stop(call))


def _left_s(call: Call, expires_at_ns: int | None) -> float:
    """Return the seconds until a time; infinite without one."""
    return inf if expires_at_ns is None else max(expires_at_ns - call.core.now_ns(), 0) / 1e9


async def _wait_for_result(call: Call, later: DeferredTool, result: "asyncio.Future[object]") -> None:
    """Wait for the result in the caller's own task.

    Raises:
        ToolFailure: canceled, timeout; the request is withdrawn.
    """
    drive = call.new_drive()
    recovery = call.ensure_recovery()
    recovery.is_remote = True
    try:
        with call.without_permits():
            waited = await drive.run(_until(result))
    finally:
        call.drive, recovery.is_remote = None, False
    call.stop.interrupted = call.stop.interrupted or drive.caller_canceled
    if isinstance(waited, Stopped) and not await _has_arrived(call, result):
        if not call.is_parked:
            await withdraw_call(call, later)
        raise ToolFailure(failure_of_stop(call))


async def _has_arrived(call: Call, result: "asyncio.Future[object]") -> bool:
    """Return whether the result of a stopped call has arrived; then the call is not stopped after all.

    If the call has timed out, the result may have reached another process in time; then this one reads it.
    """
    if call.stop.interrupted is not None or call.stop.reason not in (None, AbortReason.TIMEOUT):
        return False
    if not result.done() and call.stop.reason is AbortReason.TIMEOUT:
        with suppress(StoreError):
            opened = await call.core.durability.checkpoints.get(call.invocation_id)
            if opened is not None and opened.answer is not None and not result.done():
                result.set_result(opened.answer)
    if result.done():
        call.stop.reason = None
    return result.done()


async def _until(waiting: "asyncio.Future[_T]") -> _T:
    return await asyncio.shield(waiting)


async def withdraw_call(call: Call, later: DeferredTool) -> None:
    """Notify the server that the result is not wanted any more, and withdraw the prompt of the call."""
    later.withdraw(call.invocation_id, call.thread)
    await withdraw_prompt_of(call)


async def withdraw_prompt_of(call: Call) -> None:
    """Withdraw the open prompt of a call; if the store fails, the next listing of prompts removes it."""
    if call.status is InvocationStatus.NEEDS_INPUT:
        with suppress(StoreError):
            await call.core.durability.documents.put(PROMPTS, call.invocation_id, None, erases=True)


async def read_result(call: Call, later: DeferredTool, body: object) -> object:
    """Return the native output in a deferred result.

    Raises:
        ToolFailure: the work failed, or the result cannot be read.
    """
    await withdraw_prompt_of(call)
    call.note(steps.ANSWERED_LATER)
    return later.read(body if isinstance(body, bytes) else b"")
