"""Limits on rates, concurrent work and open work, for the RAP client and the RAP provider.

`ConcurrencyLimiter` grants permits fairly. A permit counts in several scopes: in all, for its owner, for its address
and for its key. If a scope is full, the request waits, and the next permit goes to the owner that has the fewest. A
quarter of the permits is reserved for keys whose last request was answered. Preemptible permits that get no answer are
revoked when owners with fewer permits wait; the senders retry later.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, islice
from types import TracebackType
from typing import NamedTuple, Self

from agenttool.ports.limits import RateLimit

MAX_TRACKED_KEYS = 10_000
"""How many keys have a history; the least recently used ones are forgotten and count as new."""

_MAX_EXAMINED = 64
"""How many waiting keys are examined at a time, the oldest first."""

_ROUNDING_S = 1e-9


class RateDecision(NamedTuple):
    """Whether a key may proceed.

    Attributes:
        wait_s: 0 if it may; otherwise the seconds until it may.
        is_first_rejection: whether this is the first rejection since the bucket was last half full.
    """

    wait_s: float
    is_first_rejection: bool = False


class RateLimiter:
    """A token bucket for each key, stored as the time at which the bucket will be full again."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the rate and burst of each key, and a monotonic clock."""
        self._interval_s = 1 / limit.per_second
        self._burst_s = (limit.burst - 1) * self._interval_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, bool]] = OrderedDict()

    def take(self, key: str) -> RateDecision:
        """Take one token of a key, or none if the bucket is empty."""
        now = self._clock()
        full_at, was_rejected = self._buckets.pop(key, (now, False))
        wait_s = full_at - self._burst_s - now
        if wait_s > _ROUNDING_S:
            self._buckets[key] = (full_at, True)
        else:
            is_half_full = full_at - now <= self._burst_s / 2
            self._buckets[key] = (max(full_at, now) + self._interval_s, was_rejected and not is_half_full)
        if len(self._buckets) > MAX_TRACKED_KEYS:
            self._buckets.popitem(last=False)
        return RateDecision(0.0) if wait_s <= _ROUNDING_S else RateDecision(wait_s, not was_rejected)


class Quota:
    """Counts open items, in total and for each owner. An item counts once, however often it is acquired."""

    def __init__(self, total: int, per_owner: int) -> None:
        """Take how many items may be open."""
        self._total = total
        self._per_owner = per_owner
        self._items: Counter[Hashable] = Counter()
        self._owners: Counter[str] = Counter()

    def is_exhausted_for(self, owner: str) -> bool:
        """Return whether an owner may open no further item now."""
        return len(self._items) >= self._total or self._owners[owner] >= self._per_owner

    def acquire(self, item: Hashable, owner: str) -> None:
        """Count an item as open; callers that may be rejected check `is_exhausted_for` first."""
        self._items[item] += 1
        if self._items[item] == 1:
            self._owners[owner] += 1

    def release(self, item: Hashable, owner: str) -> None:
        """Undo one `acquire` of an item."""
        self._items[item] -= 1
        if not self._items[item]:
            del self._items[item]
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLimits:
    """The limits of a `ConcurrencyLimiter`.

    Attributes:
        total: permits in all.
        per_owner: permits of one owner, and permits for one address.
        per_key: permits of one `RequestKey`.
        timeout_s: how long `limit` lets the work take once it has its permit; None for no limit.
        queue_timeout_s: how long a request waits for its permit; None for no limit.
        preempt_after_s: after this time without an answer a preemptible permit may be revoked; None for never.
    """

    total: int
    per_owner: int
    per_key: int
    timeout_s: float | None
    queue_timeout_s: float | None
    preempt_after_s: float | None = 1.0


class RequestKey(NamedTuple):
    """What identifies requests of one kind; requests with equal keys wait behind each other.

    Attributes:
        owner: on whose behalf the request is made.
        address: the network address that it goes to; several origins may share one.
        origin: the host and port of its URL.
        is_preemptible: whether its permit may be revoked, because the sender will retry.
    """

    owner: Hashable
    address: str
    origin: Hashable
    is_preemptible: bool = False


class ConcurrencyPermit:
    """Permission to run one request, or the wait for it.

    Attributes:
        key: what the permit is for.
        granted: completed when a waiting request gets its permit.
        scopes: the scopes that the permit counts in.
        since: the loop time at which it was granted.
        timeout: the deadline of the work.
        is_revoked: whether it was taken away for another owner.
    """

    __slots__ = ("granted", "is_revoked", "key", "scopes", "since", "timeout")

    def __init__(self, key: RequestKey) -> None:
        """Take what the permit is for."""
        self.key = key
        self.granted: asyncio.Future[None] | None = None
        self.scopes: tuple[Hashable, ...] = ()
        self.since = 0.0
        self.timeout: asyncio.Timeout | None = None
        self.is_revoked = False

    def revoke(self) -> None:
        """End the work now, by its deadline."""
        if self.timeout is not None:
            self.is_revoked = True
            self.timeout.reschedule(asyncio.get_running_loop().time())


