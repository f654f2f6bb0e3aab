"""The limits of a provider."""

from dataclasses import dataclass

from agenttool.errors import ConfigError
from agenttool.http.limiter import ConcurrencyLimits
from agenttool.ports.limits import RateLimit

_MAX_DELIVERIES_PER_KEY = 16
"""The concurrent deliveries of one caller to one endpoint."""

_DEFAULT_RATE = RateLimit(per_second=100, burst=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a provider.

    Attributes:
        calls: per caller; calls beyond it are accepted and answered with an error result that says when to retry. The
            same rate limits malformed calls and these errors; beyond that, calls are rejected with 503.
        notices: cancellations and closures per caller; those beyond it are acknowledged and ignored.
        max_body_bytes: of one request.
        max_open: how many calls may be running or have undelivered messages; beyond it calls are rejected with 503.
        max_open_per_caller: how many of those may be one caller's.
        max_running: how many functions run at a time; the others wait, and the caller with the fewest is next.
        max_running_per_caller: how many of those may be one caller's.
        max_deliveries: how many messages are sent at a time; the others wait.
        max_deliveries_per_caller: how many of those may be one caller's. Without authentication, each host counts as
            one caller.
        delivery_s: how long one delivery may take.
        body_s: how long the body of a request may take to arrive.
        keep_s: how long a settled call is stored, so that a repeated invocation does not run again. A runtime may
            repeat one for as long as its callback URL is valid, which is 30 days for this project's runtime.
        give_up_s: how long the delivery of a message is retried.
        migrate_s: how long a migration may take.
        events_per_second: of one subscription.
        max_events: how many published events of one subscription may be undelivered; then it ends with an error.
    """

    calls: RateLimit = _DEFAULT_RATE
    notices: RateLimit = _DEFAULT_RATE
    max_body_bytes: int = 1_000_000
    max_open: int = 10_000
    max_open_per_caller: int = 5_000
    max_running: int = 256
    max_running_per_caller: int = 192
    max_deliveries: int = 256
    max_deliveries_per_caller: int = 64
    delivery_s: float = 15.0
    body_s: float = 30.0
    keep_s: float = 31 * 86_400.0
    give_up_s: float = 7 * 86_400.0
    migrate_s: float = 600.0
    events_per_second: float = 20.0
    max_events: int = 1_000

    def __post_init__(self) -> None:
        """Reject limits by which nothing would ever run or be delivered.

        Raises:
            ConfigError: names the limit.
        """
        runs, is_delivered = ("max_running", "max_running_per_caller"), ("max_deliveries", "max_deliveries_per_caller")
        for name in (*runs, *is_delivered, "delivery_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, or nothing runs or is delivered; raise it")

    @property
    def delivery_limits(self) -> ConcurrencyLimits:
        """The limits on concurrent deliveries."""
        per_owner = min(self.max_deliveries, self.max_deliveries_per_caller)
        return ConcurrencyLimits(
            total=self.max_deliveries,
            per_owner=per_owner,
            per_key=min(per_owner, _MAX_DELIVERIES_PER_KEY),
            timeout_s=self.delivery_s,
        )

    @property
    def running_limits(self) -> ConcurrencyLimits:
        """The limits on concurrent functions."""
        return ConcurrencyLimits(total=self.max_running, per_owner=self.max_running_per_caller)
