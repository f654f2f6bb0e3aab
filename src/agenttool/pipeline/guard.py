"""The one place that catches whatever other people's code raises."""

from collections.abc import Awaitable, Callable


async def guard(work: Callable[[], Awaitable[object]]) -> tuple[object, Exception | None]:
    """Do the work; give its value, or the exception it raised instead. Cancellation passes through.

    Code that wants to end the whole program ends only itself.
    """
    try:
        return await work(), None
    except Exception as error:  # noqa: BLE001 -- somebody else's code: whatever it raises is an answer
        return None, error
    except SystemExit as end:
        return None, RuntimeError(f"it wanted to exit with {end.code!r}")
