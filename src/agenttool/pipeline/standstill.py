"""A person's time to answer is not the tool's: meanwhile the clocks of the calls that led to the question stand."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from agenttool.pipeline.call import Call
from agenttool.scheduler.timeouts import TimeLimit


@contextmanager
def standstill(call: Call) -> Generator[None]:
    """Let the time of every call that led to this one stand still; calls that ask at the same time share it."""
    above = tuple(_above(call))
    for each in above:
        _pause(each)
    try:
        yield
    finally:
        for each in above:
            _resume(each)


def _above(call: Call) -> Iterator[Call]:
    parent = call.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _pause(call: Call) -> None:
    call.pauses += 1
    if call.pauses > 1:
        return
    if call.deadline is not None:  # a bare deadline cannot stand still
        deadlines = call.core.deadlines
        deadlines.cancel(call.deadline)
        call.deadline = None
        call.limit = TimeLimit(deadlines, call.run_out, cap=call.cap_at - deadlines.now())
    if call.limit is not None:
        call.limit.pause()


def _resume(call: Call) -> None:
    call.pauses -= 1
    if not call.pauses and call.limit is not None:
        call.limit.resume()
        call.cap_at = call.limit.cap_at if call.cap_at else 0.0
