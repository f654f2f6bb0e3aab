import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import ErrorClass, ExecutionProfile, Recoverability, RetryGuidance, ToolError
from agenttool.scheduler.retry import Attempt, Repeatability, RetryPolicy, RetryRefusal, next_attempt, repeatability_of

POLICY = RetryPolicy(attempts=4, first_wait=1.0, longest_wait=5.0)
SAFE = Repeatability(supports_retries=True, idempotent=True)
DOWN = ToolError(error_class=ErrorClass.DEPENDENCY_UNAVAILABLE)


def decide(error=DOWN, *, tool=SAFE, number=1, effects_possible=True, seconds_left=None, random=0.5):
    attempt = Attempt(number=number, effects_possible=effects_possible, seconds_left=seconds_left)
    return next_attempt(error, attempt, tool=tool, policy=POLICY, random=lambda: random)


@pytest.mark.parametrize(
    ("supports_retries", "idempotent", "effects_possible", "decision"),
    [
        (True, True, True, 0.5),
        (True, False, False, 0.5),
        (True, False, True, RetryRefusal.EFFECTS_POSSIBLE),
        (False, True, False, RetryRefusal.NOT_DECLARED),
        (None, True, False, RetryRefusal.NOT_DECLARED),
        (True, None, True, RetryRefusal.EFFECTS_POSSIBLE),
    ],
)
def test_only_what_was_declared_safe_is_repeated(supports_retries, idempotent, effects_possible, decision):
    profile = ExecutionProfile(execution_profile_id="e", execution_kind="http_api", supports_retries=supports_retries)
    tool = repeatability_of(profile, idempotent=idempotent)
    assert decide(tool=tool, effects_possible=effects_possible) == decision


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (ToolError(error_class=ErrorClass.RATE_LIMITED), 0.5),
        (ToolError(error_class=ErrorClass.TIMEOUT), 0.5),
        (ToolError(error_class=ErrorClass.EXECUTION_FAILED), RetryRefusal.NOT_RETRYABLE),
        (ToolError(error_class=ErrorClass.EXECUTION_FAILED, recoverability=Recoverability.RETRYABLE), 0.5),
        (ToolError(error_class=ErrorClass.PERMISSION_DENIED), RetryRefusal.NOT_RETRYABLE),
        (ToolError(error_class="new_class", recoverability=Recoverability.RETRYABLE), RetryRefusal.NOT_RETRYABLE),
        (ToolError(error_class=ErrorClass.TIMEOUT, retry=RetryGuidance(safe=False)), RetryRefusal.NOT_RETRYABLE),
        (
            ToolError(error_class=ErrorClass.TIMEOUT, retry=RetryGuidance(arguments_must_change=True)),
            RetryRefusal.NOT_RETRYABLE,
        ),
        (
            ToolError(error_class=ErrorClass.TIMEOUT, recoverability=Recoverability.NOT_RECOVERABLE),
            RetryRefusal.NOT_RETRYABLE,
        ),
    ],
)
def test_only_an_error_that_may_pass_by_itself_is_tried_again(error, decision):
    assert decide(error) == decision


@pytest.mark.parametrize(("number", "wait"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, RetryRefusal.NO_ATTEMPTS_LEFT)])
def test_waits_double_until_attempts_run_out(number, wait):
    assert decide(number=number, random=1.0) == wait


def test_waits_have_a_longest():
    patient = RetryPolicy(attempts=99, first_wait=1.0, longest_wait=5.0)
    attempt = Attempt(number=50, effects_possible=True)
    assert next_attempt(DOWN, attempt, tool=SAFE, policy=patient, random=lambda: 1.0) == 5.0


def test_a_source_that_says_when_is_believed():
    error = ToolError(error_class=ErrorClass.RATE_LIMITED, retry_after=7)
    assert decide(error) == 7
    assert decide(error, seconds_left=7) is RetryRefusal.NO_TIME_LEFT


@given(
    number=st.integers(1, 6),
    random=st.floats(0, 1, exclude_max=True),
    seconds_left=st.none() | st.floats(0, 20),
    retry_after=st.none() | st.floats(0, 20),
    effects_possible=st.booleans(),
    tool=st.builds(Repeatability, supports_retries=st.booleans(), idempotent=st.booleans()),
)
def test_no_retry_is_unsafe_too_early_or_past_the_deadline(
    number, random, seconds_left, retry_after, effects_possible, tool
):
    error = ToolError(error_class=ErrorClass.RATE_LIMITED, retry_after=retry_after)
    wait = decide(
        error, tool=tool, number=number, effects_possible=effects_possible, seconds_left=seconds_left, random=random
    )
    if not isinstance(wait, RetryRefusal):
        assert tool.supports_retries
        assert tool.idempotent or not effects_possible
        assert number < POLICY.attempts
        assert wait >= (retry_after or 0)
        assert wait <= max(POLICY.longest_wait, retry_after or 0)
        assert seconds_left is None or wait < seconds_left
