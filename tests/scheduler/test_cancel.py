import threading

import pytest

from agenttool.records import AbortReason, Cancellation, CancellationOutcome, InterruptBehavior, Timestamp
from agenttool.scheduler.cancel import UNSUPPORTED, CancelAnswer, CancelScope, stops_on_interrupt

T1, T2, T3 = (Timestamp(f"2026-01-01T00:00:0{second}Z") for second in (1, 2, 3))
USER, TIMEOUT = AbortReason.USER_INTERRUPTION, AbortReason.TIMEOUT


def test_a_call_that_stops_has_all_four_facts_apart():
    scope, stopped = CancelScope(), []
    scope.bind(lambda: stopped.append("tool"), supports_cancel=True)
    assert scope.record is None
    assert scope.request(USER, T1) is CancelAnswer.ACCEPTED
    assert stopped == ["tool"]
    assert scope.record == Cancellation(cancel_requested=T1, abort_reason=USER)
    scope.acknowledge(T2)
    assert scope.end(canceled=True) == Cancellation(
        cancel_requested=T1, cancel_acknowledged=T2, abort_reason=USER, outcome=CancellationOutcome.CANCELED
    )


def test_a_stubborn_call_that_ends_by_itself_has_a_cancellation_that_failed():
    scope = CancelScope()
    scope.bind(lambda: None, supports_cancel=True)
    scope.request(USER, T1)
    assert scope.end(canceled=False) == Cancellation(
        cancel_requested=T1, abort_reason=USER, outcome=CancellationOutcome.CANCEL_FAILED
    )


@pytest.mark.parametrize("said", [False, None])
def test_where_cancellation_is_unsupported_the_request_is_a_fact_and_the_call_goes_on(said):
    scope, stopped = CancelScope(), []
    scope.bind(lambda: stopped.append("tool"), supports_cancel=said)
    nested = CancelScope(scope)
    assert scope.request(USER, T1) is CancelAnswer.UNSUPPORTED
    assert stopped == []
    assert not nested.is_requested
    assert not CancelScope(scope).is_requested
    assert scope.end(canceled=False) == Cancellation(
        cancel_requested=T1, abort_reason=USER, outcome=CancellationOutcome.CANCEL_FAILED, message=UNSUPPORTED
    )


def test_until_its_tool_runs_every_call_can_be_canceled():
    scope, stopped = CancelScope(), []
    assert scope.request(USER, T1) is CancelAnswer.ACCEPTED
    scope.bind(lambda: stopped.append("tool"), supports_cancel=False)
    assert stopped == ["tool"]


def test_the_first_request_is_the_one_on_record():
    scope, stopped = CancelScope(), []
    scope.bind(lambda: stopped.append("tool"))
    scope.request(USER, T1)
    assert scope.request(TIMEOUT, T2) is CancelAnswer.ALREADY_ASKED
    assert scope.record == Cancellation(cancel_requested=T1, abort_reason=USER)
    assert stopped == ["tool"]


def test_a_request_after_the_end_changes_nothing():
    scope = CancelScope()
    scope.end(canceled=False)
    assert scope.request(USER, T1) is CancelAnswer.TOO_LATE
    assert scope.record is None


def test_to_acknowledge_what_nobody_asked_is_nothing():
    scope = CancelScope()
    scope.acknowledge(T1)
    assert scope.end(canceled=False) is None


def test_calls_made_by_a_call_are_canceled_with_it_and_before_it():
    stopped = []
    parent = CancelScope()
    child = CancelScope(parent)
    grandchild = CancelScope(child)
    finished = CancelScope(parent)
    for scope, name in ((parent, "parent"), (child, "child"), (grandchild, "grandchild"), (finished, "finished")):
        scope.bind(lambda name=name: stopped.append(name))
    finished.end(canceled=False)
    parent.request(AbortReason.SIBLING_ERROR, T1)
    assert stopped == ["grandchild", "child", "parent"]
    assert (
        grandchild.record == parent.record == Cancellation(cancel_requested=T1, abort_reason=AbortReason.SIBLING_ERROR)
    )


def test_a_call_made_by_one_that_is_stopping_does_not_begin():
    parent = CancelScope()
    parent.request(USER, T1)
    late, stopped = CancelScope(parent), []
    late.bind(lambda: stopped.append("late"))
    assert late.record == parent.record
    assert stopped == ["late"]


def test_the_calls_of_a_call_that_was_left_behind_can_be_canceled_without_it():
    parent = CancelScope()
    child = CancelScope(parent)
    parent.request_children(TIMEOUT, T1)
    assert child.is_stopping
    assert not parent.is_requested


def test_canceling_a_nested_call_leaves_its_caller_alone():
    parent = CancelScope()
    CancelScope(parent).request(USER, T1)
    assert not parent.is_requested


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_tool_on_another_thread_hears_of_it(asked_first):
    scope, heard = CancelScope(), []
    waits = threading.Barrier(2)

    def tool():
        if not asked_first:
            assert not scope.wait(0)
        waits.wait(5)
        heard.append((scope.wait(5), scope.is_requested, scope.reason))

    worker = threading.Thread(target=tool)
    worker.start()
    if asked_first:
        scope.request(USER, T1)
    waits.wait(5)
    scope.request(USER, T1)
    worker.join(5)
    assert heard == [(True, True, USER)]


@pytest.mark.parametrize(
    ("tool", "policy", "stops"),
    [
        (InterruptBehavior.CANCEL, None, True),
        (InterruptBehavior.CANCEL, InterruptBehavior.CANCEL, True),
        (InterruptBehavior.CANCEL, InterruptBehavior.BLOCK, False),
        (InterruptBehavior.BLOCK, InterruptBehavior.CANCEL, False),
        (None, InterruptBehavior.CANCEL, False),
        (None, None, False),
    ],
)
def test_an_interruption_stops_only_a_tool_that_says_so(tool, policy, stops):
    assert stops_on_interrupt(tool, policy) is stops
