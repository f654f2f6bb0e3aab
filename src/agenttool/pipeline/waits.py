"""Which calls of this process wait for each other, so that a wait that would never end is refused."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from agenttool.records import InvocationId

_Awaited: TypeAlias = Callable[[], Iterable[InvocationId]]

_within: ContextVar[frozenset[InvocationId]] = ContextVar("calls_within", default=frozenset())
"""The keyed, started and resumed calls that the present code runs within; its tasks and threads inherit them."""

_waits: dict[InvocationId, list[_Awaited]] = {}
"""What each call waits for at present. Ids are unique, so all runtimes of the process share it."""


@contextmanager
def running_within(invocation_id: InvocationId, *, alone: bool = False) -> Generator[None]:
    """Run the code of a call within those of the present code; `alone` if those do not wait for it."""
    outer: frozenset[InvocationId] = frozenset() if alone else _within.get()
    token = _within.set(outer | {invocation_id})
    try:
        yield
    finally:
        _within.reset(token)


@contextmanager
def waiting(awaited: _Awaited, *more: InvocationId) -> Generator[bool]:
    """Register that the present code, and `more` calls, wait for the calls that `awaited` returns.

    It yields whether one of those waits in turn for a call that waits here, directly or not: such a wait never ends.
    """
    waiters = _within.get() | {*more}
    for waiter in waiters:
        _waits.setdefault(waiter, []).append(awaited)
    try:
        yield not waiters.isdisjoint(_reached_from(awaited()))
    finally:
        for waiter in waiters:
            _waits[waiter].remove(awaited)
            if not _waits[waiter]:
                del _waits[waiter]


def _reached_from(calls: Iterable[InvocationId]) -> set[InvocationId]:
    """Return calls, and those that they wait for, directly or not."""
    reached: set[InvocationId] = set()
    found = [*calls]
    while found:
        each = found.pop()
        if each not in reached:
            reached.add(each)
            found += [another for awaited in _waits.get(each, ()) for another in awaited()]
    return reached
