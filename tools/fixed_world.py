"""Run a program with a fixed clock and counted ids: what it prints and writes is the same every time.

Usage: python tools/fixed_world.py PROGRAM [ARGUMENT…]. Programs of the documentation use public names only, and these
have no option for the clock.
"""

import runpy
import sys

from agenttool.assemble import settings
from agenttool.testing.fakes import CountingIds, FakeClock


class TickingClock(FakeClock):
    """A clock that advances by a millisecond whenever it is read."""

    def now_ns(self) -> int:
        """Return the time, and advance it."""
        self.advance(0.001)
        return super().now_ns()


if __name__ == "__main__":
    settings.SystemClock = TickingClock  # pyright: ignore[reportAttributeAccessIssue] -- a clock, too
    settings.UniqueIds = CountingIds  # pyright: ignore[reportAttributeAccessIssue] -- ids, too
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
