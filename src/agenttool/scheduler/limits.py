"""How long a call may take: altogether, and without a sign of life."""

from collections.abc import Callable
from enum import StrEnum
from math import inf

from agenttool.scheduler.deadlines import Deadlines


class Expiry(StrEnum):
    """Which of a call's two clocks ran out."""

    IDLE = "idle"
    CAP = "cap"


def smallest_timeout(*timeouts_ms: int | None) -> float | None:
    """Give the seconds of the strictest limit that anybody set (G-19); nobody's word means no limit."""
    known = [timeout for timeout in timeouts_ms if timeout is not None]
    return min(known) / 1000 if known else None


class TimeLimit:
    """The two clocks of one call. Progress sets back the clock of silence, and never the other.

    Both stand still while the call is paused, so that a person's time to answer is not the tool's. Pauses nest.
    """

    __slots__ = ("_cap_at", "_deadline", "_deadlines", "_expire", "_idle", "_idle_at", "_paused_at", "_pauses")

    def __init__(
        self,
        deadlines: Deadlines,
        expire: Callable[[Expiry], None],
        *,
        cap: float | None = None,
        idle: float | None = None,
    ) -> None:
        """Start both clocks now; `None` is a clock that never runs out."""
        now = deadlines.now()
        self._deadlines = deadlines
        self._expire = expire
        self._idle = idle
        self._cap_at = inf if cap is None else now + cap
        self._idle_at = inf if idle is None else now + idle
        self._pauses = 0
        self._paused_at = 0.0
        self._deadline = deadlines.arm(min(self._cap_at, self._idle_at), self._ring)

    @property
    def cap_at(self) -> float:
        """The moment at which the time is over altogether, as it stands."""
        return self._cap_at

    def progress(self) -> None:
        """Take a sign of life; it counts also while the clocks stand still."""
        if self._idle is not None:
            self._idle_at = (self._paused_at if self._pauses else self._deadlines.now()) + self._idle
            self._move()

    def pause(self) -> None:
        """Stop both clocks."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._deadlines.now()
            self._move()

    def resume(self) -> None:
        """Let both clocks go on where they stopped, once every pause has ended."""
        self._pauses -= 1
        if self._pauses == 0:
            paused = self._deadlines.now() - self._paused_at
            self._cap_at += paused
            self._idle_at += paused
            self._move()

    def end(self) -> None:
        """Stop the clocks for good: the call is over."""
        self._deadlines.cancel(self._deadline)

    def _move(self) -> None:
        at = inf if self._pauses else min(self._cap_at, self._idle_at)
        self._deadlines.move(self._deadline, at)

    def _ring(self) -> None:
        self._expire(Expiry.CAP if self._cap_at <= self._idle_at else Expiry.IDLE)
