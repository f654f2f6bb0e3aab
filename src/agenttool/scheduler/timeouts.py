"""Deadlines and timeouts of calls, all on one timer.

A timer of the event loop for every call would cost more than the rest of its scheduling. Here a deadline is an entry in
a heap, and the loop has one timer for the earliest.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from math import inf

from agenttool.records import Live

STALE_ALLOWED = 256
"""How many canceled deadlines may stay in the heap before it is rebuilt."""


class Deadline(Live, eq=False):
    """A time at which a callback is called, unless it is moved or canceled; `Deadlines.arm` creates these."""

    at: float
    queued_at: float
    callback: Callable[[], None] | None


class Deadlines:
    """Many deadlines on one timer. Times are those of the loop's clock; `inf` means never."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Deadline]] = []
        self._pushed = 0
        self._stale = 0
        self._handle: TimerHandle | None = None
        self._armed_for = inf
        self.now = loop.time

    def arm(self, at: float, callback: Callable[[], None]) -> Deadline:
        """Schedule a callback at a time, once."""
        deadline = Deadline(at, at, callback)
        self._queue(deadline)
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Cancel a deadline, also one that has expired."""
        if deadline.callback is None:
            return
        deadline.callback = None
        self._stale += 1
        if self._stale > STALE_ALLOWED and self._stale * 2 > len(self._heap):
            self._sweep()

    @contextmanager
    def within(self, seconds: float, callback: Callable[[], None]) -> Generator[None]:
        """Call a callback after some time, or never if that is `inf`, unless the context ends before."""
        deadline = self.arm(self.now() + seconds, callback)
        try:
            yield
        finally:
            self.cancel(deadline)

    def move(self, deadline: Deadline, at: float) -> None:
        """Move a deadline, unless it has expired. Moving it to a later time costs nothing until it is due."""
        deadline.at = at
        if at < deadline.queued_at and deadline.callback is not None:
            self._queue(deadline)

    def _queue(self, deadline: Deadline) -> None:
        deadline.queued_at = deadline.at
        self._pushed += 1
        heappush(self._heap, (deadline.at, self._pushed, deadline))
        if deadline.at < self._armed_for:
            self._set_timer(deadline.at)

    def _set_timer(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = at
        self._handle = None if at == inf else self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._handle, self._armed_for = None, inf
        now = self._loop.time()
        try:
            while self._heap and self._heap[0][0] <= now:
                queued_at, _, deadline = heappop(self._heap)
                if deadline.callback is None or queued_at != deadline.queued_at:
                    self._stale -= 1  # it was canceled, or overtaken by an earlier entry
                else:
                    self._come_due(deadline, now)
        finally:
            if self._heap and self._heap[0][0] < self._armed_for:
                self._set_timer(self._heap[0][0])

    def _come_due(self, deadline: Deadline, now: float) -> None:
        if deadline.at > now:
            deadline.queued_at = inf
            if deadline.at < inf:
                self._queue(deadline)
            return
        callback, deadline.callback = deadline.callback, None
        if callback is not None:
            callback()

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2].callback is not None]
        heapify(self._heap)
        self._stale = 0


class TimeLimit:
    """The two timeouts of one call: total and idle. Progress restarts the idle timeout only.

    Both are suspended while the call is paused, so that waiting for an approver does not count. Pauses nest.

    Attributes:
        cap_at: the current time of the total timeout.
    """

    __slots__ = ("_deadline", "_deadlines", "_idle", "_idle_at", "_paused_at", "_pauses", "cap_at")

    def __init__(
        self, deadlines: Deadlines, expire: Callable[[], None], *, cap: float | None = None, idle: float | None = None
    ) -> None:
        """Start both timeouts now; None means no timeout."""
        now = deadlines.now()
        self._deadlines = deadlines
        self._idle = idle
        self.cap_at = inf if cap is None else now + cap
        self._idle_at = inf if idle is None else now + idle
        self._pauses = 0
        self._paused_at = 0.0
        self._deadline = deadlines.arm(min(self.cap_at, self._idle_at), expire)

    def progress(self) -> None:
        """Restart the idle timeout, also while the call is paused."""
        if self._idle is not None:
            self._idle_at = (self._paused_at if self._pauses else self._deadlines.now()) + self._idle
            self._move()

    def pause(self) -> None:
        """Suspend both timeouts."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._deadlines.now()
            self._move()

    def resume(self) -> None:
        """Continue both timeouts, once every pause has ended."""
        self._pauses -= 1
        if self._pauses == 0:
            paused = self._deadlines.now() - self._paused_at
            self.cap_at += paused
            self._idle_at += paused
            self._move()

    def end(self) -> None:
        """Cancel both timeouts: the call is over."""
        self._deadlines.cancel(self._deadline)

    def _move(self) -> None:
        at = inf if self._pauses else min(self.cap_at, self._idle_at)
        self._deadlines.move(self._deadline, at)
