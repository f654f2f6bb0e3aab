import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ToolFailure
from agenttool.records import ErrorClass, ResultStatus, SiblingFailurePolicy
from agenttool.scheduler.siblings import Readiness, siblings_of

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
    assert siblings_of(CHAIN, policy).taken_along("a", status, ["a", "b", "c", "d"]) == taken


def test_nobody_who_is_finished_is_canceled():
    assert siblings_of(CHAIN, CANCEL_SIBLINGS).taken_along("a", FAILED, ["d"]) == ("d",)
    assert siblings_of(CHAIN, CANCEL_DEPENDENT).taken_along("a", FAILED, ["d"]) == ()


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
    ("depends_on", "code"),
    [
        ({"a": ("b",), "b": ("a",)}, "circular_dependency"),
        ({"a": ("a",)}, "circular_dependency"),
        ({"a": ("stranger",)}, "unknown_dependency"),
    ],
)
def test_a_batch_that_could_never_end_is_refused(depends_on, code):
    with pytest.raises(ToolFailure) as refused:
        siblings_of(depends_on)
    assert (refused.value.error.error_class, refused.value.error.error_code) == (ErrorClass.INVALID_ARGUMENTS, code)


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
        for other in batch.taken_along(call, ended[call], unfinished):
            ended[other] = ResultStatus.SYNTHETIC_ERROR
    if policy is IGNORE:
        assert ResultStatus.SYNTHETIC_ERROR not in ended.values()
    elif policy is CANCEL_DEPENDENT:
        for call, others in depends_on.items():
            lost = any(ended[other].is_error for other in others)
            assert (ended[call] is ResultStatus.SYNTHETIC_ERROR) is lost
