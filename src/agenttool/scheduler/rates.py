"""How often a tool or its source may be called."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenttool.errors import ConfigError
from agenttool.records import ErrorClass, Phase, Recoverability, RetryGuidance, ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """So many calls per second in the long run, and `burst` of them at once after a quiet time."""

    per_second: float
    burst: int = 1

    def __post_init__(self) -> None:
        """Refuse a limit that lets nothing through.

        Raises:
            ConfigError: a rate or burst that is not positive.
        """
        if not self.per_second > 0 or self.burst < 1:
            raise ConfigError(
                f"a rate limit must let something through, got {self!r}; use a rate above 0 and a burst of 1 or more"
            )


class Bucket:
    """The tokens of one tool or source, kept as the moment at which the bucket will be full again.

    That one number is all there is to a bucket: taking a token moves it on, waiting lets the clock catch up.
    """

    __slots__ = ("_full_at", "_interval", "_room")

    def __init__(self, limit: RateLimit) -> None:
        """Start full."""
        self._interval = 1 / limit.per_second
        self._room = (limit.burst - 1) * self._interval
        self._full_at = float("-inf")

    def wait(self, now: float) -> float:
        """Give the seconds until there is a token; 0 means now."""
        return max(0.0, self._full_at - self._room - now)

    def take(self, now: float) -> None:
        """Take a token that `wait` said is there."""
        self._full_at = max(self._full_at, now) + self._interval

    def hold(self, now: float, seconds: float) -> None:
        """Let nothing through for a while: the source itself said `retry_after`."""
        self._full_at = max(self._full_at, now + seconds + self._room)


def take_or_wait(buckets: Sequence[Bucket], now: float) -> float:
    """Take a token from each bucket, or none from any and give the seconds to wait.

    A tool's buckets, its own and its source's, are found once when it is declared; most tools have none.
    """
    seconds = 0.0
    for bucket in buckets:
        seconds = max(seconds, bucket.wait(now))
    if not seconds:
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
        phase=Phase.EXECUTE,
    )
