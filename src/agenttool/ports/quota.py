"""Bounds on what one caller can have at a time, so that no caller uses up what others need.

`CallerQuota` counts open items and refuses more. `OwnedEntries` stores entries, and drops old ones of the same caller.
"""

from collections import Counter
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Generic, TypeVar

from agenttool.errors import QuotaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

PER_CALLER = {
    "open calls": 10_000,
    "surfaces": 500,
    "conversations": 1_000,
    "event streams": 8,
    "reads of the journal": 16,
    "console sessions": 100,
    "cached credentials": 1_000,
    "MCP sessions": 1_000,
    "characters of MCP events": 32_000_000,
    "MCP requests": 1_000,
    "MCP tasks": 1_000,
    "MCP listen streams": 128,
    "resource subscriptions": 1_000,
}
"""How many items of each kind a caller of a server can have; `docs/explanation/one-call.md` lists the effects."""


class CallerQuota:
    """Counts the open items of each caller; a caller has at most as many as `PER_CALLER` allows."""

    def __init__(self, items: str) -> None:
        """Take the name of the items in `PER_CALLER`."""
        self._items = items
        self._open: Counter[Hashable] = Counter()

    def check(self, caller: Hashable, more: int = 1) -> None:
        """Check that a caller may open more items.

        Raises:
            QuotaError: it may not.
        """
        if self._open[caller] + more > PER_CALLER[self._items]:
            raise QuotaError(self._items, PER_CALLER[self._items])

    def add(self, caller: Hashable) -> None:
        """Count an item as open, also beyond the limit; callers that may be refused are checked first."""
        self._open[caller] += 1

    def remove(self, caller: Hashable) -> None:
        """Count an item as ended."""
        self._open[caller] -= 1
        if self._open[caller] <= 0:
            del self._open[caller]

    @contextmanager
    def hold(self, caller: Hashable) -> Generator[None]:
        """Count an item as open within this context.

        Raises:
            QuotaError: the caller has too many.
        """
        self.check(caller)
        self.add(caller)
        try:
            yield
        finally:
            self.remove(caller)


class OwnedEntries(Generic[K, V]):
    """Entries by key, each of one caller.

    A caller with too many entries loses its oldest one. If all callers have too many, the one with the most does.
    """

    def __init__(
        self,
        items: str,
        total: int,
        *,
        on_drop: Callable[[V], object] = lambda _: None,
        may_drop: Callable[[V], bool] = lambda _: True,
    ) -> None:
        """Take the name in `PER_CALLER` and the limit for all callers.

        Args:
            items: what the entries are; without an entry in `PER_CALLER`, a caller may have as many as all callers.
            total: how many entries all callers may have.
            on_drop: is called with an entry that is dropped.
            may_drop: whether an entry may be dropped; those that may not are stored beyond the limits, too.
        """
        self._items = items
        self._total = total
        self._on_drop = on_drop
        self._may_drop = may_drop
        self._entries: dict[K, tuple[Hashable, V]] = {}
        self._keys: dict[Hashable, dict[K, None]] = {}

    def get(self, key: K) -> V | None:
        """Return an entry; None if there is none."""
        found = self._entries.get(key)
        return None if found is None else found[1]

    def values(self) -> tuple[V, ...]:
        """Return all entries."""
        return tuple(value for _, value in self._entries.values())

    def check(self, caller: Hashable) -> None:
        """Check that an entry of a caller can be added, because it has room or an entry that may be dropped.

        Raises:
            QuotaError: it cannot.
        """
        own, limit = self._keys.get(caller, {}), self._limit
        if len(own) >= limit and next(self._droppable(own), None) is None:
            raise QuotaError(self._items, limit)

    def add(self, caller: Hashable, key: K, value: V) -> None:
        """Store an entry, and drop old ones beyond the limits; an entry that has the key is replaced."""
        self.pop(key)
        own = self._keys.setdefault(caller, {})
        own[key] = None
        self._entries[key] = (caller, value)
        if len(own) > self._limit:
            self._drop_oldest(own)
        if len(self._entries) > self._total:
            self._drop_oldest(max(self._keys.values(), key=len))

    def pop(self, key: K) -> V | None:
        """Remove an entry and return it; None if there is none."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        caller, value = found
        del self._keys[caller][key]
        if not self._keys[caller]:
            del self._keys[caller]
        return value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._keys.clear()

    @property
    def _limit(self) -> int:
        return PER_CALLER.get(self._items, self._total)

    def _droppable(self, keys: dict[K, None]) -> Generator[K]:
        return (each for each in keys if self._may_drop(self._entries[each][1]))

    def _drop_oldest(self, keys: dict[K, None]) -> None:
        for key in self._droppable(keys):
            self._on_drop(self._entries[key][1])
            self.pop(key)
            return
