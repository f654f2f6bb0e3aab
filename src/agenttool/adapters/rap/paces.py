"""How often a call may be heard of besides its result: whoever works on it must not flood whoever waits."""

import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

PER_SECOND, BURST = 50.0, 500.0
_REMEMBERED = 10_000
"""Of so many calls the pace is known; the ones that were quiet longest are let go."""


class Pace(Enum):
    """Whether a call is heard of no more often than it may be; `LEFT` is told once, and `LOST` from then on."""

    KEPT = "kept"
    LEFT = "left"
    LOST = "lost"


class Paces:
    """The pace of each call: so many messages at once, and so many a second from then on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take a clock that only goes forward."""
        self._clock = clock
        self._calls: OrderedDict[str, tuple[float, float, bool]] = OrderedDict()

    def pace_of(self, call: str) -> Pace:
        """Count one more message about a call, and tell whether it may come; one that may not does not count."""
        now = self._clock()
        left, since, was_told = self._calls.pop(call, (BURST, now, False))
        left = min(BURST, left + (now - since) * PER_SECOND)
        is_kept = left >= 1
        self._calls[call] = (left - is_kept, now, not is_kept or (was_told and left < BURST / 2))
        if len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)
        if is_kept:
            return Pace.KEPT
        return Pace.LOST if was_told else Pace.LEFT
