"""The one place that catches whatever other people's code raises."""

from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable

from agenttool.errors import words_of


async def guard(work: Callable[[], Awaitable[object]]) -> tuple[object, Exception | None]:
    """Do the work; give its value, or the exception it raised instead.

    What is meant for the caller passes through: an interruption, and the cancellation of the caller's own task.
    """
    try:
        return await work(), None
    except Exception as error:  # noqa: BLE001 -- somebody else's code: whatever it raises is an answer
        return None, error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # an exit, a cancellation of its own, something from another tree
        task = current_task()
        if isinstance(error, CancelledError) and (task is None or task.cancelling()):
            raise
        return None, RuntimeError(f"{type(error).__name__}: {words_of(error)}")
