import asyncio
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import (
    ContextModifierPolicy,
    OrderingPolicy,
    ResultStatus,
    SchedulerPolicy,
    SiblingFailurePolicy,
    YieldPolicy,
)
from agenttool.scheduler.batch_order import (
    Delivery,
    ModifierOutcome,
    OrderedStream,
    Readiness,
    delivery_of,
    modifier_outcome,
    siblings_of,
    strictest_modifier_policy,
)

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
def test_unordered_is_allowed_only_if_one_asks_for_it_and_none_objects(ordering, yielding):
    said = {ordering, yielding} - {None}
    allowed = bool(said) and said <= {"allow_unordered", "unordered_streaming"}
    assert delivery(ordering, yielding).results_in_order is not allowed


def test_progress_of_a_later_call_leaves_at_once_and_its_result_waits_for_the_earlier():
    sequencer = OrderedStream(2, IN_ORDER)
    assert sequencer.progress(1, "1 begins") == ["1 begins"]
    assert sequencer.result(1, "1 done") == []
    assert sequencer.progress(0, "0 begins") == ["0 begins"]
    assert not sequencer.is_done
    assert sequencer.result(0, "0 done") == ["0 done", "1 done"]
    assert sequencer.is_done


def test_progress_is_held_back_until_its_call_is_next():
    sequencer = OrderedStream(3, ALL_HELD)
    assert sequencer.progress(1, "1 begins") == []
    assert sequencer.progress(0, "0 begins") == ["0 begins"]
    assert sequencer.result(2, "2 done") == []
    assert sequencer.result(0, "0 done") == ["0 done", "1 begins"]
    assert sequencer.progress(1, "1 goes on") == ["1 goes on"]
    assert sequencer.result(1, "1 done") == ["1 done", "2 done"]


def test_where_order_does_not_matter_everything_leaves_at_once():
    sequencer = OrderedStream(2, UNORDERED)
    assert sequencer.result(1, "1 done") == ["1 done"]
    assert not sequencer.is_done
    assert sequencer.result(0, "0 done") == ["0 done"]
    assert sequencer.is_done


@pytest.mark.parametrize("how", [IN_ORDER, UNORDERED, ALL_HELD])
def test_progress_that_comes_after_its_result_is_dropped(how):
    sequencer = OrderedStream(2, how)
    sequencer.result(1, "1 done")
    assert sequencer.progress(1, "too late") == []


@pytest.mark.parametrize("call", [0, -1, 1])
def test_a_second_result_or_one_of_no_call_is_a_mistake(call):
    sequencer = OrderedStream(1, UNORDERED)
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
    sequencer, left = OrderedStream(calls, how), []
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
        outlet, got = OrderedStream(2, IN_ORDER), []

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
        return [item async for item in OrderedStream(0, IN_ORDER)]

    assert asyncio.run(run()) == []


def test_a_consumer_may_be_canceled_and_another_continues():
    async def run():
        outlet = OrderedStream(1, IN_ORDER)
        first = asyncio.create_task(anext(outlet))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        outlet.result(0, "done")
        return [item async for item in outlet]

    assert asyncio.run(run()) == ["done"]


IGNORE, CANCEL_SIBLINGS, CANCEL_DEPENDENT = SiblingFailurePolicy
FAILED, OK, CANCELED = ResultStatus.FAILED, ResultStatus.SUCCEEDED, ResultStatus.CANCELED
CHAIN = {"a": (), "b": ("a",), "c": ("b",), "d": ()}


@pytest.mark.parametrize(
    ("policy", "status", "taken"),
    [
        (IGNORE, FAILED, ()),
        (CANCEL_DEPENDENT, FAILED, ("b", "c")),
        (CANCEL_SIBLINGS, FAILED, ("b", "c", "d")),
        (CANCEL_DEPENDENT, CANCELED, ("b", "c")),
        (CANCEL_SIBLINGS, CANCELED, ("b", "c")),
        (CANCEL_SIBLINGS, ResultStatus.DENIED, ("b", "c", "d")),
        (CANCEL_SIBLINGS, ResultStatus.TIMED_OUT, ("b", "c", "d")),
        (CANCEL_SIBLINGS, OK, ()),
        (CANCEL_DEPENDENT, ResultStatus.PARTIAL_SUCCEEDED, ()),
        (None, FAILED, ()),
    ],
)
def test_whose_end_takes_whom_along(policy, status, taken):
    assert siblings_of(CHAIN, policy).canceled_by("a", status, ["a", "b", "c", "d"]) == taken


def test_no_finished_call_is_canceled():
    assert siblings_of(CHAIN, CANCEL_SIBLINGS).canceled_by("a", FAILED, ["d"]) == ("d",)
    assert siblings_of(CHAIN, CANCEL_DEPENDENT).canceled_by("a", FAILED, ["d"]) == ()


