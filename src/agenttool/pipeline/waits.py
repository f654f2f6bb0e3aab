"""Which calls of this process wait for each other, so that a wait that would never end is refused."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token

from agenttool.pipeline.call import Call
from agenttool.records import InvocationId

_within: ContextVar[tuple[InvocationId, ...]] = ContextVar("calls_within", default=())
"""The calls that the present code runs within; its tasks and threads inherit them.

They are the keyed, started and resumed ones, and those whose tools keep others waiting.
"""

# Ids are unique, so all runtimes of the process share both.
_awaited: dict[InvocationId, list[InvocationId]] = {}
"""The calls whose ends the code of each call waits for."""
_queued: dict[InvocationId, Callable[[], Iterable[InvocationId]]] = {}
"""The calls that wait for a permit, each with a function that returns the calls ahead of it."""
_running: dict[InvocationId, Call] = {}
"""The calls whose tools run now and keep others waiting; a call is listed as open only once it waits."""


def _and_within(invocation_id: InvocationId) -> tuple[InvocationId, ...]:
    outer = _within.get()
    return outer if invocation_id in outer else (*outer, invocation_id)


def enter_tool(call: Call) -> "Token[tuple[InvocationId, ...]]":
    """Note that the code of a tool runs from now on; `leave_tool` takes the token."""
    _running[call.invocation_id] = call
    return _within.set(_and_within(call.invocation_id))


def leave_tool(call: Call, token: "Token[tuple[InvocationId, ...]]") -> None:
    """Note that the code of a tool has ended."""
    _running.pop(call.invocation_id, None)
    with suppress(ValueError):  # its task is gone
        _within.reset(token)


def callers() -> list[Call]:
    """Return the calls whose tools make the present call, without those that keep no others waiting."""
    return [_running[each] for each in _within.get() if each in _running]


class RunningWithin:
    """The context of the code of a call, within the calls of the present code; `alone` if those do not wait for it.

    Every started call enters it, and a class takes a third of the time of a generator.
    """

    __slots__ = ("_calls", "_token")

    def __init__(self, invocation_id: InvocationId, *, alone: bool = False) -> None:
        """Take the call."""
        self._calls = (invocation_id,) if alone else _and_within(invocation_id)

    def __enter__(self) -> None:
        """Enter the code of the call."""
        self._token = _within.set(self._calls)

    def __exit__(self, *error: object) -> None:
        """Leave it."""
        _within.reset(self._token)


@contextmanager
def waiting_for_end(invocation_id: InvocationId) -> Generator[bool]:
    """Register that the present code waits for the end of a call; yield whether that call waits for it in turn."""
    waiters = _within.get()
    for waiter in waiters:
        _awaited.setdefault(waiter, []).append(invocation_id)
    try:
        yield not _reached((), [invocation_id]).isdisjoint(waiters)
    finally:
        for waiter in waiters:
            _awaited[waiter].remove(invocation_id)
            if not _awaited[waiter]:
                del _awaited[waiter]


@contextmanager
def waiting_for_permit(invocation_id: InvocationId, ahead: Callable[[], Iterable[InvocationId]]) -> Generator[bool]:
    """Register that a call waits for a permit; yield whether one of those ahead of it waits for it in turn.

    `ahead` returns all of them, also those that are ahead of others.
    """
    waiters = _within.get()
    _queued[invocation_id] = ahead
    # Permits alone make no circle, and most calls are not awaited by code of others.
    may_be_endless = bool(waiters) and (bool(_awaited) or any(each != invocation_id for each in waiters))
    try:
        yield may_be_endless and not _reached(ahead(), []).isdisjoint(waiters)
    finally:
        del _queued[invocation_id]


def _reached(calls: Iterable[InvocationId], ends: list[InvocationId]) -> set[InvocationId]:
    """Return `calls`, those in `ends` and the calls ahead of these, and all that the code of each of them waits for."""
    reached: set[InvocationId] = set()
    found, expanded = [*calls], set[InvocationId]()
    while found or ends:
        if ends:
            end = ends.pop()
            if end not in expanded:
                expanded.add(end)
                found += [end, *(_queued[end]() if end in _queued else ())]
        elif (each := found.pop()) not in reached:
            reached.add(each)
            ends += _awaited.get(each, ())
    return reached
