"""Catch every exception of code that is not part of agenttool."""

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable

from agenttool.errors import words_of


async def guard(work: Callable[[], Awaitable[object]]) -> tuple[object, Exception | None]:
    """Await the work; return its value and none, or none and its exception.

    Interrupts and the cancellation of the caller's own task are raised.
    """
    try:
        return await work(), None
    except Exception as error:  # noqa: BLE001 -- foreign code may raise anything
        return None, error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit, a cancellation that the work raised, or another BaseException
        task = current_task()
        if isinstance(error, CancelledError) and (task is None or task.cancelling()):
            raise
        return None, RuntimeError(f"{type(error).__name__}: {words_of(error)}")
