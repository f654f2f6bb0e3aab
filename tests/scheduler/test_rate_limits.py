import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ConfigError
from agenttool.ports.limits import RateLimit
from agenttool.records import ErrorClass, ToolError
from agenttool.scheduler.rate_limits import TokenBucket, rate_limited, reserve_tokens


def test_a_burst_goes_through_and_then_one_at_a_time_in_order_of_arrival():
    bucket = [TokenBucket(RateLimit(per_second=2, burst=3))]
    assert [reserve_tokens(bucket, 100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert reserve_tokens(bucket, 101.0) == 0.5


def test_a_tool_waits_for_its_own_limit_and_for_its_sources():
    tool, source = TokenBucket(RateLimit(per_second=1)), TokenBucket(RateLimit(per_second=4))
    assert reserve_tokens((tool, source), 0.0) == 0.0
    assert reserve_tokens((source,), 0.25) == 0.0
    assert reserve_tokens((tool, source), 0.5) == 0.5


def test_a_call_that_would_wait_too_long_takes_no_place():
    tool, source = TokenBucket(RateLimit(per_second=1, max_wait_s=1.5)), TokenBucket(RateLimit(per_second=1))
    assert [reserve_tokens((tool,), 0.0) for _ in range(3)] == [0.0, 1.0, None]
    assert reserve_tokens((tool, source), 0.0) is None
    assert reserve_tokens((source,), 0.0) == 0.0
    assert tool.wait(0.0) == 2.0


def test_without_a_limit_nothing_waits():
    assert reserve_tokens((), 0.0) == 0.0


def test_a_source_that_asks_for_quiet_gets_it():
    bucket = TokenBucket(RateLimit(per_second=100, burst=10))
    bucket.hold(50.0, 3.0)
    assert bucket.wait(50.0) == pytest.approx(3.0)
    assert bucket.wait(53.0) == 0.0


@pytest.mark.parametrize(
    "limit", [{"per_second": 0}, {"per_second": -1}, {"per_second": 1, "burst": 0}, {"per_second": 1, "max_wait_s": -1}]
)
def test_a_limit_that_lets_nothing_through_is_refused(limit):
    with pytest.raises(ConfigError, match="must let something through"):
        RateLimit(**limit)


def test_a_call_that_came_too_soon_gets_the_time_to_come_again():
    assert rate_limited("search", 1.5) == ToolError(
        error_class=ErrorClass.RATE_LIMITED,
        error_code="rate_limit",
        message="'search' is called too often; try again in 1.5 s",
        retry_after=1.5,
        phase="schedule",
    )


@given(st.integers(1, 20), st.integers(1, 5), st.lists(st.integers(0, 2000), min_size=1, max_size=60))
def test_no_stretch_of_time_sees_more_calls_than_rate_and_burst_allow(per_second, burst, pauses_ms):
    bucket, now, passed = [TokenBucket(RateLimit(per_second=per_second, burst=burst, max_wait_s=1e9))], 0.0, []
    for pause in pauses_ms:
        now += pause / 1000
        passed.append(now + reserve_tokens(bucket, now))
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= (passed[last] - begin) * per_second + burst + 1e-3