def test_a_dependent_starts_only_after_all_that_it_depends_on():
    batch = siblings_of({0: (), 1: (), 2: (0, 1)}, CANCEL_DEPENDENT)
    assert batch.readiness(0, {}) is Readiness.GO
    assert batch.readiness(2, {0: OK}) is Readiness.WAIT
    assert batch.readiness(2, {0: OK, 1: OK}) is Readiness.GO


@pytest.mark.parametrize(
    ("policy", "readiness"),
    [(IGNORE, Readiness.GO), (CANCEL_SIBLINGS, Readiness.CANCEL), (CANCEL_DEPENDENT, Readiness.CANCEL)],
)
def test_a_failed_dependency_cancels_unless_failures_are_ignored(policy, readiness):
    assert siblings_of(CHAIN, policy).readiness("b", {"a": FAILED}) is readiness


def test_a_dependent_need_not_wait_for_the_rest_to_be_canceled():
    batch = siblings_of({0: (), 1: (), 2: (0, 1)}, CANCEL_DEPENDENT)
    assert batch.readiness(2, {0: FAILED}) is Readiness.CANCEL
    assert siblings_of({0: (), 1: (), 2: (0, 1)}).readiness(2, {0: FAILED}) is Readiness.WAIT


@pytest.mark.parametrize(
    ("depends_on", "reason"),
    [
        ({"a": ("b",), "b": ("a",)}, "in a circle"),
        ({"a": ("a",)}, "in a circle"),
        ({"a": ("stranger",)}, "not in its batch"),
    ],
)
def test_a_batch_that_could_never_end_is_refused(depends_on, reason):
    with pytest.raises(ValueError, match=reason):
        siblings_of(depends_on)


batches = st.integers(1, 8).flatmap(
    lambda calls: st.tuples(*(st.sets(st.integers(0, max(0, call - 1)), max_size=call) for call in range(calls)))
)


@given(batches, st.sampled_from(SiblingFailurePolicy), st.sets(st.integers(0, 7)), st.randoms())
def test_every_batch_ends_whatever_fails_and_in_any_order(needed, policy, failing, random):
    depends_on = {call: others - {call} for call, others in enumerate(needed)}
    batch, ended = siblings_of(depends_on, policy), {}
    while len(ended) < len(depends_on):
        unfinished = [call for call in depends_on if call not in ended]
        ready = [call for call in unfinished if batch.readiness(call, ended) is not Readiness.WAIT]
        call = random.choice(ready)
        if batch.readiness(call, ended) is Readiness.CANCEL:
            ended[call] = ResultStatus.SYNTHETIC_ERROR
            continue
        assert depends_on[call] <= set(ended)
        ended[call] = FAILED if call in failing else OK
        for other in batch.canceled_by(call, ended[call], unfinished):
            ended[other] = ResultStatus.SYNTHETIC_ERROR
    if policy is IGNORE:
        assert ResultStatus.SYNTHETIC_ERROR not in ended.values()
    elif policy is CANCEL_DEPENDENT:
        for call, others in depends_on.items():
            lost = any(ended[other].is_error for other in others)
            assert (ended[call] is ResultStatus.SYNTHETIC_ERROR) is lost


SERIAL_ONLY, DEFER, FORBID = ContextModifierPolicy


@pytest.mark.parametrize(
    ("policy", "ran_alone", "fate"),
    [
        (SERIAL_ONLY, True, ModifierOutcome.APPLIED),
        (SERIAL_ONLY, False, ModifierOutcome.REJECTED),
        (DEFER, True, ModifierOutcome.DEFERRED),
        (DEFER, False, ModifierOutcome.DEFERRED),
        (FORBID, True, ModifierOutcome.REJECTED),
        (FORBID, False, ModifierOutcome.REJECTED),
    ],
)
def test_the_policy_says_what_becomes_of_a_modifier(policy, ran_alone, fate):
    assert modifier_outcome(policy, ran_alone=ran_alone, supports_context_modifiers=True) is fate


@pytest.mark.parametrize("policy", ContextModifierPolicy)
@pytest.mark.parametrize("said", [None, False])
def test_a_tool_that_did_not_declare_it_changes_nothing(policy, said):
    assert modifier_outcome(policy, ran_alone=True, supports_context_modifiers=said) is ModifierOutcome.REJECTED


@pytest.mark.parametrize(
    ("said", "strictest"),
    [
        ((), FORBID),
        ((None, None), FORBID),
        ((None, DEFER), DEFER),
        ((DEFER, SERIAL_ONLY), SERIAL_ONLY),
        ((SERIAL_ONLY, FORBID, DEFER), FORBID),
    ],
)
def test_of_several_words_the_strictest_counts(said, strictest):
    assert strictest_modifier_policy(*said) is strictest
