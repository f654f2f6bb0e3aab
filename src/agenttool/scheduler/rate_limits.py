"""How often a tool or its source may be called."""

from collections.abc import Sequence

from agenttool.ports.limits import RateLimit
from agenttool.records import ErrorClass, Phase, Recoverability, RetryGuidance, ToolError


class TokenBucket:
    """The tokens of one tool or source, kept as the moment at which the bucket will be full again.

    That one number is all there is to a bucket: taking a token moves it on, waiting lets the clock catch up. Whoever
    takes one that is not there yet has a place in line.
    """

    __slots__ = ("_full_at", "_interval", "_room", "max_wait_s")

    def __init__(self, limit: RateLimit) -> None:
        """Start full."""
        self._interval = 1 / limit.per_second
        self._room = (limit.burst - 1) * self._interval
        self._full_at = float("-inf")
        self.max_wait_s = limit.max_wait_s

    def wait(self, now: float) -> float:
        """Give the seconds until there is a token; 0 means now."""
        return max(0.0, self._full_at - self._room - now)

    def take(self, now: float) -> None:
        """Take the next token, also one that is not there yet."""
        self._full_at = max(self._full_at, now) + self._interval

    def hold(self, now: float, seconds: float) -> None:
        """Let nothing through for a while: the source itself said `retry_after`."""
        self._full_at = max(self._full_at, now + seconds + self._room)


def reserve_tokens(buckets: Sequence[TokenBucket], now: float) -> float | None:
    """Take a place in every bucket, and give the seconds until it comes; none, and no place, if that is too long.

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
    """Say that a call came too soon; nothing has run, so it is safe to repeat."""
    return ToolError(
        error_class=ErrorClass.RATE_LIMITED,
        error_code="rate_limit",
        message=f"{name!r} is called too often; try again in {seconds:.3g} s",
        recoverability=Recoverability.RETRYABLE,
        retry_after=seconds,
        retry=RetryGuidance(safe=True),
        phase=Phase.SCHEDULE,
    )
