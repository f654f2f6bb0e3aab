"""Limiters: permits are shared fairly, and rates are bounded."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.http import limiter
from agenttool.http.limiter import (
    ConcurrencyLimiter,
    ConcurrencyLimits,
    RateLimiter,
    RequestKey,
)
from agenttool.ports.limits import RateLimit


def limits(total=4, per_owner=4, per_key=4, *, timeout_s=30.0, queue_timeout_s=None):
    return ConcurrencyLimits(
        total=total, per_owner=per_owner, per_key=per_key, timeout_s=timeout_s, queue_timeout_s=queue_timeout_s
    )


async def stall(limiter, key, events):
    """Hold a permit until its deadline; record how it ended."""
    try:
        async with limiter.limit(key):
            events.append("granted")
            await asyncio.Event().wait()
    except TimeoutError as error:
        events.append(str(error))


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_deadline_of_work_starts_when_its_permit_is_granted():
    shared, events = ConcurrencyLimiter(limits(total=1, timeout_s=0.05, queue_timeout_s=10)), []
    await asyncio.gather(*(stall(shared, RequestKey("a", each), events) for each in range(3)))
    assert events == ["granted", "no answer within 0.05 seconds"] * 3


async def test_waiting_for_a_permit_times_out():
    shared, events = ConcurrencyLimiter(limits(total=1, queue_timeout_s=0.02)), []
    stalled = asyncio.ensure_future(stall(shared, RequestKey("a", 0), events))
    await settled()
    with pytest.raises(TimeoutError, match=r"no permit within 0\.02 seconds"):
        async with shared.limit(RequestKey("b", 0)):
            pass
    await ended(stalled)
    async with shared.limit(RequestKey("b", 0)):
        assert not shared._waiting


async def test_the_next_permit_goes_to_the_owner_with_the_fewest():
    shared, order, gates = ConcurrencyLimiter(limits(total=4, per_owner=3, per_key=3)), [], {}

    async def take(owner, number):
        async with shared.limit(RequestKey(owner, 0)):
            order.append((owner, number))
            await gates.setdefault((owner, number), asyncio.Event()).wait()

    asked = [("greedy", each) for each in range(6)] + [("modest", 0), ("shy", 0), ("modest", 1)]
    tasks = [asyncio.ensure_future(take(*each)) for each in asked]
    await settled()
    assert order == [("greedy", 0), ("greedy", 1), ("greedy", 2), ("modest", 0)]
    gates["greedy", 0].set()
    await settled()
    gates["modest", 0].set()
    await settled()
    assert order[4:] == [("shy", 0), ("modest", 1)]
    await ended(*tasks)


async def test_a_target_that_stalls_leaves_room_for_other_targets_of_its_owner():
    shared, events = ConcurrencyLimiter(limits(total=4, per_owner=4, per_key=2)), []
    stalled = [asyncio.ensure_future(stall(shared, RequestKey("a", "slow"), events)) for _ in range(10)]
    await settled()
    assert events == ["granted", "granted"]
    async with asyncio.timeout(60), shared.limit(RequestKey("a", "quick")):
        await ended(*stalled)


_ASKED = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["answers", "stalls", "fails", "leaves"]))


async def make(shared, allowed, now, asked):
    """Make one request that ends as asked; count what holds a permit in everything that has a limit."""
    owner, target, ending = asked
    scopes = {"all": allowed.total, ("owner", owner): allowed.per_owner, asked[:2]: allowed.per_key}
    with suppress(TimeoutError, ConnectionError):
        async with shared.limit(RequestKey(owner, target)):
            now.update(list(scopes))
            try:
                assert all(now[scope] <= limit for scope, limit in scopes.items())
                await asyncio.sleep(0.001 if ending != "stalls" else 60)
                if ending == "fails":
                    raise ConnectionError
            finally:
                now.subtract(list(scopes))


async def made(allowed, asked):
    shared, now = ConcurrencyLimiter(allowed), Counter()
    tasks = [asyncio.ensure_future(make(shared, allowed, now, each)) for each in asked]
    await asyncio.sleep(0)
    for task, (_, _, ending) in zip(tasks, asked, strict=True):
        if ending == "leaves":
            task.cancel()
    async with asyncio.timeout(60):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
    assert (shared._total, shared._owners, shared._keys, bool(shared._waiting)) == (0, {}, {}, False)


@given(st.lists(_ASKED, max_size=40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_however_requests_end_limits_are_observed_and_no_permit_is_lost(asked, total, per_owner, per_key):
    asyncio.run(made(limits(total, per_owner, per_key, timeout_s=0.01), asked))


def test_a_burst_passes_and_then_the_rate_and_keys_are_independent():
    now = 0.0
    rates = RateLimiter(RateLimit(per_second=50, burst=500), lambda: now)
    assert not any(rates.take("a") for _ in range(500))
    assert [rates.take("a") for _ in range(3)] == [pytest.approx(0.02)] * 3
    assert rates.take("b") == 0.0
    now = 1.0
    assert [bool(rates.take("a")) for _ in range(52)] == [False] * 50 + [True] * 2
    now = 1000.0
    assert not any(rates.take("a") for _ in range(500))


def test_a_rate_limiter_tracks_a_limited_number_of_keys(monkeypatch):
    monkeypatch.setattr(limiter, "MAX_TRACKED_KEYS", 10)
    rates = RateLimiter(RateLimit(per_second=1), lambda: 0.0)
    for each in range(100):
        rates.take(str(each))
    assert len(rates._full_at) == 10
