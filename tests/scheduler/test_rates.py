import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ConfigError
from agenttool.records import ErrorClass, Recoverability, RetryGuidance, ToolError
from agenttool.scheduler.rates import Bucket, RateLimit, rate_limited, take_or_wait


def test_a_burst_goes_through_and_then_one_at_a_time():
    bucket = [Bucket(RateLimit(per_second=2, burst=3))]
    assert [take_or_wait(bucket, 100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert take_or_wait(bucket, 100.25) == 0.25
    assert take_or_wait(bucket, 100.5) == 0.0
    assert take_or_wait(bucket, 100.5) == 0.5


def test_a_tool_waits_for_its_own_limit_and_for_its_sources():
    tool, source = Bucket(RateLimit(per_second=1)), Bucket(RateLimit(per_second=4))
    assert take_or_wait((tool, source), 0.0) == 0.0
    assert take_or_wait((source,), 0.25) == 0.0
    assert take_or_wait((tool, source), 0.25) == 0.75


def test_a_refused_call_takes_nothing():
    tool, source = Bucket(RateLimit(per_second=1)), Bucket(RateLimit(per_second=1))
    tool.take(0.0)
    assert take_or_wait((tool, source), 0.0) == 1.0
    assert take_or_wait((source,), 0.0) == 0.0


def test_without_a_limit_nothing_waits():
    assert take_or_wait((), 0.0) == 0.0


def test_a_source_that_asks_for_quiet_gets_it():
    bucket = Bucket(RateLimit(per_second=100, burst=10))
    bucket.hold(50.0, 3.0)
    assert bucket.wait(50.0) == pytest.approx(3.0)
    assert bucket.wait(53.0) == 0.0


@pytest.mark.parametrize("limit", [{"per_second": 0}, {"per_second": -1}, {"per_second": 1, "burst": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(limit):
    with pytest.raises(ConfigError, match="must let something through"):
        RateLimit(**limit)


def test_a_call_that_came_too_soon_is_told_when_to_come_again():
    assert rate_limited("search", 1.5) == ToolError(
        error_class=ErrorClass.RATE_LIMITED,
        error_code="rate_limit",
        message="'search' is called too often; try again in 1.5 s",
        recoverability=Recoverability.RETRYABLE,
        retry_after=1.5,
        retry=RetryGuidance(safe=True),
        phase="execute",
    )


@given(st.integers(1, 20), st.integers(1, 5), st.lists(st.integers(0, 2000), min_size=1, max_size=60))
def test_no_stretch_of_time_sees_more_calls_than_rate_and_burst_allow(per_second, burst, pauses_ms):
    bucket, now, passed = [Bucket(RateLimit(per_second=per_second, burst=burst))], 0.0, []
    for pause in pauses_ms:
        now += pause / 1000
        wait = take_or_wait(bucket, now)
        if wait:
            now += wait + 1e-6
            assert take_or_wait(bucket, now) == 0.0
        passed.append(now)
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= (passed[last] - begin) * per_second + burst + 1e-3
