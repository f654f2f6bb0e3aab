"""Run blocking functions, also as hooks, in threads that are reused, and never wait for one that hangs."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import cast

from agenttool.errors import ToolFailure, words_of
from agenttool.ports.executor import Job
from agenttool.ports.hooks import HookQuestion
from agenttool.records import ErrorClass, Phase, Recoverability, RetryGuidance, ToolError

MAX_LEFT_BEHIND = 32
"""How many runs of one tool may still block a thread after their calls have ended, before the tool is refused."""

IDLE_S = 10.0
"""How long a thread waits for the next run before it ends."""

_Outcome = tuple[object, BaseException | None]


class _Worker(threading.Thread):
    """A thread that runs one function after another."""

    def __init__(self) -> None:
        super().__init__(name="agenttool-tool", daemon=True)
        self.runs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                self.runs.get(timeout=IDLE_S)()
            except Empty:
                with suppress(ValueError):
                    _idle.remove(self)
                    return
                # A run was assigned to this thread just as its wait timed out.


_idle: list[_Worker] = []
"""Threads without a run, the last used at the end. Appending, popping and removing are atomic."""


def _assign(run: Callable[[], None]) -> None:
    """Run a function in an idle thread, or in a new one: a run that hangs delays no other."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.runs.put(run)


@dataclass(slots=True)
class LeftBehind:
    """The runs of one tool that still block a thread although their calls have ended. A thread cannot be stopped.

    Attributes:
        runs: one future for each, which is done when its run ends.
    """

    runs: "list[asyncio.Future[None]]" = field(default_factory=list["asyncio.Future[None]"])

    def refuse_more(self) -> None:
        """Reject another run if too many earlier runs still block a thread.

        Raises:
            ToolFailure: dependency_unavailable.
        """
        self.runs = [each for each in self.runs if not each.done()]
        if len(self.runs) >= MAX_LEFT_BEHIND:
            message = f"{len(self.runs)} earlier calls still hang in their threads; wait until they end, or restart"
            raise ToolFailure(
                ToolError(
                    error_class=ErrorClass.DEPENDENCY_UNAVAILABLE,
                    error_code="threads_left_behind",
                    phase=Phase.EXECUTE,
                    message=message,
                    recoverability=Recoverability.RETRYABLE,
                    retry=RetryGuidance(safe=True, arguments_must_change=False),
                )
            )


async def in_thread(function: Callable[[], object], left_behind: LeftBehind, job: Job | None = None) -> object:
    """Run a function in a thread. On cancellation the thread is left to notice the signal.

    Raises:
        ToolFailure: dependency_unavailable, if too many runs of this tool were left behind.
    """
    left_behind.refuse_more()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Outcome] = loop.create_future()
    ended: asyncio.Future[None] = loop.create_future()
    work = partial(contextvars.copy_context().run, function)

    def run() -> None:
        outcome: _Outcome
        try:
            outcome = work(), None
        except BaseException as error:  # noqa: BLE001 -- any exception of the tool is its outcome
            outcome = None, error
        _idle.append(threading.current_thread())  # pyright: ignore[reportArgumentType] -- runs in a `_Worker` only
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(_settle, done, ended, outcome)

    _assign(run)
    try:
        value, error = await done
    finally:
        if not done.done() or done.cancelled():
            left_behind.runs.append(ended)
            if job is not None:
                job.report_running_thread(ended)
    if error is not None:
        raise _own(error)
    return value


def runner_of(function: Callable[..., object]) -> Callable[..., Coroutine[object, object, object]]:
    """Return what runs a coroutine function in the event loop, and any other in a thread; await what it returns."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return cast("Callable[..., Coroutine[object, object, object]]", function)
    left_behind = LeftBehind()

    async def run(*arguments: object) -> object:
        returned = await in_thread(partial(function, *arguments), left_behind)
        return await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned

    return run


def _settle(done: "asyncio.Future[_Outcome]", ended: "asyncio.Future[None]", outcome: _Outcome) -> None:
    ended.set_result(None)
    if not done.done():
        done.set_result(outcome)


def _own(error: BaseException) -> BaseException:
    """Return the exception to raise: an interrupt or a cancellation in a thread comes from the tool itself."""
    if isinstance(error, Exception | SystemExit) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {words_of(error)}")


class FunctionHook:
    """Runs a function as a hook: `Hook(name="guard", event=…, runner=FunctionHook(guard))`.

    A coroutine function runs in the task of the call, and must not block. A plain function runs in a thread. The call
    stops waiting for the thread at the deadline of the hook, but the thread runs to its end.
    """

    def __init__(self, function: Callable[[HookQuestion], object]) -> None:
        self._run = runner_of(function)

    def run(self, question: HookQuestion) -> Coroutine[object, object, object]:
        """Run the function; an exception is the failure of the hook."""
        return self._run(question)
