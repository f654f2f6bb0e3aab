"""Wait in a tool's stead for what it waits for, and never lose the way out."""

from asyncio import CancelledError, Future, Task, current_task, isfuture, shield
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from types import coroutine
from typing import Protocol, TypeGuard, TypeVar, cast

from agenttool.records import InterruptBehavior


def answer_to(awaited: object) -> Generator[object, None, BaseException | None]:
    """Wait for what the tool waits for, and give the error with which the event loop woke us, if there was one."""
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
    """Tell whether canceling this need not end it: another task may go on, a plain future cannot."""
    return type(awaited) is not Future and awaited is not None and isfuture(awaited)


def _stand_in(other: "Future[object]") -> Generator[object, None, None]:
    """Wait until another task has ended, and yet be woken at once if we are canceled."""
    # A task takes this mark off what it is given to wait for; here we are the ones who were given it.
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

CLOSED_ITSELF = "GeneratorExit: the tool ended as if closed, though nobody closed it"
"""What is said of a tool that raises this itself; it is meant for whoever waits only where it comes from above."""


class Timer(Protocol):
    """What `loop.call_later` gives back."""

    def cancel(self) -> object:
        """Forget the call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GracePeriod:
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

    def __init__(self, grace: GracePeriod, on_wait: Callable[[], None] | None = None) -> None:
        """Take how long a tool may go on after it was told to stop, and what to do once it waits for something.

        A tool that never waits cannot be stopped, so what only matters while it waits need not be set up before.
        """
        self._grace = grace
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
            self._grant(self._grace.after_stop)
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
            self._grant(self._grace.after_stop)

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

    def _hear_of(self, canceled: CancelledError) -> None:
        """Start the time of grace for a cancellation that is not ours; whose it is shows only later."""
        if self._others() > self._before:
            self._message = canceled.args
            if self._timer is None:
                self._grant(self._grace.after_caller)

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


async def await_uninterruptible(work: "Future[T]", hear: Callable[[], None]) -> T:
    """Wait for work that cannot be interrupted, such as a thread's, until it has really ended.

    To return when canceled would be to say that it stopped while it goes on writing. So a cancellation is only passed
    on, to `hear`, by which the work may learn of it; if it takes no notice, `Drive` runs out of grace.
    """
    while not work.done():
        try:
            await shield(work)
        except CancelledError:
            hear()
    return work.result()


UNSUPPORTED = "the tool does not support cancellation: it goes on, and its result will be true"
TOO_LATE = "the tool had already ended: its result stands"

_making_events = Lock()
"""Held while an event is made or set; events are made on workers' threads, and seldom."""


def stops_on_interrupt(tool: InterruptBehavior | None, policy: InterruptBehavior | None = None) -> bool:
    """Tell whether interrupting a turn cancels a call: if the tool says so and the policy does not object.

    Otherwise the call goes on and the next turn waits for it (AT-IFACE-24).
    """
    return tool == InterruptBehavior.CANCEL and policy != InterruptBehavior.BLOCK


class StopSignal:
    """What a worker's thread can wait for; given on the event loop's thread, once."""

    __slots__ = ("_event", "is_given")

    def __init__(self) -> None:
        """Begin without a request."""
        self.is_given = False
        self._event: Event | None = None

    def give(self) -> None:
        """Wake whoever waits."""
        with _making_events:
            self.is_given = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker's thread until the signal is given, and tell whether it was."""
        with _making_events:
            if self._event is None:
                self._event = Event()
                if self.is_given:
                    self._event.set()
        return self._event.wait(timeout)
