"""Limiters: permits are shared fairly, and rates are bounded."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap import limiter
from agenttool.adapters.rap.limiter import (
    ConcurrencyLimiter,
    ConcurrencyLimits,
    RateDecision,
    RateLimiter,
    RequestKey,
)
from agenttool.ports.limits import RateLimit


def shares(most=4, each=4, alike=4, *, within_s=30.0, wait_s=None, patience_s=0.02):
    return ConcurrencyLimits(
        total=most,
        per_owner=each,
        per_key=alike,
        timeout_s=within_s,
        queue_timeout_s=wait_s,
        preempt_after_s=patience_s,
    )


def errand(owner="a", place=0, *, address="192.0.2.1", yields=True):
    return RequestKey(owner, address, place, yields)


async def stall(shared, which, told):
    """Have a turn and let it stall; tell how it ended."""
    try:
        async with shared.limit(which):
            told.append("had")
            await asyncio.Event().wait()
    except TimeoutError as error:
        told.append(str(error))


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_turn_lasts_from_when_it_is_had():
    shared, told = ConcurrencyLimiter(shares(most=1, within_s=0.05, wait_s=10)), []
    tasks = [asyncio.ensure_future(stall(shared, errand(place=each, yields=False), told)) for each in range(3)]
    await asyncio.gather(*tasks)
    assert told == ["had", "no answer within 0.05 seconds"] * 3


async def test_waiting_for_a_permit_times_out():
    shared, told = ConcurrencyLimiter(shares(most=1, wait_s=0.02)), []
    stalled = asyncio.ensure_future(stall(shared, errand(yields=False), told))
    await settled()
    with pytest.raises(TimeoutError, match=r"no permit within 0\.02 seconds"):
        async with shared.limit(errand("b")):
            pass
    await ended(stalled)
    async with shared.limit(errand("b")):
        assert not shared._waiting


async def test_a_permit_without_an_answer_is_revoked_for_an_owner_with_none():
    shared, told = ConcurrencyLimiter(shares()), []
    stalled = [asyncio.ensure_future(stall(shared, errand(place=each), told)) for each in range(20)]
    await settled()
    async with shared.limit(errand("honest")):
        assert told.count("no answer for a while, and other requests waited") >= 1
    await ended(*stalled)


async def test_a_turn_that_does_not_yield_is_never_taken_back():
    shared, told = ConcurrencyLimiter(shares(most=2, wait_s=0.2)), []
    stalled = [asyncio.ensure_future(stall(shared, errand(place=each, yields=False), told)) for each in range(2)]
    await settled()
    with pytest.raises(TimeoutError, match="no permit"):
        async with shared.limit(errand("b")):
            pass
    assert told == ["had", "had"]
    await ended(*stalled)


async def test_a_slow_place_does_not_take_turns_from_itself():
    shared, told = ConcurrencyLimiter(shares(most=8, each=8, alike=2)), []
    slow = [asyncio.ensure_future(stall(shared, errand(), told)) for _ in range(5)]
    await asyncio.sleep(0.2)  # ten times as long as anybody is patient
    assert told == ["had", "had"]
    await ended(*slow)


async def test_what_stalled_is_tried_one_at_a_time_until_it_answers():
    shared, told = ConcurrencyLimiter(shares(most=8, each=8, within_s=0.05)), []
    await asyncio.gather(*(stall(shared, errand(), told) for _ in range(4)))
    assert told.count("had") == 4
    order = []

    async def take(number, done):
        async with shared.limit(errand()):
            order.append(number)
            await done.wait()

    gates = [asyncio.Event() for _ in range(4)]
    tasks = [asyncio.ensure_future(take(number, gate)) for number, gate in enumerate(gates)]
    async with asyncio.timeout(60):
        while not order:
            await settled()
        await settled()
        assert order == [0]
        gates[0].set()
        await settled()
        assert order == [0, 1, 2, 3]
        for gate in gates:
            gate.set()
        await asyncio.gather(*tasks)


async def test_the_next_permit_goes_to_the_owner_with_the_fewest():
    shared, order, gates = ConcurrencyLimiter(shares(most=4, each=3, alike=3)), [], {}

    async def take(owner, number):
        async with shared.limit(errand(owner, address=owner, yields=False)):
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


_ASKED = st.tuples(
    st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["answers", "stalls", "fails", "leaves"]), st.booleans()
)


async def make(shared, limits, now, asked):
    """Make one request that ends as told; whoever has a turn counts in everything that has a limit."""
    owner, place, ending, yields = asked
    scopes = {
        "all": limits.total,
        ("owner", owner): limits.per_owner,
        ("address", place % 2): limits.per_owner,
        asked[:2] + asked[3:]: limits.per_key,
    }
    with suppress(TimeoutError, ConnectionError):
        async with shared.limit(errand(owner, place, address=f"192.0.2.{place % 2}", yields=yields)):
            now.update(list(scopes))
            try:
                assert all(now[scope] <= limit for scope, limit in scopes.items())
                await asyncio.sleep(0.001 if ending != "stalls" else 60)
                if ending == "fails":
                    raise ConnectionError
            finally:
                now.subtract(list(scopes))


async def made(limits, asked):
    shared, now = ConcurrencyLimiter(limits), Counter()
    tasks = [asyncio.ensure_future(make(shared, limits, now, each)) for each in asked]
    await asyncio.sleep(0)
    for task, (_, _, ending, _) in zip(tasks, asked, strict=True):
        if ending == "leaves":
            task.cancel()
    async with asyncio.timeout(60):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
    assert (shared._held, dict(shared._counts), bool(shared._waiting)) == ({}, {}, False)


@given(st.lists(_ASKED, max_size=40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_however_requests_end_no_more_have_turns_than_may_and_each_ends_and_no_turn_is_lost(asked, most, each, alike):
    asyncio.run(made(shares(most, each, alike, within_s=0.01, patience_s=0.004), asked))


def test_a_burst_passes_and_then_the_rate_and_keys_are_independent():
    now = 0.0
    rates = RateLimiter(RateLimit(per_second=50, burst=500), lambda: now)
    assert all(not rates.take("a").wait_s for _ in range(500))
    rejected = [rates.take("a") for _ in range(3)]
    assert [each.is_first_rejection for each in rejected] == [True, False, False]
    assert all(each.wait_s == pytest.approx(0.02) for each in rejected)
    assert rates.take("b") == RateDecision(0.0)
    now = 1.0
    later = [rates.take("a") for _ in range(52)]
    assert [bool(each.wait_s) for each in later] == [False] * 50 + [True] * 2
    assert not any(each.is_first_rejection for each in later)
    now = 1000.0
    assert all(not rates.take("a").wait_s for _ in range(500))
    assert rates.take("a").is_first_rejection


def test_a_rate_limiter_tracks_a_limited_number_of_keys(monkeypatch):
    monkeypatch.setattr(limiter, "MAX_TRACKED_KEYS", 10)
    rates = RateLimiter(RateLimit(per_second=1), lambda: 0.0)
    for each in range(100):
        rates.take(str(each))
    assert len(rates._buckets) == 10


async def test_the_next_slot_goes_to_the_owner_with_the_fewest_and_no_slot_is_lost():
    slots, order = ConcurrencyLimiter(shares(2, 2, 2, within_s=None)), []
    held = [slots.slot("ada"), slots.slot("ada")]
    for each in held:
        await each.enter()

    async def enter(owner):
        async with slots.slot(owner):
            order.append(owner)

    waiting = [asyncio.ensure_future(enter(owner)) for owner in ("ada", "ada", "bob")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    held[0].leave()
    held[0].leave()
    await asyncio.wait(waiting)
    assert order == ["bob", "ada"]
    async with asyncio.timeout(60):
        await held[0].enter()
