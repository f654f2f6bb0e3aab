"""Limits on rates, concurrent work and open work, for HTTP clients and servers.

`ConcurrencyLimiter` grants permits fairly. A permit counts in all, for its owner and for its key. If there is no room,
the request waits, and the next permit goes to the owner that has the fewest.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from sys import maxsize
from typing import NamedTuple, TypeVar

from agenttool.ports.limits import RateLimit

MAX_TRACKED_KEYS = 10_000
"""How many keys have a history; the least recently used ones are forgotten and count as new."""

_MAX_EXAMINED = 64
"""How many waiting keys of one owner are examined at a time, the oldest first."""

_ROUNDING_S = 1e-9
_K = TypeVar("_K", bound=Hashable)


class RateLimiter:
    """A token bucket for each key, stored as the time at which the bucket will be full again."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = 1 / limit.per_second
        self._burst_s = (limit.burst - 1) * self._interval_s
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one token of a key, and return 0; if its bucket is empty, return the seconds until it has one."""
        now = self._clock()
        full_at = self._full_at.pop(key, now)
        wait_s = full_at - self._burst_s - now
        is_allowed = wait_s <= _ROUNDING_S
        self._full_at[key] = max(full_at, now) + self._interval_s if is_allowed else full_at
        if len(self._full_at) > MAX_TRACKED_KEYS:
            self._full_at.popitem(last=False)
        return 0.0 if is_allowed else wait_s


class Quota:
    """Counts open items, in total and for each owner. An item counts once, however often it is acquired."""

    def __init__(self, total: int, per_owner: int) -> None:
        self._total = total
        self._per_owner = per_owner
        self._items: Counter[Hashable] = Counter()
        self._owners: Counter[str] = Counter()

    def is_exhausted_for(self, owner: str) -> bool:
        """Return whether an owner may open no further item now."""
        return len(self._items) >= self._total or self._owners[owner] >= self._per_owner

    def acquire(self, item: Hashable, owner: str) -> None:
        """Count an item as open; callers that may be rejected check `is_exhausted_for` first."""
        self._items[item] += 1
        if self._items[item] == 1:
            self._owners[owner] += 1

    def release(self, item: Hashable, owner: str) -> None:
        """Undo one `acquire` of an item."""
        _decrement(self._items, item)
        if item not in self._items:
            _decrement(self._owners, owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLimits:
    """The limits of a `ConcurrencyLimiter`.

    Attributes:
        timeout_s: how long `limit` lets the work take once it has its permit; None for no limit.
        queue_timeout_s: how long a request waits for its permit; None for no limit.
    """

    total: int
    per_owner: int = maxsize
    per_key: int = maxsize
    timeout_s: float | None = None
    queue_timeout_s: float | None = None


class RequestKey(NamedTuple):
    """What identifies requests of one kind: on whose behalf they are made, and where they go."""

    owner: Hashable
    target: Hashable


class ConcurrencyLimiter:
    """Grants permits to requests. Requests with equal keys wait behind each other; keys are served in turn."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._limits = limits
        self._total = 0
        self._owners: Counter[Hashable] = Counter()
        self._keys: Counter[RequestKey] = Counter()
        self._waiting: OrderedDict[Hashable, OrderedDict[RequestKey, deque[asyncio.Future[None]]]] = OrderedDict()

    @asynccontextmanager
    async def limit(self, key: RequestKey) -> AsyncGenerator[None]:
        """Hold a permit during a block of work, which is canceled at its deadline.

        Raises:
            TimeoutError: no permit was granted in time, or the work took too long.
        """
        await self.acquire(key)
        deadline = asyncio.timeout(self._limits.timeout_s)
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise TimeoutError(f"no answer within {self._limits.timeout_s:g} seconds") from None
        finally:
            self.release(key)

    async def acquire(self, key: RequestKey) -> None:
        """Wait for a permit; the caller must `release` it.

        Raises:
            TimeoutError: none was granted in time.
        """
        if self._has_room(key):
            self._grant(key)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key.owner, OrderedDict()).setdefault(key, deque()).append(granted)
        try:
            async with asyncio.timeout(self._limits.queue_timeout_s):
                await granted
        except BaseException as error:
            if granted.cancelled():
                self._remove(key, granted)
            else:  # it was granted at the same moment
                self.release(key)
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no permit within {self._limits.queue_timeout_s:g} seconds") from None
            raise

    def release(self, key: RequestKey) -> None:
        """Return a permit, and grant waiting requests theirs."""
        self._total -= 1
        _decrement(self._owners, key.owner)
        _decrement(self._keys, key)
        while (waiting := self._next_key()) is not None:
            granted = self._waiting[waiting.owner][waiting][0]
            self._remove(waiting, granted)
            if not granted.done():  # otherwise its request was just canceled
                self._grant(waiting)
                granted.set_result(None)

    def _grant(self, key: RequestKey) -> None:
        self._total += 1
        self._owners[key.owner] += 1
        self._keys[key] += 1

    def _has_room(self, key: RequestKey) -> bool:
        limits = self._limits
        has_room = self._total < limits.total and self._owners[key.owner] < limits.per_owner
        return has_room and self._keys[key] < limits.per_key

    def _next_key(self) -> RequestKey | None:
        """Return a waiting key that has room and whose owner holds the fewest permits."""
        found, fewest = None, self._limits.per_owner
        for owner, queues in self._waiting.items():
            if self._owners[owner] < fewest:
                key = next(filter(self._has_room, islice(queues, _MAX_EXAMINED)), None)
                found, fewest = (found, fewest) if key is None else (key, self._owners[owner])
        return found

    def _remove(self, key: RequestKey, granted: "asyncio.Future[None]") -> None:
        """Remove a request, if it waits; the others of its key and of its owner move behind the rest."""
        queues = self._waiting.pop(key.owner, OrderedDict[RequestKey, deque["asyncio.Future[None]"]]())
        queue = queues.pop(key, deque())
        if granted in queue:
            queue.remove(granted)
        if queue:
            queues[key] = queue
        if queues:
            self._waiting[key.owner] = queues


def _decrement(counts: Counter[_K], key: _K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
