"""Run a tool's coroutine inside the caller's task, and be able to stop or abandon it.

`Drive.run` passes what the tool awaits to the event loop, and the results back. The tool runs in the caller's task, so
its own timeouts and task groups work, and no task is created. A tool that is stopped gets a `CancelledError` where it
waits. If it continues, its grace period starts; after that it is closed and abandoned.

This relies on details of `asyncio` that differ between versions of Python.
"""

from asyncio import CancelledError, Future, Task, TimerHandle, current_task, isfuture
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from math import inf
from types import coroutine
from typing import NamedTuple, TypeGuard, TypeVar, cast

from agenttool.records import InterruptBehavior
from agenttool.scheduler.timeouts import Deadline, Deadlines


def answer_to(awaited: object) -> Generator[object, None, BaseException | None]:
    """Await what the tool awaits; return the error that the event loop raised, if any."""
    try:
        if may_refuse(awaited):
            yield from _stand_in(awaited)
        else:
            yield awaited
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 -- it belongs to the tool, which gets it next
        del awaited
        return error
    return None


def may_refuse(awaited: object) -> TypeGuard["Future[object]"]:
    """Return whether it may ignore a cancellation: another task may, a plain future cannot."""
    return type(awaited) is not Future and awaited is not None and isfuture(awaited)


def _stand_in(other: "Future[object]") -> Generator[object, None, None]:
    """Wait until another task has ended, or until this task is canceled."""
    # A task clears this flag on what it awaits; here this generator awaits it instead.
    other._asyncio_future_blocking = False  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- asyncio's protocol
    own: Future[None] = other.get_loop().create_future()

    def wake(_: "Future[object]") -> None:
        if not own.done():
            own.set_result(None)

    other.add_done_callback(wake)
    try:
        yield from own
    finally:
        other.remove_done_callback(wake)


T = TypeVar("T")

CLOSED_ITSELF = "GeneratorExit: the tool ended as if closed, but it was not closed"
"""The error of a tool that raises `GeneratorExit` itself; only the caller may raise it to close a run."""


class GracePeriod(NamedTuple):
    """How long a tool may continue after a request to stop, and the timer for it.

    Attributes:
        call_later: `loop.call_later`, or a replacement with the same contract.
        after_stop: seconds after `Drive.stop`.
        after_caller: seconds after a cancellation by the caller. It cannot be distinguished from a timeout inside
            the tool that takes this long to unwind, so the value should be generous.
    """

    call_later: Callable[[float, Callable[[], None]], TimerHandle]
    after_stop: float
    after_caller: float


class Stopped(NamedTuple):
    """The tool did not end by itself: it has no output and no error.

    Attributes:
        abandoned: it continued after a request to stop and was abandoned; what it started may still be running.
    """

    abandoned: bool = False


