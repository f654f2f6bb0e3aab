"""Who waits for whom in a batch, and whose failure cancels whom."""

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from graphlib import CycleError, TopologicalSorter
from typing import Generic, TypeVar

from agenttool.errors import ToolFailure
from agenttool.records import (
    ErrorClass,
    Recoverability,
    ResultStatus,
    RetryGuidance,
    SiblingFailurePolicy,
    ToolError,
)

K = TypeVar("K", bound=Hashable)

_NO_FAILURE = frozenset({ResultStatus.CANCELED, ResultStatus.SYNTHETIC_ERROR, ResultStatus.DISCARDED})
"""Ends that were asked for: they leave dependents without what they need, but are nobody's failure."""


class Readiness(Enum):
    """Whether a call may go to the gate."""

    WAIT = auto()
    GO = auto()
    CANCEL = auto()


@dataclass(frozen=True, slots=True)
class Siblings(Generic[K]):
    """The calls of one batch, by index or id: what each depends on, and what a failure means to the rest."""

    policy: SiblingFailurePolicy
    depends_on: Mapping[K, frozenset[K]]

    def readiness(self, call: K, ended: Mapping[K, ResultStatus]) -> Readiness:
        """Tell whether a call may start, given how others ended.

        It waits for all that it depends on. If one of them did not succeed it is canceled at once, except under
        `ignore`, where it runs all the same.
        """
        needed = self.depends_on[call]
        if self.policy != SiblingFailurePolicy.IGNORE and any(
            ended[other].is_error for other in needed if other in ended
        ):
            return Readiness.CANCEL
        return Readiness.GO if all(other in ended for other in needed) else Readiness.WAIT

    def taken_along(self, call: K, status: ResultStatus, unfinished: Collection[K]) -> tuple[K, ...]:
        """Give whom of the unfinished the end of one call cancels, in their order, for the reason `sibling_error`.

        Dependents are canceled through any number of steps, also if the call was itself canceled. All the others
        follow only under `cancel_siblings`, and only a failure: to have been canceled is none.
        """
        if not status.is_error or self.policy == SiblingFailurePolicy.IGNORE:
            return ()
        others = [other for other in unfinished if other != call]
        if self.policy == SiblingFailurePolicy.CANCEL_SIBLINGS and status not in _NO_FAILURE:
            return tuple(others)
        dependents = set(self._dependents(call))
        return tuple(other for other in others if other in dependents)

    def _dependents(self, call: K) -> Iterator[K]:
        reached = {call}
        # The calls come in an order in which nobody stands before what it depends on.
        for other in TopologicalSorter(self.depends_on).static_order():
            if not reached.isdisjoint(self.depends_on[other]):
                reached.add(other)
                yield other


def siblings_of(depends_on: Mapping[K, Collection[K]], policy: SiblingFailurePolicy | None = None) -> Siblings[K]:
    """Take every call of a batch with what it depends on; no policy means `ignore` (G-45).

    Raises:
        ToolFailure: invalid_arguments, if a dependency is not in the batch or a call waits for itself.
    """
    for call, needed in depends_on.items():
        strangers = [other for other in needed if other not in depends_on]
        if strangers:
            raise _refusal(
                "unknown_dependency", f"call {call!r} depends on {strangers[0]!r}, which is not in its batch"
            )
    try:
        TopologicalSorter(depends_on).prepare()
    except CycleError as error:
        circle = " -> ".join(repr(call) for call in error.args[1])
        raise _refusal("circular_dependency", f"calls may not wait for each other in a circle, got {circle}") from error
    return Siblings(policy or SiblingFailurePolicy.IGNORE, {call: frozenset(n) for call, n in depends_on.items()})


def _refusal(code: str, message: str) -> ToolFailure:
    return ToolFailure(
        ToolError(
            error_class=ErrorClass.INVALID_ARGUMENTS,
            error_code=code,
            message=f"{message}; correct depends_on",
            recoverability=Recoverability.CHANGE_ARGUMENTS,
            retry=RetryGuidance(safe=True, arguments_must_change=True),
        )
    )
