import pytest

from agenttool.records import OUTCOMES, ErrorClass, ResultStatus

SAYS_ENOUGH = {"error_code": "code", "message": "why", "recoverability": "not_recoverable"}


def result(record, status, error_class=None, **members):
    error = {"error": {"error_class": error_class, **SAYS_ENOUGH}} if error_class else {}
    is_error = ResultStatus(status).is_error
    return record("tool_result", status=status, **{"is_error": is_error, "abort_reason": "timeout"} | error | members)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
def test_every_row_of_the_table_of_outcomes_is_well(check, record, outcome):
    for error_class in outcome.error_classes or (None,):
        assert check(result(record, outcome.result_status, error_class)) == []


@pytest.mark.parametrize("status", ResultStatus)
def test_the_flag_says_error_exactly_for_what_did_not_succeed(check, record, status):
    classes = [each for outcome in OUTCOMES if outcome.result_status == status for each in outcome.error_classes]
    error_class = classes[0] if classes else None
    assert check(result(record, status, error_class, is_error=status.is_error)) == []
    wrong = check(result(record, status, error_class or "partial_failure", is_error=not status.is_error))
    assert ("error", "/is_error", "AT-RES-10") in wrong
    missing = check(record("tool_result", without=["is_error"], status=status, error={"error_class": "timeout"}))
    assert (("error", "/is_error", "AT-RES-10") in missing) == status.is_error


def test_a_status_nobody_listed_is_never_a_success(check, record):
    assert ("error", "/is_error", "AT-VER-07") in check(record("tool_result", status="fine", is_error=False))


def test_an_error_names_its_class(check, record):
    assert check(record("tool_result", status="failed", is_error=True)) == [("error", "/error", "AT-RES-10")]
    assert ("error", "/error/error_class", "AT-RES-10") in check(
        record("tool_result", status="failed", is_error=True, error=SAYS_ENOUGH)
    )


@pytest.mark.parametrize(("status", "error_class"), [("synthetic_error", "sibling_canceled"), ("canceled", "canceled")])
def test_a_result_made_up_for_an_ended_call_says_why_it_ended(check, record, status, error_class):
    bare = result(record, status, error_class)
    del bare["abort_reason"]
    assert check(bare) == [("error", "/abort_reason", "AT-RES-07")]
    within = {**bare, "error": {**bare["error"], "abort_reason": "sibling_error"}}
    assert check(within) == []


def test_a_class_that_does_not_go_with_the_status_is_a_warning(check, record):
    assert check(result(record, "failed", "permission_denied")) == [("warning", "/error/error_class", "G-09")]
    assert check(result(record, "succeeded", "timeout")) == [("warning", "/error/error_class", "G-09")]


@pytest.mark.parametrize("missing", SAYS_ENOUGH)
def test_an_error_that_does_not_say_enough_is_a_warning(check, record, missing):
    error = {"error_class": "execution_failed", **SAYS_ENOUGH}
    del error[missing]
    found = check(record("tool_result", status="failed", is_error=True, error=error))
    assert found == [("warning", f"/error/{missing}", "AT-ERR-01")]


@pytest.mark.parametrize("error_class", ErrorClass)
def test_every_class_of_the_list_and_of_the_phase_table_is_listed(check, record, error_class):
    found = check(result(record, "failed", error_class))
    assert ("warning", "/error/error_class", "AT-ERR-02") not in found
