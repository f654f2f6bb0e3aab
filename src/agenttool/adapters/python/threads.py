"""Work that blocks, each in a thread of its own."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from agenttool.errors import ToolFailure, words_of
from agenttool.ports.executor import Job
from agenttool.records import ErrorClass, Phase, Recoverability, RetryGuidance, ToolError

MAX_LEFT_BEHIND = 32
"""How many threads of one tool may go on after their calls have ended, before the tool is not started any more."""

_Outcome = tuple[object, BaseException | None]


class LeftBehind:
    """The threads of one tool that go on although their calls have ended: nobody can stop a thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._threads: list[threading.Thread] = []

    def add(self, thread: threading.Thread) -> None:
        """Leave one more behind."""
        self._threads.append(thread)

    def refuse_more(self) -> None:
        """End a call before it begins if too many before it still hang: whatever they wait for is not there.

        Raises:
            ToolFailure: dependency_unavailable.
        """
        self._threads = [each for each in self._threads if each.is_alive()]
        if len(self._threads) >= MAX_LEFT_BEHIND:
            told = f"{len(self._threads)} earlier calls still hang in their threads; wait until they end, or restart"
            raise ToolFailure(
                ToolError(
                    error_class=ErrorClass.DEPENDENCY_UNAVAILABLE,
                    error_code="threads_left_behind",
                    phase=Phase.EXECUTE,
                    message=told,
                    recoverability=Recoverability.RETRYABLE,
                    retry=RetryGuidance(safe=True, arguments_must_change=False),
                )
            )


async def in_thread(function: Callable[[], object], left_behind: LeftBehind, job: Job | None = None) -> object:
    """Run in a thread of its own; a thread cannot be stopped, so on cancellation it is left to notice the signal.

    No pool: a few threads that hang would stop every other tool, and the end of the program with them.

    Raises:
        ToolFailure: dependency_unavailable, if too many threads of this tool were left behind.
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
        except BaseException as error:  # noqa: BLE001 -- whatever a tool raises in its thread is its outcome
            outcome = None, error
        with suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(_settle, done, ended, outcome)

    thread = threading.Thread(target=run, name="agenttool-tool", daemon=True)
    thread.start()
    try:
        value, error = await done
    finally:
        if not done.done() or done.cancelled():
            left_behind.add(thread)
            if job is not None:
                job.goes_on(ended)
    if error is not None:
        raise _own(error)
    return value


def _settle(done: "asyncio.Future[_Outcome]", ended: "asyncio.Future[None]", outcome: _Outcome) -> None:
    ended.set_result(None)
    if not done.done():
        done.set_result(outcome)


def _own(error: BaseException) -> BaseException:
    """Tell an exception as the tool's own: nobody interrupts or cancels a thread, whatever it raises."""
    if isinstance(error, Exception | SystemExit) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {words_of(error)}")
