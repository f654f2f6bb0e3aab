"""Background tasks of a provider, and how errors of an author's code are logged."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from traceback import walk_tb

from agenttool.errors import AgentToolError

_log = logging.getLogger(__name__)

_MAX_FRAMES = 4
_OWN_PACKAGE = "agenttool."

STOP_TIMEOUT_S = 5.0
"""After this time a task that was canceled and still runs is logged, and canceled once more."""


def error_location(error: Exception) -> str:
    """Return the type of an error and its last frames, without its message, which may quote arguments or secrets."""
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(_OWN_PACKAGE)
    ]
    return " ".join((type(error).__name__, *(["at", ", ".join(frames[-_MAX_FRAMES:])] if frames else [])))


class BackgroundTasks:
    """The tasks of one provider. A failing task is logged and does not affect the others."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Cancel all tasks and wait until they end; log those that do not stop."""
        is_logged = False
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            _, stuck = await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT_S)
            if stuck and not is_logged:
                is_logged = True
                _log.warning("%d canceled functions are still running; waiting for them", len(stuck))

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is canceled before it starts never awaits it
        return task


async def _guarded(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except AgentToolError as error:
        _log.error("a background task failed: %s", error)
    except Exception as error:  # noqa: BLE001 -- stored work continues after a restart, and other tasks continue now
        _log.error("a background task failed: %s", error_location(error))
