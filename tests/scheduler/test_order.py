import asyncio
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import OrderingPolicy, SchedulerPolicy, YieldPolicy
from agenttool.scheduler.order import Delivery, Outlet, Sequencer, delivery_of

IN_ORDER = Delivery(serial=False, results_in_order=True, progress_held=False)
UNORDERED = Delivery(serial=False, results_in_order=False, progress_held=False)
ALL_HELD = Delivery(serial=False, results_in_order=True, progress_held=True)


def delivery(ordering, yielding):
    return delivery_of(SchedulerPolicy(scheduler_policy_id="s", ordering_policy=ordering, yield_policy=yielding))


@pytest.mark.parametrize(
    ("ordering", "yielding", "expected"),
    [
        (None, None, IN_ORDER),
        ("preserve_terminal_order", "progress_immediate_results_ordered", IN_ORDER),
        ("allow_unordered", "unordered_streaming", UNORDERED),
        ("allow_unordered", None, UNORDERED),
        (None, "unordered_streaming", UNORDERED),
        ("preserve_terminal_order", "unordered_streaming", IN_ORDER),
        ("allow_unordered", "progress_immediate_results_ordered", IN_ORDER),
        ("allow_unordered", "all_ordered", ALL_HELD),
        (None, "all_ordered", ALL_HELD),
        ("serial", "unordered_streaming", Delivery(serial=True, results_in_order=True, progress_held=False)),
        ("serial", "all_ordered", Delivery(serial=True, results_in_order=True, progress_held=True)),
    ],
)
def test_two_words_on_order_are_read_as_one_and_the_stricter_wins(ordering, yielding, expected):
    assert delivery(ordering, yielding) == expected


@pytest.mark.parametrize(("ordering", "yielding"), list(product([None, *OrderingPolicy], [None, *YieldPolicy])))
def test_unordered_is_allowed_only_if_somebody_says_so_and_nobody_objects(ordering, yielding):
    said = {ordering, yielding} - {None}
    allowed = bool(said) and said <= {"allow_unordered", "unordered_streaming"}
    assert delivery(ordering, yielding).results_in_order is not allowed


def test_progress_of_a_later_call_leaves_at_once_and_its_result_waits_for_the_earlier():
    sequencer = Sequencer(2, IN_ORDER)
    assert sequencer.progress(1, "1 begins") == ["1 begins"]
    assert sequencer.result(1, "1 done") == []
    assert sequencer.progress(0, "0 begins") == ["0 begins"]
    assert not sequencer.is_done
    assert sequencer.result(0, "0 done") == ["0 done", "1 done"]
    assert sequencer.is_done


def test_progress_is_held_back_until_its_call_is_next():
    sequencer = Sequencer(3, ALL_HELD)
    assert sequencer.progress(1, "1 begins") == []
    assert sequencer.progress(0, "0 begins") == ["0 begins"]
    assert sequencer.result(2, "2 done") == []
    assert sequencer.result(0, "0 done") == ["0 done", "1 begins"]
    assert sequencer.progress(1, "1 goes on") == ["1 goes on"]
    assert sequencer.result(1, "1 done") == ["1 done", "2 done"]


def test_where_order_does_not_matter_everything_leaves_at_once():
    sequencer = Sequencer(2, UNORDERED)
    assert sequencer.result(1, "1 done") == ["1 done"]
    assert not sequencer.is_done
    assert sequencer.result(0, "0 done") == ["0 done"]
    assert sequencer.is_done


@pytest.mark.parametrize("how", [IN_ORDER, UNORDERED, ALL_HELD])
def test_progress_that_comes_after_its_result_is_dropped(how):
    sequencer = Sequencer(2, how)
    sequencer.result(1, "1 done")
    assert sequencer.progress(1, "too late") == []


@pytest.mark.parametrize("call", [0, -1, 1])
def test_a_second_result_or_one_of_no_call_is_a_mistake(call):
    sequencer = Sequencer(1, UNORDERED)
    sequencer.result(0, "done")
    with pytest.raises(ValueError, match="each call has exactly one"):
        sequencer.result(call, "again")


@st.composite
def plays(draw):
    """What calls say, in any order in which they could have said it: their progress, then their result."""
    calls = draw(st.integers(1, 6))
    counts = [draw(st.integers(0, 3)) for _ in range(calls)]
    turns = draw(st.permutations([call for call in range(calls) for _ in range(counts[call] + 1)]))
    said, spoken = [0] * calls, []
    for call in turns:
        spoken.append((call, "result" if said[call] == counts[call] else said[call]))
        said[call] += 1
    return calls, spoken


@given(plays(), st.sampled_from([IN_ORDER, UNORDERED, ALL_HELD]))
def test_nothing_is_lost_and_order_in_is_order_out(play, how):
    calls, spoken = play
    sequencer, left = Sequencer(calls, how), []
    for call, what in spoken:
        take = sequencer.result if what == "result" else sequencer.progress
        left += take(call, (call, what))
    assert sequencer.is_done
    assert sorted(left, key=str) == sorted(spoken, key=str)
    for call in range(calls):
        assert [item for item in left if item[0] == call] == [item for item in spoken if item[0] == call]
    if how.results_in_order:
        assert [call for call, what in left if what == "result"] == list(range(calls))
    if how.progress_held:
        assert [call for call, _ in left] == sorted(call for call, _ in left)


def test_an_outlet_hands_out_early_and_ends_with_the_last_result():
    async def run():
        outlet, got = Outlet(2, IN_ORDER), []

        async def consume():
            got.extend([item async for item in outlet])

        async with asyncio.TaskGroup() as group:
            group.create_task(consume())
            await asyncio.sleep(0)
            outlet.progress(1, "1 begins")
            outlet.result(1, "1 done")
            await asyncio.sleep(0)
            outlet.progress(0, "0 begins")
            await asyncio.sleep(0)
            outlet.result(0, "0 done")
        return got

    assert asyncio.run(run()) == ["1 begins", "0 begins", "0 done", "1 done"]


def test_a_batch_of_nothing_is_over_at_once():
    async def run():
        return [item async for item in Outlet(0, IN_ORDER)]

    assert asyncio.run(run()) == []


def test_a_consumer_may_be_canceled_and_another_go_on():
    async def run():
        outlet = Outlet(1, IN_ORDER)
        first = asyncio.create_task(anext(outlet))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        outlet.result(0, "done")
        return [item async for item in outlet]

    assert asyncio.run(run()) == ["done"]