class Drive:
    """One run of a tool: `await drive.run(tool)`; `stop` may be called while it runs.

    Use it on the thread of the event loop only. Default values are class attributes, because an instance is created for
    every call and most runs are neither stopped nor canceled.

    Attributes:
        stop_asked: whether `stop` was called before the end. If the tool still ended by itself, its result is valid.
        is_late: whether it was stopped because it had waited until its timeout.
        caller_canceled: the cancellation of the caller's own task; raise it once the result is recorded.
    """

    stop_asked: bool = False
    is_late: bool = False
    caller_canceled: CancelledError | None = None

    _task: "Task[object] | None" = None
    _is_over: bool = False
    _is_leaving: bool = False
    _is_undelivered: bool = False
    _asked: int = 0
    """How often this run canceled the task; each cancellation is uncanceled at the end."""
    _before: int = 0
    """How often other code had canceled the task before the tool first waited."""
    _timer: TimerHandle | None = None
    _deadline: Deadline | None = None
    _message: tuple[object, ...] = ()

    def __init__(
        self, grace: GracePeriod, longest_s: float = inf, *, deadlines: Deadlines | None = None, timeout_s: float = inf
    ) -> None:
        """Start with a grace period, which is at most `longest_s` after a request to stop.

        A tool that still waits for something `timeout_s` after its first wait is stopped.
        """
        self._grace = grace
        self._longest_s = longest_s
        self._deadlines = deadlines
        self._timeout_s = timeout_s

    @coroutine
    def run(self, tool: Coroutine[object, object, T]) -> Generator[object, None, T | Stopped]:
        """Run a tool to its end, and return or raise its outcome; return `Stopped` if it was canceled.

        A cancellation never leaves this method, not even the caller's own: see `caller_canceled`.
        """
        if self.stop_asked:
            tool.close()
            return Stopped()
        try:
            awaited = tool.send(None)
        except StopIteration as end:
            self._is_over = True
            return cast("T", end.value)
        except CancelledError as canceled:
            return self.end_canceled(canceled)
        except GeneratorExit as error:
            raise RuntimeError(CLOSED_ITSELF) from error
        carrying = cast("Generator[object, None, T | Stopped]", self.carry(tool, awaited))
        del awaited  # a reference cycle: it may hold an error whose traceback has this frame
        return (yield from carrying)

    def end_canceled(self, canceled: CancelledError) -> Stopped:
        """Return the outcome of a tool that raised `CancelledError` before it waited for anything."""
        self._task = current_task()
        self._settle(canceled)
        return Stopped()

    def stop(self) -> None:
        """Request the tool to stop, once; a run that has not started will not start."""
        if self.stop_asked or self._is_over:
            return
        self.stop_asked = self._is_undelivered = True
        if self._task is not None:
            self._grant(min(self._grace.after_stop, self._longest_s))
            # A tool that stops itself is canceled as soon as it waits for something.
            if current_task() is not self._task:
                self._cancel_task()

    @coroutine
    def carry(  # noqa: C901, PLR0912, PLR0915 -- one loop with all its exits
        self, tool: Coroutine[object, object, T], awaited: object
    ) -> Generator[object, None, T | Stopped]:
        """Run a tool that waits for something to its end, or abandon it; see `run`."""
        self._begin_to_wait()
        answer: BaseException | None = None
        canceled: CancelledError | None = None
        try:
            while True:
                if self._is_undelivered:
                    self._cancel_task()
                answer = yield from answer_to(awaited)
                if isinstance(answer, CancelledError):
                    if self._is_leaving:
                        return _abandon(tool)
                    self._start_grace(answer)
                    if may_refuse(awaited) and awaited.cancel():  # pyright: ignore[reportUnknownArgumentType] -- any future
                        continue  # as in asyncio, the tool is canceled once the other task has ended
                try:
                    awaited = tool.send(None) if answer is None else tool.throw(answer)
                except GeneratorExit as error:
                    raise RuntimeError(CLOSED_ITSELF) from error
                if self._timer is not None:
                    self._end_grace()
        except StopIteration as end:
            return cast("T", end.value)
        except CancelledError as error:
            canceled = error
            return Stopped()
        except GeneratorExit:
            tool.close()
            raise
        finally:
            self._settle(canceled)
            del awaited, answer, canceled  # the traceback of an error has this frame: avoid a cycle

    def _begin_to_wait(self) -> None:
        self._task = current_task()
        if self._task is not None:
            self._before = self._task.cancelling()
        if self._deadlines is not None:
            self._deadline = self._deadlines.arm(self._deadlines.now() + self._timeout_s, self._time_out)
        if self.stop_asked:
            self._grant(min(self._grace.after_stop, self._longest_s))

    def _time_out(self) -> None:
        self.is_late = True
        self.stop()

    def _cancel_task(self) -> None:
        """Cancel the task as `asyncio.timeout` does, so that scopes inside the tool count rightly."""
        self._is_undelivered = False
        if self._task is not None:
            self._asked += 1
            self._task.cancel()

    def _grant(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._grace.call_later(seconds, self._run_out)

    def _run_out(self) -> None:
        self._is_leaving = True
        self._cancel_task()

    def _start_grace(self, canceled: CancelledError) -> None:
        """Start the grace period for a cancellation by other code, which may prove to be the tool itself."""
        if self._others() > self._before:
            self._message = canceled.args
            if self._timer is None:
                self._grant(self._grace.after_caller)

    def _end_grace(self) -> None:
        """End the grace period if the tool itself canceled the task and has uncanceled it."""
        if self._timer is not None and not self.stop_asked and self._others() <= self._before:
            self._timer.cancel()
            self._timer = None

    def _others(self) -> int:
        """Return how many cancellations by other code are not uncanceled."""
        return 0 if self._task is None else self._task.cancelling() - self._asked

    def _settle(self, canceled: CancelledError | None) -> None:
        """Uncancel the cancellations of this run, and store that of the caller."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._deadline is not None and self._deadlines is not None:
            self._deadlines.cancel(self._deadline)
        task = self._task
        if task is None:
            return
        self._task = None
        for _ in range(self._asked):
            task.uncancel()
        # A cancellation that ended the run and is not from `stop` is the caller's, even if it is older than the run.
        known = self._before if self.stop_asked or canceled is None else 0
        if task.cancelling() > known:
            self.caller_canceled = CancelledError(*(canceled.args if canceled else self._message))


def _abandon(tool: Coroutine[object, object, object]) -> Stopped:
    # The run has ended, so an error of its cleanup is ignored.
    with suppress(Exception):
        tool.close()
    return Stopped(abandoned=True)


UNSUPPORTED = "the tool does not support cancellation; it continues, and its result will be valid"
TOO_LATE = "the tool had already ended: its result stands"


def stops_on_interrupt(tool: InterruptBehavior | None, policy: InterruptBehavior | None = None) -> bool:
    """Return whether interrupting a turn cancels a call: if the tool declares it and the policy does not forbid it.

    Otherwise the call continues and the next turn waits for it (AT-IFACE-24).
    """
    return tool == InterruptBehavior.CANCEL and policy != InterruptBehavior.BLOCK
