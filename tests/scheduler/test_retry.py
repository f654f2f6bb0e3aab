import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import ErrorClass, Recoverability, RetryGuidance, ToolError
from agenttool.scheduler.retry import RetryPolicy, next_attempt

POLICY = RetryPolicy(attempts=4, first_wait=1.0, longest_wait=5.0)
DOWN = ToolError(error_class=ErrorClass.DEPENDENCY_UNAVAILABLE)


def decide(error=DOWN, *, number=1, seconds_left=None, random=0.5, policy=POLICY):
    return next_attempt(error, number, seconds_left=seconds_left, policy=policy, random=lambda: random)


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (ToolError(error_class=ErrorClass.RATE_LIMITED), 0.5),
        (ToolError(error_class=ErrorClass.TIMEOUT), 0.5),
        (ToolError(error_class=ErrorClass.EXECUTION_FAILED), None),
        (ToolError(error_class=ErrorClass.EXECUTION_FAILED, recoverability=Recoverability.RETRYABLE), 0.5),
        (ToolError(error_class=ErrorClass.PERMISSION_DENIED), None),
        (ToolError(error_class="new_class", recoverability=Recoverability.RETRYABLE), None),
        (ToolError(error_class=ErrorClass.TIMEOUT, retry=RetryGuidance(safe=False)), None),
        (ToolError(error_class=ErrorClass.TIMEOUT, retry=RetryGuidance(arguments_must_change=True)), None),
        (ToolError(error_class=ErrorClass.TIMEOUT, recoverability=Recoverability.NOT_RECOVERABLE), None),
    ],
)
def test_only_a_transient_error_is_retried(error, wait):
    assert decide(error) == wait


@pytest.mark.parametrize(("number", "wait"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, None)])
def test_waits_double_until_attempts_run_out(number, wait):
    assert decide(number=number, random=1.0) == wait


def test_a_wait_is_never_longer_than_the_longest():
    assert decide(number=50, random=1.0, policy=RetryPolicy(attempts=99, first_wait=1.0, longest_wait=5.0)) == 5.0


def test_retry_after_is_the_shortest_wait():
    error = ToolError(error_class=ErrorClass.RATE_LIMITED, retry_after=7)
    assert decide(error) == 7
    assert decide(error, seconds_left=7) is None


@given(
    number=st.integers(1, 6),
    random=st.floats(0, 1, exclude_max=True),
    seconds_left=st.none() | st.floats(0, 20),
    retry_after=st.none() | st.floats(0, 20),
)
def test_no_retry_is_too_early_or_past_the_deadline(number, random, seconds_left, retry_after):
    error = ToolError(error_class=ErrorClass.RATE_LIMITED, retry_after=retry_after)
    wait = decide(error, number=number, seconds_left=seconds_left, random=random)
    if wait is not None:
        assert number < POLICY.attempts
        assert wait >= (retry_after or 0)
        assert wait <= max(POLICY.longest_wait, retry_after or 0)
        assert seconds_left is None or wait < seconds_left
