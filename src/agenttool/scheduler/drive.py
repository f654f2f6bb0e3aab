"""Run a tool's coroutine inside the caller's own task, and yet be able to stop it, or to walk away from it.

`Drive.run` stands between the event loop and the tool: it passes on what the tool waits for and what the loop answers.
So a tool sees the same task, and its own timeouts and task groups work, as if it were simply awaited; no task is made.
When the tool is stopped it gets a `CancelledError` where it waits. If it goes on all the same, its time of grace runs,
and after that it is closed and left behind.

This file and `awaiting` know the standard library only: what they promise hangs on the finer points of each version of
Python, and can so be tried on all of them.
"""

from asyncio import CancelledError, Future, Task, current_task
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import coroutine
from typing import Protocol, TypeVar, cast

from agenttool.scheduler.awaiting import answer_to, may_refuse

T = TypeVar("T")

CLOSED_ITSELF = "GeneratorExit: the tool ended as if closed, though nobody closed it"
"""What is said of a tool that raises this itself; it is meant for whoever waits only where it comes from above."""


class Timer(Protocol):
    """What `loop.call_later` gives back."""

    def cancel(self) -> object:
        """Forget the call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a tool may go on after it was told to stop, and who counts the time.

    Attributes:
        call_later: the event loop's, or anything that keeps the same promise.
        after_stop: seconds after `Drive.stop`.
        after_caller: seconds after a cancellation that somebody else asked for. It cannot be told apart from one that
            the tool asked for itself, by a timeout of its own that takes this long to unwind; so be generous.
    """

    call_later: Callable[[float, Callable[[], None]], Timer]
    after_stop: float
    after_caller: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The tool did not come to an end of its own: no output, no error.

    Attributes:
        abandoned: it went on after it was told to stop, and was left behind; what it started may still be running.
    """

    abandoned: bool = False


class Drive:
    """One run of a tool: `await drive.run(tool)`, stop it from outside, learn afterwards how it went.

    Everything here belongs to the event loop's thread. Values are class attributes until they differ, since one of
    these is made for every call and most runs are neither stopped nor canceled.

    Attributes:
        stop_asked: `stop` came before the end. If the tool ended all the same, its end is true and stands.
        caller_canceled: the caller's own task was canceled meanwhile; see `pass_on`.
    """

    stop_asked: bool = False
    caller_canceled: CancelledError | None = None

    _task: "Task[object] | None" = None
    _is_over: bool = False
    _is_leaving: bool = False
    _is_undelivered: bool = False
    _asked: int = 0
    """How often we canceled the task; each time is taken back at the end."""
    _before: int = 0
    """How often others had canceled the task before the tool began to wait."""
    _timer: Timer | None = None
    _message: tuple[object, ...] = ()

    def __init__(self, patience: Patience, on_wait: Callable[[], None] | None = None) -> None:
        """Take how long a tool may go on after it was told to stop, and what to do once it waits for something.

        A tool that never waits cannot be stopped, so what only matters while it waits need not be set up before.
        """
        self._patience = patience
        self._on_wait = on_wait

    @coroutine
    def run(self, tool: Coroutine[object, object, T]) -> Generator[object, None, T | Stopped]:
        """Run a tool to its end, and give or raise whatever it gave or raised; `Stopped` if it was canceled instead.

        A cancellation never leaves this method, the caller's own included: write the result, then `pass_on`.
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
        del awaited  # it may come to hold an error that knows this frame
        return (yield from carrying)

    def end_canceled(self, canceled: CancelledError) -> Stopped:
        """Take the end of a tool that was canceled, or raised that itself, before it waited for anything."""
        self._task = current_task()
        self._settle(canceled)
        return Stopped()

    def stop(self) -> None:
        """Ask the tool to stop, once; a run that has not begun will not begin."""
        if self.stop_asked or self._is_over:
            return
        self.stop_asked = self._is_undelivered = True
        if self._task is not None:
            self._grant(self._patience.after_stop)
            # A tool that stops itself hears of it as soon as it waits for something.
            if current_task() is not self._task:
                self._cancel_task()

    def pass_on(self) -> None:
        """Raise the caller's own cancellation, which was held back so that a result could be written first."""
        if self.caller_canceled is not None:
            raise self.caller_canceled

    @coroutine
    def carry(  # noqa: C901, PLR0912, PLR0915 -- one loop, and every way out of it
        self, tool: Coroutine[object, object, T], awaited: object
    ) -> Generator[object, None, T | Stopped]:
        """Carry a tool that has begun, and waits for something, to its end, or leave it; see `run`."""
        self._begin_to_wait()
        answer: BaseException | None = None
        canceled: CancelledError | None = None
        try:
            while True:
                if self._is_undelivered:
                    self._cancel_task()
                if type(awaited) is Future:
                    # As `answer_to` does it, but for its generator: nearly all that is awaited is one of these.
                    try:
                        yield awaited
                        answer = None
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 -- it belongs to the tool, which gets it next
                        answer = error
                else:
                    answer = yield from answer_to(awaited)
                if isinstance(answer, CancelledError):
                    if self._is_leaving:
                        return _leave(tool)
                    self._hear_of(answer)
                    if may_refuse(awaited) and awaited.cancel():  # pyright: ignore[reportUnknownArgumentType] -- any future
                        continue  # as in asyncio, the tool hears of it once the other task has ended
                try:
                    awaited = tool.send(None) if answer is None else tool.throw(answer)
                except GeneratorExit as error:
                    raise RuntimeError(CLOSED_ITSELF) from error
                if self._timer is not None:
                    self._forgive()
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
            del awaited, answer, canceled  # an error that passed through knows this frame, and must not be known by it

    def _begin_to_wait(self) -> None:
        self._task = current_task()
        if self._task is not None:
            self._before = self._task.cancelling()
        if self._on_wait is not None:
            self._on_wait()
        if self.stop_asked:
            self._grant(self._patience.after_stop)

    def _cancel_task(self) -> None:
        """Cancel the task as `asyncio.timeout` does, so that scopes inside the tool count rightly."""
        self._is_undelivered = False
        if self._task is not None:
            self._asked += 1
            self._task.cancel()

    def _grant(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._patience.call_later(seconds, self._run_out)

    def _run_out(self) -> None:
        self._is_leaving = True
        self._cancel_task()

    def _hear_of(self, canceled: CancelledError) -> None:
        """Start the time of grace for a cancellation that is not ours; whose it is shows only later."""
        if self._others() > self._before:
            self._message = canceled.args
            if self._timer is None:
                self._grant(self._patience.after_caller)

    def _forgive(self) -> None:
        """End the time of grace if the cancellation turned out to be the tool's own, and is settled."""
        if self._timer is not None and not self.stop_asked and self._others() <= self._before:
            self._timer.cancel()
            self._timer = None

    def _others(self) -> int:
        """Count the cancellations that others asked of the task and that are not settled."""
        return 0 if self._task is None else self._task.cancelling() - self._asked

    def _settle(self, canceled: CancelledError | None) -> None:
        """Take our own cancellations back, and keep the caller's for `pass_on`."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        task = self._task
        if task is None:
            return
        self._task = None
        for _ in range(self._asked):
            task.uncancel()
        # A cancellation that ended the run and is not ours is the caller's, even one asked for before we began.
        known = self._before if self.stop_asked or canceled is None else 0
        if task.cancelling() > known:
            self.caller_canceled = CancelledError(*(canceled.args if canceled else self._message))


def _leave(tool: Coroutine[object, object, object]) -> Stopped:
    # Whatever it says to that, nobody waits for it any more.
    with suppress(Exception):
        tool.close()
    return Stopped(abandoned=True)
