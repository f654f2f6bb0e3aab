"""In which order results and progress leave a batch, whatever the order in which they came about."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from agenttool.records import OrderingPolicy, SchedulerPolicy, YieldPolicy

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What ordering and yield policy come to when read together."""

    serial: bool
    results_in_order: bool
    progress_held: bool


def delivery_of(policy: SchedulerPolicy) -> Delivery:
    """Read a policy's two words on order as one; where they contradict each other the stricter wins (G-44).

    Results leave unordered only if somebody says so and nobody says otherwise. So read the policy as it was written,
    before any default fills in the word that was left out.
    """
    serial = policy.ordering_policy == OrderingPolicy.SERIAL
    words = {policy.ordering_policy, policy.yield_policy}
    allowing = {OrderingPolicy.ALLOW_UNORDERED, YieldPolicy.UNORDERED_STREAMING}
    return Delivery(
        serial=serial,
        results_in_order=words == {None} or not words <= allowing | {None},
        progress_held=policy.yield_policy == YieldPolicy.ALL_ORDERED,
    )


class Sequencer(Generic[T]):
    """Holds back what may not leave yet. Calls are numbered from 0 in the order in which they were asked for.

    Each method gives what leaves by it, in order.
    """

    def __init__(self, calls: int, delivery: Delivery) -> None:
        """Take how many calls there are; each will have one result."""
        self._calls = calls
        self._delivery = delivery
        self._next = 0
        self._ended: set[int] = set()
        self._results: dict[int, T] = {}
        self._progress: dict[int, list[T]] = {}

    @property
    def is_done(self) -> bool:
        """Tell whether every result has left."""
        return len(self._ended) == self._calls and not self._results

    def progress(self, call: int, item: T) -> list[T]:
        """Take a sign of life; one that comes after its call's result is dropped (AT-PROG-07)."""
        if call in self._ended:
            return []
        if self._delivery.progress_held and call != self._next:
            self._progress.setdefault(call, []).append(item)
            return []
        return [item]

    def result(self, call: int, item: T) -> list[T]:
        """Take the one result of a call."""
        if call in self._ended or not 0 <= call < self._calls:
            raise ValueError(f"call {call} of {self._calls} cannot have this result; each call has exactly one")
        self._ended.add(call)
        if not self._delivery.results_in_order:
            return [item]
        self._results[call] = item
        leaving: list[T] = []
        while self._next in self._results:
            leaving.append(self._results.pop(self._next))
            self._next += 1
            leaving.extend(self._progress.pop(self._next, ()))
        return leaving


class Outlet(Generic[T]):
    """A sequencer to iterate over: what may leave is there at once, and the end comes with the last result.

    Producers call `progress` and `result`; one consumer iterates.
    """

    def __init__(self, calls: int, delivery: Delivery) -> None:
        """Take what a `Sequencer` takes."""
        self._sequencer = Sequencer[T](calls, delivery)
        self._leaving: deque[T] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def progress(self, call: int, item: T) -> None:
        """Take a sign of life."""
        self._hand_out(self._sequencer.progress(call, item))

    def result(self, call: int, item: T) -> list[T]:
        """Take the one result of a call; give what leaves by that."""
        leaving = self._sequencer.result(call, item)
        self._hand_out(leaving)
        return leaving

    def __aiter__(self) -> Self:
        """Iterate over what leaves."""
        return self

    async def __anext__(self) -> T:
        """Wait for the next item."""
        while not self._leaving:
            if self._sequencer.is_done:
                raise StopAsyncIteration
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._leaving.popleft()

    def _hand_out(self, items: list[T]) -> None:
        self._leaving.extend(items)
        if items and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
