import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.sense.times import flaw_of_time, is_before, is_plain_time

GOOD = [
    "2026-05-08T00:00:00Z",
    "2026-05-08T23:59:59.123456789Z",
    "2026-05-08t00:00:00z",
    "2026-05-08T00:00:00+00:00",
    "2024-02-29T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "0000-01-01T00:00:00Z",
]
BAD = [
    "",
    "now",
    "2026-05-08",
    "2026-05-08 00:00:00Z",
    "2026-05-08T00:00:00",
    "2026-05-08T00:00Z",
    "2026-05-08T24:00:00Z",
    "2026-05-08T00:60:00Z",
    "2026-13-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-05-08T00:00:00.Z",
    "2026-05-08T02:00:00+02:00",
    "2026-05-08T00:00:00-00:00",
    "20260508T000000Z",
    "1778198400",
    "\uff12026-05-08T00:00:00Z",
    "2026-05-08T00:00:00Z\n",
]


@pytest.mark.parametrize("time", GOOD)
def test_a_moment_in_utc_is_a_time(time):
    assert flaw_of_time(time, "") is None


@pytest.mark.parametrize("time", BAD)
def test_anything_else_is_none(check, record, time):
    assert check(record("tool_result", created_at=time)) == [("error", "/created_at", "G-03")]


@given(st.datetimes())
def test_every_moment_there_is_has_a_plain_spelling(moment):
    text = moment.isoformat() + "Z"
    assert flaw_of_time(text, "") is None
    assert not is_plain_time(text) or moment.day <= 28


def test_times_are_asked_for_wherever_the_types_put_one(check, record):
    assert check(record("tool_invocation", cancellation={"cancel_requested": "soon"})) == [
        ("error", "/cancellation/cancel_requested", "G-03")
    ]
    assert check(record("tool_permission_decision", expires_at="never")) == [("error", "/expires_at", "G-03")]


@pytest.mark.parametrize("kind", ["tool_invocation", "tool_hook"])
def test_nothing_ends_before_it_started(check, record, kind):
    early, late = "2026-05-08T00:00:00.5Z", "2026-05-08T00:00:00.50001+00:00"
    status = {"status": "failed"} if kind == "tool_invocation" else {}
    assert check(record(kind, started_at=early, ended_at=late, **status)) == []
    assert check(record(kind, started_at=late, ended_at=early, **status)) == [("error", "/ended_at", "AT-INV-09")]


def test_no_call_ends_before_there_is_a_record_of_it(check, record):
    late, early = "2026-05-08T00:00:01Z", "2026-05-08T00:00:00Z"
    ended = record("tool_invocation", status="failed", created_at=late, ended_at=early)
    assert check(ended) == [("error", "/ended_at", "AT-INV-09")]
    assert check(ended | {"ended_at": late}) == []


def test_moments_are_compared_by_when_they_are_and_not_by_how_they_are_written():
    assert is_before("2026-05-08T00:00:00Z", "2026-05-08T00:00:00.1Z")
    assert not is_before("2026-05-08T00:00:00.0Z", "2026-05-08T00:00:00+00:00")
    assert not is_before("2026-05-08T00:00:00.10Z", "2026-05-08t00:00:00.1z")
    assert not is_before("garbage", "2026-05-08T00:00:00Z")
    assert not is_before(None, 7)
