"""How often a tool or its source may be called."""

from dataclasses import dataclass

from agenttool.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """So many calls per second in the long run, and `burst` of them at once after a quiet time.

    A call that comes too soon waits, in order of arrival; one that would have to wait longer than `max_wait_s` is told
    at once to come back later.
    """

    per_second: float
    burst: int = 1
    max_wait_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse a limit that lets nothing through.

        Raises:
            ConfigError: a rate or burst that is not positive, or a wait that is negative.
        """
        if not self.per_second > 0 or self.burst < 1 or not self.max_wait_s >= 0:
            raise ConfigError(
                f"a rate limit must let something through, got {self!r}; "
                "use a rate above 0, a burst of 1 or more and a wait of 0 or more"
            )