_Queue = deque[ConcurrencyPermit]
_NO_QUEUES: OrderedDict[RequestKey, _Queue] = OrderedDict()


class ConcurrencyLimiter:
    """Grants permits to requests, and revokes them.

    Waiting permits are in one queue for each key. The queues of an owner are in two groups, by whether the last request
    of the key was answered; groups are served in turn, and so are the queues of a group.
    """

    def __init__(self, limits: ConcurrencyLimits) -> None:
        """Take the limits."""
        self._limits = limits
        self._held: dict[ConcurrencyPermit, None] = {}
        self._counts: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[tuple[Hashable, bool], OrderedDict[RequestKey, _Queue]] = OrderedDict()
        self._is_answering: OrderedDict[RequestKey, bool] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def limit(self, key: RequestKey) -> AsyncGenerator[None]:
        """Hold a permit during a block of work, which is canceled at its deadline.

        Raises:
            TimeoutError: no permit was granted in time, the work took too long, or the permit was revoked.
        """
        permit = await self.acquire(key)
        try:
            async with asyncio.timeout(self._limits.timeout_s) as permit.timeout:
                yield
        except TimeoutError:
            self._note_outcome(key, is_answering=False)
            if permit.is_revoked:
                raise TimeoutError("no answer for a while, and other requests waited") from None
            raise TimeoutError(f"no answer within {self._limits.timeout_s:g} seconds") from None
        else:
            self._note_outcome(key, is_answering=True)
        finally:
            self.release(permit)

    async def acquire(self, key: RequestKey) -> ConcurrencyPermit:
        """Return a permit, once there is one; the caller must `release` it.

        Raises:
            TimeoutError: none was granted in time.
        """
        permit = ConcurrencyPermit(key)
        if self._full_scopes(key):
            await self._wait(permit)
        else:
            self._grant(permit)
        return permit

    def release(self, permit: ConcurrencyPermit) -> None:
        """Return a permit, and grant waiting requests theirs."""
        del self._held[permit]
        self._counts.subtract(permit.scopes)
        for scope in permit.scopes:
            if not self._counts[scope]:
                del self._counts[scope]
        self._grant_waiting()

    def slot(self, owner: str) -> "ConcurrencySlot":
        """Return a slot for work of an owner, which can be left and entered again."""
        return ConcurrencySlot(self, owner)

    async def _wait(self, permit: ConcurrencyPermit) -> None:
        self._enqueue(permit.key, [permit])
        permit.granted = asyncio.get_running_loop().create_future()
        self._start_timer()
        try:
            async with asyncio.timeout(self._limits.queue_timeout_s):
                await permit.granted
        except TimeoutError:
            self._withdraw(permit)
            raise TimeoutError(f"no permit within {self._limits.queue_timeout_s:g} seconds") from None
        except BaseException:
            self._withdraw(permit)
            raise

    def _withdraw(self, permit: ConcurrencyPermit) -> None:
        """Remove a permit that its request no longer waits for; it may have been granted at the same moment."""
        if permit in self._held:
            self.release(permit)
            return
        queue = self._waiting.get(self._group_of(permit.key), _NO_QUEUES).get(permit.key)
        if queue is not None and permit in queue:
            queue.remove(permit)
            if not queue:
                self._dequeue(permit.key)

    def _group_of(self, key: RequestKey) -> tuple[Hashable, bool]:
        return key.owner, self._is_answering.get(key, False)

    def _enqueue(self, key: RequestKey, permits: Iterable[ConcurrencyPermit]) -> None:
        """Add permits to the queue of their key; a new queue is behind the others of its group."""
        queue = deque(permits)
        if queue:
            self._waiting.setdefault(self._group_of(key), OrderedDict()).setdefault(key, deque()).extend(queue)

    def _dequeue(self, key: RequestKey) -> _Queue:
        """Remove and return the queue of a key; its group moves behind the others."""
        group = self._group_of(key)
        queues = self._waiting.get(group, _NO_QUEUES)
        if key not in queues:
            return deque()
        queue = queues.pop(key)
        self._waiting.move_to_end(group)
        if not queues:
            del self._waiting[group]
        return queue

    def _grant(self, permit: ConcurrencyPermit) -> None:
        permit.since = asyncio.get_running_loop().time()
        permit.scopes = tuple(self._scope_limits(permit.key))
        self._counts.update(permit.scopes)
        self._held[permit] = None

    def _grant_waiting(self) -> None:
        """Grant permits while there is room; after each, the rest of its queue moves behind all others."""
        while self._waiting and (key := self._next_key()) is not None:
            queue = self._dequeue(key)
            permit = queue.popleft()
            if permit.granted is not None and not permit.granted.done():  # otherwise its request was just canceled
                self._grant(permit)
                permit.granted.set_result(None)
            self._enqueue(key, queue)

    def _next_key(self) -> RequestKey | None:
        """Return a waiting key that has room and whose owner holds the fewest permits."""
        found, fewest = None, self._limits.per_owner
        for (owner, _), queues in self._waiting.items():
            held = self._counts["owner", owner]
            if held < fewest:
                key = next((each for each in islice(queues, _MAX_EXAMINED) if not self._full_scopes(each)), None)
                found, fewest = (found, fewest) if key is None else (key, held)
        return found

    def _scope_limits(self, key: RequestKey) -> dict[Hashable, int]:
        """Return the scopes of a key and their limits; a key that timed out last gets one permit at a time."""
        limits, is_answering = self._limits, self._is_answering.get(key)
        scopes: dict[Hashable, int] = {
            "all": limits.total,
            ("owner", key.owner): limits.per_owner,
            ("address", key.address): limits.per_owner,
            key: 1 if is_answering is False else limits.per_key,
        }
        if key.is_preemptible and not is_answering:
            scopes["unproven"] = max(1, limits.total * 3 // 4)
            scopes["unproven", key.owner] = max(1, limits.per_owner * 3 // 4)
        return scopes

    def _full_scopes(self, key: RequestKey) -> set[Hashable]:
        """Return the scopes that have no room for a key."""
        return {scope for scope, limit in self._scope_limits(key).items() if self._counts[scope] >= limit}

    def _start_timer(self) -> None:
        preempt_after_s = self._limits.preempt_after_s
        if preempt_after_s is not None and self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(preempt_after_s / 4, self._preempt, preempt_after_s)

    def _preempt(self, after_s: float) -> None:
        """Revoke permits for waiting keys: for each, the oldest one that makes room for it."""
        self._timer = None
        before = asyncio.get_running_loop().time() - after_s
        idle = [each for each in self._held if each.since <= before and each.key.is_preemptible and not each.is_revoked]
        groups = sorted(self._waiting.items(), key=lambda each: (self._counts["owner", each[0][0]], not each[0][1]))
        for key in islice(chain.from_iterable(queues for _, queues in groups), _MAX_EXAMINED):
            full, weight = self._full_scopes(key), self._weight(key)
            found = (each for each in idle if full.issubset(each.scopes) and self._weight(each.key) > weight)
            permit = next(found, None)
            if permit is not None:
                idle.remove(permit)
                permit.revoke()
        self._start_timer()

    def _weight(self, key: RequestKey) -> tuple[int, int]:
        return self._counts["owner", key.owner], self._counts[key]

    def _note_outcome(self, key: RequestKey, *, is_answering: bool) -> None:
        """Record whether the last request of a key was answered; forget the least recently used key beyond a limit."""
        if is_answering or key.is_preemptible:
            self._regroup(key, is_answering=is_answering)
        if len(self._is_answering) > MAX_TRACKED_KEYS:
            self._regroup(next(iter(self._is_answering)), is_answering=None)

    def _regroup(self, key: RequestKey, *, is_answering: bool | None) -> None:
        queue = self._dequeue(key)
        self._is_answering.pop(key, None)
        if is_answering is not None:
            self._is_answering[key] = is_answering
        self._enqueue(key, queue)


class ConcurrencySlot:
    """A permit of one owner that can be left and entered again, for example while a function waits for its user."""

    def __init__(self, limiter: ConcurrencyLimiter, owner: str) -> None:
        """Take the limiter and the owner."""
        self._limiter = limiter
        self._key = RequestKey(owner, owner, None)
        self._permit: ConcurrencyPermit | None = None

    async def enter(self) -> None:
        """Wait for a permit and hold it."""
        self._permit = await self._limiter.acquire(self._key)

    def leave(self) -> None:
        """Release the permit, if one is held."""
        if self._permit is not None:
            permit, self._permit = self._permit, None
            self._limiter.release(permit)

    async def __aenter__(self) -> Self:
        """Enter the slot."""
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the slot."""
        self.leave()
