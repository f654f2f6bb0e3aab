"""Turns are shared fairly: whoever lets them stall holds up nobody but itself, and none is ever lost."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap import turns
from agenttool.adapters.rap.turns import Shares, Turns
from agenttool.adapters.rap.waiting import Errand


def shares(most=4, each=4, alike=4, *, within_s=30.0, wait_s=None, patience_s=0.02):
    return Shares(most=most, each=each, alike=alike, within_s=within_s, wait_s=wait_s, patience_s=patience_s)


def errand(owner="a", place=0, *, address="192.0.2.1", yields=True):
    return Errand(owner, address, place, yields)


async def stall(shared, which, told):
    """Have a turn and let it stall; tell how it ended."""
    try:
        async with shared.take(which):
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
    shared, told = Turns(shares(most=1, within_s=0.05, wait_s=10)), []
    tasks = [asyncio.ensure_future(stall(shared, errand(place=each, yields=False), told)) for each in range(3)]
    await asyncio.gather(*tasks)
    assert told == ["had", "no answer within 0.05 seconds"] * 3


async def test_nobody_waits_longer_for_a_turn_than_allowed():
    shared, told = Turns(shares(most=1, wait_s=0.02)), []
    stalled = asyncio.ensure_future(stall(shared, errand(yields=False), told))
    await settled()
    with pytest.raises(TimeoutError, match=r"no turn within 0\.02 seconds"):
        async with shared.take(errand("b")):
            pass
    await ended(stalled)
    async with shared.take(errand("b")):
        assert not shared._waiting


async def test_a_turn_that_stalls_is_taken_back_for_whoever_has_none():
    shared, told = Turns(shares()), []
    stalled = [asyncio.ensure_future(stall(shared, errand(place=each), told)) for each in range(20)]
    await settled()
    async with shared.take(errand("honest")):
        assert told.count("no answer for a while, and others waited") >= 1
    await ended(*stalled)


async def test_a_turn_that_does_not_yield_is_never_taken_back():
    shared, told = Turns(shares(most=2, wait_s=0.2)), []
    stalled = [asyncio.ensure_future(stall(shared, errand(place=each, yields=False), told)) for each in range(2)]
    await settled()
    with pytest.raises(TimeoutError, match="no turn"):
        async with shared.take(errand("b")):
            pass
    assert told == ["had", "had"]
    await ended(*stalled)


async def test_a_slow_place_does_not_take_turns_from_itself():
    shared, told = Turns(shares(most=8, each=8, alike=2)), []
    slow = [asyncio.ensure_future(stall(shared, errand(), told)) for _ in range(5)]
    await asyncio.sleep(0.2)  # ten times as long as anybody is patient
    assert told == ["had", "had"]
    await ended(*slow)


async def test_what_stalled_is_tried_one_at_a_time_until_it_answers(monkeypatch):
    monkeypatch.setattr(turns, "FIRST_REST_S", 0.0)
    shared, told = Turns(shares(most=8, each=8, within_s=0.05)), []
    await asyncio.gather(*(stall(shared, errand(), told) for _ in range(4)))
    assert told.count("had") == 4
    order = []

    async def take(number, done):
        async with shared.take(errand()):
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


async def test_the_next_turn_goes_to_whoever_has_the_fewest():
    shared, order, gates = Turns(shares(most=4, each=3, alike=3)), [], {}

    async def take(owner, number):
        async with shared.take(errand(owner, address=owner, yields=False)):
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
        "all": limits.most,
        ("owner", owner): limits.each,
        ("address", place % 2): limits.each,
        asked[:2] + asked[3:]: limits.alike,
    }
    with suppress(TimeoutError, ConnectionError):
        async with shared.take(errand(owner, place, address=f"192.0.2.{place % 2}", yields=yields)):
            now.update(list(scopes))
            try:
                assert all(now[scope] <= limit for scope, limit in scopes.items())
                await asyncio.sleep(0.001 if ending != "stalls" else 60)
                if ending == "fails":
                    raise ConnectionError
            finally:
                now.subtract(list(scopes))


async def made(limits, asked):
    shared, now = Turns(limits), Counter()
    tasks = [asyncio.ensure_future(make(shared, limits, now, each)) for each in asked]
    await asyncio.sleep(0)
    for task, (_, _, ending, _) in zip(tasks, asked, strict=True):
        if ending == "leaves":
            task.cancel()
    async with asyncio.timeout(60):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
    assert (shared._held, dict(shared._counts), bool(shared._waiting)) == ({}, {}, False)
    assert not any(shared._resting.values())


@given(st.lists(_ASKED, max_size=40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_however_requests_end_no_more_have_turns_than_may_and_each_ends_and_no_turn_is_lost(asked, most, each, alike):
    with pytest.MonkeyPatch.context() as hurry:
        hurry.setattr(turns, "FIRST_REST_S", 0.001)
        hurry.setattr(turns, "LONGEST_REST_S", 0.01)
        asyncio.run(made(shares(most, each, alike, within_s=0.01, patience_s=0.004), asked))
