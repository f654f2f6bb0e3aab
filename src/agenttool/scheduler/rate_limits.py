"""Rate limits of tools and sources."""

from collections.abc import Sequence

from agenttool.ports.limits import RateLimit
from agenttool.records import ErrorClass, Phase, ToolError


class TokenBucket:
    """A token bucket of one tool or source, stored as the time at which it will be full again.

    Taking a token moves that time forward. A token may be taken before it is available, which reserves it.
    """

    __slots__ = ("_full_at", "_interval", "_room", "max_wait_s")

    def __init__(self, limit: RateLimit) -> None:
        """Start full."""
        self._interval = 1 / limit.per_second
        self._room = (limit.burst - 1) * self._interval
        self._full_at = float("-inf")
        self.max_wait_s = limit.max_wait_s

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token; 0 means now."""
        return max(0.0, self._full_at - self._room - now)

    def take(self, now: float) -> None:
        """Take the next token, even if it is not available yet."""
        self._full_at = max(self._full_at, now) + self._interval

    def hold(self, now: float, seconds: float) -> None:
        """Block all calls for a time, because the source answered with `retry_after`."""
        self._full_at = max(self._full_at, now + seconds + self._room)


def reserve_tokens(buckets: Sequence[TokenBucket], now: float) -> float | None:
    """Reserve a token in every bucket; return the seconds until they are available, or None if that is too long.

    A tool's buckets, its own and its source's, are found once when it is declared; most tools have none.
    """
    seconds = 0.0
    for bucket in buckets:
        wait = bucket.wait(now)
        if wait > bucket.max_wait_s:
            return None
        seconds = max(seconds, wait)
    for bucket in buckets:
        bucket.take(now)
    return seconds


def rate_limited(name: str, seconds: float) -> ToolError:
    """Return the error of a call over its rate limit; nothing has run, so a retry is safe."""
    return ToolError(
        error_class=ErrorClass.RATE_LIMITED,
        error_code="rate_limit",
        message=f"{name!r} is called too often; try again in {seconds:.3g} s",
        retry_after=seconds,
        phase=Phase.SCHEDULE,
    )
