"""The rate limit of a tool or of its source."""

from dataclasses import dataclass

from agenttool.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A token bucket: `per_second` calls on average, and up to `burst` at once after an idle time.

    A call over the limit waits, in order of arrival. A call that would wait longer than `max_wait_s` fails at once with
    a retryable error.
    """

    per_second: float
    burst: int = 1
    max_wait_s: float = 30.0

    def __post_init__(self) -> None:
        """Reject a limit that admits no call.

        Raises:
            ConfigError: a rate or burst that is not positive, or a wait that is negative.
        """
        if not self.per_second > 0 or self.burst < 1 or not self.max_wait_s >= 0:
            raise ConfigError(
                f"a rate limit must let something through, got {self!r}; "
                "use a rate above 0, a burst of 1 or more and a wait of 0 or more"
            )
