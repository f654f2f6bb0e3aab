import pytest

from agenttool.records import OUTCOMES

ERROR = {"error_code": "c", "message": "m", "recoverability": "not_recoverable"}


def told(record, status, result_status, event_type, error_class=None, name="1"):
    error = {"error": {"error_class": error_class, **ERROR}} if error_class else {}
    is_error = result_status not in ("succeeded", "partial_succeeded")
    return [
        record("tool_invocation", invocation_id=f"inv_{name}", status=status),
        record(
            "tool_result",
            result_id=f"res_{name}",
            invocation_id=f"inv_{name}",
            status=result_status,
            is_error=is_error,
            abort_reason="timeout",
            **error,
        ),
        record(
            "tool_event",
            event_id=f"evt_{name}",
            event_type=event_type,
            invocation_id=f"inv_{name}",
            tool_id="tool_read",
        ),
    ]


GOOD = ("succeeded", "succeeded", "tool.invocation.succeeded")


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_every_way_to_end_in_the_table_is_well(check, record, outcome):
    for error_class in outcome.error_classes or (None,):
        ended = outcome.invocation_status, outcome.result_status, outcome.terminal_event
        assert check(*told(record, *ended, error_class)) == []


def test_the_three_tell_the_same_end(check, record):
    found = check(*told(record, "failed", "succeeded", "tool.invocation.canceled"))
    assert found == [("error", "/status", "G-09"), ("error", "/event_type", "AT-EVT-12")]


def test_a_call_ends_once(check, record):
    call, result, event = told(record, *GOOD)
    again = [result | {"result_id": "res_2"}, event | {"event_id": "evt_2"}]
    assert check(call, result, event, result, event, *again) == [
        ("error", "/invocation_id", "AT-RES-11"),
        ("error", "/invocation_id", "AT-EVT-12"),
    ]


def test_a_finished_call_has_a_result_and_a_terminal_event(check, record):
    other = told(record, *GOOD, name="2")
    call, result, event = told(record, *GOOD)
    assert check(*other, call, event) == [("error", "", "AT-RES-11")]
    assert check(*other, call, result) == [("error", "", "AT-EVT-12")]
    assert check(*other, call | {"status": "running"}) == []


def test_without_any_result_or_terminal_event_their_absence_says_nothing(check, record):
    assert check(record("tool_invocation", status="failed"), record("tool_event")) == []


def test_a_call_that_goes_on_although_it_ended_is_a_warning(check, record):
    assert check(*told(record, "running", *GOOD[1:])) == [
        ("warning", "/invocation_id", "AT-INV-13"),
        ("warning", "/invocation_id", "AT-INV-13"),
    ]


def test_of_a_call_that_was_told_twice_the_last_word_counts(check, record):
    _, result, event = told(record, *GOOD)
    states = [record("tool_invocation", status=status) for status in ("running", "succeeded")]
    assert check(*states, result, event) == [("error", "/invocation_id", "AT-MODEL-01")]


def test_a_status_nobody_listed_is_not_compared(check, record):
    found = check(*told(record, "done", "fine", "tool.invocation.succeeded", "execution_failed"))
    assert {row for _, _, row in found} == {"AT-INV-07", "AT-RES-04"}
