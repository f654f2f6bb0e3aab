"""Pause the timeouts of parent calls while a nested call waits for an approver."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from agenttool.pipeline.call import Call
from agenttool.scheduler.timeouts import TimeLimit


@contextmanager
def pause_timeouts(call: Call) -> Generator[None]:
    """Pause the timeouts of all ancestors of a call; nested waits are counted."""
    ancestors = tuple(_ancestors_of(call))
    for each in ancestors:
        _pause(each)
    try:
        yield
    finally:
        for each in ancestors:
            _resume(each)


def _ancestors_of(call: Call) -> Iterator[Call]:
    parent = call.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _pause(call: Call) -> None:
    call.pauses += 1
    if call.pauses > 1:
        return
    if call.deadline is not None:  # a bare deadline cannot be paused
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
