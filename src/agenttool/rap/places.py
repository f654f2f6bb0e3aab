"""Places for functions to run in, shared fairly: whoever has slow ones in all of its own holds up nobody else."""

import asyncio
from collections import Counter, OrderedDict, deque
from types import TracebackType
from typing import Self


class Places:
    """So many in all, and so many for each caller; one that gets free goes to whoever waits and has the fewest."""

    def __init__(self, most: int, most_each: int) -> None:
        """Take how many there are."""
        self._most = most
        self._most_each = most_each
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def of(self, caller: str) -> "Place":
        """Give a place of a caller, to be entered."""
        return Place(self, caller)

    async def enter(self, caller: str) -> None:
        """Take a place, once there is one."""
        if self._has_room(caller):
            self._held[caller] += 1
            return
        had: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(had)
        try:
            await had
        except BaseException:
            if had.done() and not had.cancelled():  # it came in the same moment
                self.leave(caller)
            raise

    def leave(self, caller: str) -> None:
        """Give a place back."""
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        while (chosen := self._next()) is not None:
            had = self._waiting[chosen].popleft()
            if self._waiting[chosen]:
                self._waiting.move_to_end(chosen)
            else:
                del self._waiting[chosen]
            if not had.done():  # or else whoever waited has left
                self._held[chosen] += 1
                had.set_result(None)

    def _next(self) -> str | None:
        callers = filter(self._has_room, self._waiting)
        return min(callers, key=lambda each: self._held[each], default=None)

    def _has_room(self, caller: str) -> bool:
        return self._held.total() < self._most and self._held[caller] < self._most_each


class Place:
    """One place, which may be left and entered again while it is had."""

    def __init__(self, places: Places, caller: str) -> None:
        """Take whose it is."""
        self._places = places
        self._caller = caller
        self._is_held = False

    async def enter(self) -> None:
        """Take the place, once there is one."""
        await self._places.enter(self._caller)
        self._is_held = True

    def leave(self) -> None:
        """Give it back, if it is held."""
        if self._is_held:
            self._is_held = False
            self._places.leave(self._caller)

    async def __aenter__(self) -> Self:
        """Have a place."""
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have it no more."""
        self.leave()
