"""How much one caller may ask for, and how much one request may bring along."""

import time
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from agenttool.adapters.rap.turns import Shares
from agenttool.errors import ConfigError
from agenttool.ports.limits import RateLimit
from agenttool.scheduler.rate_limits import TokenBucket

MAX_CALLERS = 10_000
"""How many callers' rates are kept; the ones that were quiet longest are let go."""

_MAX_ALIKE = 16
"""So many deliveries for one caller to one place at a time."""

_OFTEN = RateLimit(per_second=100, burst=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a provider.

    Attributes:
        calls: per caller; what comes too often is accepted, and answered by an error result that says when to retry.
            As many malformed calls may come, and as many of those errors go out; beyond it nothing is accepted for now.
        notices: cancellations and closures per caller; beyond it they are answered, and not looked at.
        max_body_bytes: of one request.
        max_open: how many calls may be under way altogether, or have messages that nobody has taken yet; beyond it
            none is accepted for now.
        max_open_per_caller: how many of those may be one caller's, so that none takes the room of all.
        max_running: how many functions run at a time; the others wait their turn, and whoever has the fewest is next.
        max_running_per_caller: how many of those may be one caller's, so that slow ones leave room for the others.
        max_deliveries: how many messages are on their way to runtimes at a time; the others wait their turn.
        max_deliveries_per_caller: how many of those may be one caller's, and how many may go to one address. Where
            callers are not known, who is behind one address counts as one.
        delivery_s: how long one may take, from when it has its turn. Turns that got no answer for a second are taken
            back for others who wait and have fewer, and are tried again.
        body_s: how long a request may take to arrive.
        keep_s: how long a call is remembered after its end, so that a repeated invocation does not run again. A runtime
            that comes back may repeat one for as long as its callback URL holds; ours holds for 30 days.
        give_up_s: how long a message is tried that nobody takes.
        migrate_s: how long a migration may take.
        events_per_second: of one subscription; the rest wait.
        max_events: how many published events of one subscription may wait; then it ends, and its runtime is told why.
    """

    calls: RateLimit = _OFTEN
    notices: RateLimit = _OFTEN
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
        """Refuse limits by which nothing would ever run, or be delivered.

        Raises:
            ConfigError: says which.
        """
        for name in ("max_deliveries", "max_deliveries_per_caller", "delivery_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, or nothing is delivered; raise it")
        for name in ("max_running", "max_running_per_caller"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0, or nothing runs; raise it")

    @property
    def shares(self) -> Shares:
        """How deliveries share their turns."""
        each = min(self.max_deliveries, self.max_deliveries_per_caller)
        return Shares(
            most=self.max_deliveries, each=each, alike=min(each, _MAX_ALIKE), within_s=self.delivery_s, wait_s=None
        )


class Rates:
    """One bucket for each caller."""

    def __init__(self, limit: RateLimit) -> None:
        """Take the limit that each caller has."""
        self._limit = limit
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def wait_of(self, caller: str) -> float:
        """Take a token, and give 0; or take none, and give the seconds until there is one."""
        now = time.monotonic()
        bucket = self._buckets.pop(caller, None) or TokenBucket(self._limit)
        self._buckets[caller] = bucket
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        wait = bucket.wait(now)
        if not wait:
            bucket.take(now)
        return wait


class Room:
    """How much is under way, in all and for each caller: calls, and messages about them that nobody has taken yet.

    Whatever is held is held by name, and counts once, however many hold it.
    """

    def __init__(self, limits: Limits) -> None:
        """Take how much there may be."""
        self._most = limits.max_open
        self._most_each = limits.max_open_per_caller
        self._held: Counter[Hashable] = Counter()
        self._each: Counter[str] = Counter()

    def is_full_for(self, caller: str) -> bool:
        """Tell whether nothing more is accepted of a caller for now."""
        return len(self._held) >= self._most or self._each[caller] >= self._most_each

    def enter(self, name: Hashable, caller: str) -> None:
        """Take room; asking first is for whoever may be turned away."""
        self._held[name] += 1
        if self._held[name] == 1:
            self._each[caller] += 1

    def leave(self, name: Hashable, caller: str) -> None:
        """Give it back."""
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
            self._each[caller] -= 1
            if not self._each[caller]:
                del self._each[caller]
