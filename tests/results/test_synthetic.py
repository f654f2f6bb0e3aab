import pytest

from agenttool.records import Phase, ResultStatus
from agenttool.results.failure import result_of_failure
from agenttool.results.synthetic import (
    canceled_by_sibling,
    canceled_by_user,
    discarded_by_fallback,
    stopped_by_shutdown,
    unknown_after_crash,
)

EVERY = {
    "user": (canceled_by_user, ResultStatus.CANCELED, "canceled", "user_interruption"),
    "sibling": (
        lambda phase: canceled_by_sibling(phase, "inv_0"),
        ResultStatus.SYNTHETIC_ERROR,
        "sibling_canceled",
        "sibling_error",
    ),
    "fallback": (discarded_by_fallback, ResultStatus.DISCARDED, "streaming_fallback_discarded", "fallback"),
    "shutdown": (stopped_by_shutdown, ResultStatus.SYNTHETIC_ERROR, "canceled", "runtime_shutdown"),
    "crash": (lambda _: unknown_after_crash(), ResultStatus.SYNTHETIC_ERROR, "canceled", "runtime_shutdown"),
}


@pytest.mark.parametrize("phase", [Phase.SCHEDULE, Phase.EXECUTE])
@pytest.mark.parametrize(("end", "status", "error_class", "abort"), EVERY.values(), ids=EVERY)
def test_user_ask_14_a_call_that_never_answered_ends_in_a_result(end, status, error_class, abort, phase, misfits):
    error = end(phase)
    result = result_of_failure(error, result_id="res_1", invocation_id="inv_1", created_at="2026-05-08T00:00:01Z")
    assert (result.status, result.is_error, result.abort_reason) == (status, True, abort)
    assert (result.error.error_class, result.error.abort_reason) == (error_class, abort)
    assert misfits(result) == []
    is_sure = phase is Phase.SCHEDULE and error.error_code != "outcome_unknown"
    assert error.retry.safe is is_sure
    assert result.model_facing_content[0].text


def test_a_sibling_that_failed_is_named_as_the_cause():
    error = canceled_by_sibling(Phase.SCHEDULE, "inv_0")
    assert error.retry.caused_by_sibling
    assert "inv_0" in error.message
