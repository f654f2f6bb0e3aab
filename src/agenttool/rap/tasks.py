"""Work that goes on beside requests: each piece on its own, and none takes the others down."""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

from agenttool.errors import AgentToolError
from agenttool.rap.faults import told_of

_log = logging.getLogger(__name__)


STOPS_WITHIN_S = 5.0
"""After so long a function that was canceled is told of, and canceled once more."""


class Tasks:
    """Every piece of work of one provider; on leaving, what still goes on is stopped."""

    def __init__(self) -> None:
        """Begin with none."""
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Take work from now on."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what goes on, and wait until it has; say so if something does not let itself be stopped."""
        is_told = False
        while self._under_way:
            for task in self._under_way:
                task.cancel()
            _, stuck = await asyncio.wait(self._under_way, timeout=STOPS_WITHIN_S)
            if stuck and not is_told:
                is_told = True
                _log.warning("functions that were canceled and go on: %d; waiting for their end", len(stuck))

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Set a piece of work going."""
        task = asyncio.get_running_loop().create_task(_guarded(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda _: work.close())  # one that was stopped before it began has not been awaited
        return task


async def _guarded(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except AgentToolError as error:
        _log.error("work in the background failed: %s", error)
    except Exception as error:  # noqa: BLE001 -- what is kept goes on after a restart, and the rest goes on now
        _log.error("work in the background failed: %s", told_of(error))
