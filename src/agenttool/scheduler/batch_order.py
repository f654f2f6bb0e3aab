"""The order of a batch: results and progress, dependencies, failures of siblings, and context modifiers."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from enum import Enum, StrEnum, auto
from graphlib import CycleError, TopologicalSorter
from typing import Generic, NamedTuple, Self, TypeVar

from agenttool.records import (
    ContextModifierPolicy,
    OrderingPolicy,
    ResultStatus,
    SchedulerPolicy,
    SiblingFailurePolicy,
    YieldPolicy,
)

T = TypeVar("T")


class Delivery(NamedTuple):
    """The effect of the ordering policy and the yield policy together."""

    serial: bool
    results_in_order: bool
    progress_held: bool


def delivery_of(policy: SchedulerPolicy) -> Delivery:
    """Combine the ordering policy and the yield policy; the stricter wins (G-44).

    Results are unordered only if one setting allows it and none forbids it. Pass the policy as it was written, before
    defaults are filled in.
    """
    serial = policy.ordering_policy == OrderingPolicy.SERIAL
    words = {policy.ordering_policy, policy.yield_policy}
    allowing = {OrderingPolicy.ALLOW_UNORDERED, YieldPolicy.UNORDERED_STREAMING}
    return Delivery(
        serial=serial,
        results_in_order=words == {None} or not words <= allowing | {None},
        progress_held=policy.yield_policy == YieldPolicy.ALL_ORDERED,
    )


class OrderedStream(Generic[T]):
    """An async iterator over the items of a batch; it ends after the last result.

    Producers call `progress` and `result`. Calls are numbered from 0 in the order of the request. Both methods return
    the items that leave now; others are buffered until their turn. One consumer iterates.
    """

    def __init__(self, calls: int, delivery: Delivery) -> None:
        """Store the number of calls; each will have one result."""
        self._calls = calls
        self._delivery = delivery
        self._next = 0
        self._ended: set[int] = set()
        self._results: dict[int, T] = {}
        self._progress: dict[int, list[T]] = {}
        self._leaving: asyncio.Queue[T] = asyncio.Queue()

    @property
    def is_done(self) -> bool:
        """Whether every result has left."""
        return len(self._ended) == self._calls and not self._results

    def progress(self, call: int, item: T) -> list[T]:
        """Add progress; progress after the result of its call is dropped (AT-PROG-07)."""
        if call in self._ended:
            return []
        if self._delivery.progress_held and call != self._next:
            self._progress.setdefault(call, []).append(item)
            return []
        return self._emit([item])

    def result(self, call: int, item: T) -> list[T]:
        """Add the one result of a call."""
        if call in self._ended or not 0 <= call < self._calls:
            raise ValueError(f"call {call} of {self._calls} cannot have this result; each call has exactly one")
        self._ended.add(call)
        if not self._delivery.results_in_order:
            return self._emit([item])
        self._results[call] = item
        leaving: list[T] = []
        while self._next in self._results:
            leaving.append(self._results.pop(self._next))
            self._next += 1
            leaving.extend(self._progress.pop(self._next, ()))
        return self._emit(leaving)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self.is_done and self._leaving.empty():
            raise StopAsyncIteration
        return await self._leaving.get()

    def _emit(self, items: list[T]) -> list[T]:
        for each in items:
            self._leaving.put_nowait(each)
        return items


_NO_FAILURE = frozenset({ResultStatus.CANCELED, ResultStatus.SYNTHETIC_ERROR, ResultStatus.DISCARDED})
"""Statuses of calls that were canceled on request: dependents cannot run, but the call did not fail."""


class Readiness(Enum):
    """Whether a call of a batch waits, starts or is canceled."""

    WAIT = auto()
    GO = auto()
    CANCEL = auto()


class Siblings(NamedTuple):
    """The calls of one batch, by index: their dependencies, and the effect of a failure on the others."""

    policy: SiblingFailurePolicy
    depends_on: Mapping[int, frozenset[int]]

    def readiness(self, call: int, ended: Mapping[int, ResultStatus]) -> Readiness:
        """Return whether a call may start, given how others ended.

        The call waits for its dependencies. If one of them did not succeed, the call is canceled at once; under
        `ignore` it runs.
        """
        needed = self.depends_on[call]
        if self.policy != SiblingFailurePolicy.IGNORE and any(
            ended[other].is_error for other in needed if other in ended
        ):
            return Readiness.CANCEL
        return Readiness.GO if all(other in ended for other in needed) else Readiness.WAIT

    def canceled_by(self, call: int, status: ResultStatus, unfinished: Collection[int]) -> tuple[int, ...]:
        """Return the unfinished calls that the end of one call cancels with `sibling_error`, in their order.

        Direct and indirect dependents are canceled, also if the call was itself canceled. Under `cancel_siblings` a
        failure cancels all other calls, too; a cancellation is not a failure.
        """
        if not status.is_error or self.policy == SiblingFailurePolicy.IGNORE:
            return ()
        others = [other for other in unfinished if other != call]
        if self.policy == SiblingFailurePolicy.CANCEL_SIBLINGS and status not in _NO_FAILURE:
            return tuple(others)
        dependents = set(self.dependents(call))
        return tuple(other for other in others if other in dependents)

    def dependents(self, call: int) -> Iterator[int]:
        """Yield the calls that depend on one, directly or indirectly."""
        reached = {call}
        # Every call comes after the calls that it depends on.
        for other in TopologicalSorter(self.depends_on).static_order():
            if not reached.isdisjoint(self.depends_on[other]):
                reached.add(other)
                yield other


def siblings_of(depends_on: Mapping[int, Collection[int]], policy: SiblingFailurePolicy | None = None) -> Siblings:
    """Return the dependencies of a batch, validated; no policy means `ignore` (G-45).

    Raises:
        ValueError: a dependency is not in the batch, or a call waits for itself.
    """
    for call, needed in depends_on.items():
        unknown = [other for other in needed if other not in depends_on]
        if unknown:
            raise ValueError(f"call {call!r} depends on {unknown[0]!r}, which is not in its batch; correct depends_on")
    try:
        TopologicalSorter(depends_on).prepare()
    except CycleError as error:
        circle = " -> ".join(repr(call) for call in error.args[1])
        raise ValueError(f"calls may not wait for each other in a circle, got {circle}; correct depends_on") from error
    return Siblings(policy or SiblingFailurePolicy.IGNORE, {call: frozenset(n) for call, n in depends_on.items()})


class ModifierOutcome(StrEnum):
    """The outcome of a context modifier, as the terminal event records it (G-63)."""

    APPLIED = "applied"
    DEFERRED = "deferred"
    REJECTED = "rejected"


_STRICTEST_FIRST = (
    ContextModifierPolicy.FORBID,
    ContextModifierPolicy.ALLOW_SERIAL_ONLY,
    ContextModifierPolicy.DEFER_UNTIL_BATCH_COMPLETE,
)


def strictest_modifier_policy(*policies: ContextModifierPolicy | None) -> ContextModifierPolicy:
    """Return the strictest policy of interface, call and scheduler (G-19); `forbid` if none is set."""
    return next((policy for policy in _STRICTEST_FIRST if policy in policies), ContextModifierPolicy.FORBID)


def modifier_outcome(
    policy: ContextModifierPolicy, *, ran_alone: bool, supports_context_modifiers: bool | None
) -> ModifierOutcome:
    """Return the outcome of one modifier.

    A modifier of a tool that did not declare context changes is rejected (AT-EXEC-13). Pass `Permit.alone` as
    `ran_alone`. Whether the call ran alone by chance would make the outcome depend on timing.
    """
    if not supports_context_modifiers or policy == ContextModifierPolicy.FORBID:
        return ModifierOutcome.REJECTED
    if policy == ContextModifierPolicy.DEFER_UNTIL_BATCH_COMPLETE:
        return ModifierOutcome.DEFERRED
    return ModifierOutcome.APPLIED if ran_alone else ModifierOutcome.REJECTED
