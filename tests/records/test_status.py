from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import TERMINAL_STATUSES, InvocationStatus, may_follow

S = InvocationStatus
ALL = st.sampled_from(InvocationStatus)


@pytest.mark.parametrize(
    "chain",
    [
        (S.PLANNED, S.SELECTED, S.ARGUMENTS_READY, S.APPROVED, S.QUEUED, S.RUNNING, S.YIELDED, S.SUCCEEDED),
        (S.PLANNED, S.SELECTED, S.SCHEMA_PARSE_FAILED),
        (S.PLANNED, S.SELECTED, S.ARGUMENTS_READY, S.PRE_HOOKS_RUNNING, S.AWAITING_APPROVAL, S.YIELDED, S.DENIED),
        (S.PLANNED, S.RUNNING, S.NEEDS_INPUT, S.RUNNING, S.PARTIAL_RESULT, S.PARTIAL_RESULT, S.RUNNING, S.SUCCEEDED),
        (S.APPROVED, S.AWAITING_APPROVAL, S.APPROVED, S.QUEUED, S.AWAITING_APPROVAL, S.DENIED),
        (S.PLANNED, S.BLOCKED),
        (S.QUEUED, S.RUNNING, S.QUEUED, S.RUNNING, S.TIMED_OUT),
        (S.AWAITING_APPROVAL, S.SCHEMA_PARSE_FAILED),
    ],
)
def test_a_legal_chain_is_legal(chain):
    assert all(may_follow(before, after) for before, after in pairwise(chain))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (S.RUNNING, S.PLANNED),
        (S.RUNNING, S.DENIED),
        (S.RUNNING, S.BLOCKED),
        (S.RUNNING, S.SCHEMA_PARSE_FAILED),
        (S.YIELDED, S.RUNNING),
        (S.POST_HOOKS_RUNNING, S.RUNNING),
        (S.PLANNED, S.PLANNED),
    ],
)
@pytest.mark.requirement("AT-INV-08")
def test_the_order_of_the_pipeline_cannot_be_turned_round(before, after):
    assert not may_follow(before, after)


@pytest.mark.requirement("AT-INV-13")
@given(st.sampled_from(TERMINAL_STATUSES), ALL)
def test_nothing_follows_an_end(end, after):
    assert end.is_terminal
    assert not may_follow(end, after)


@given(ALL.filter(lambda status: not status.is_terminal))
def test_every_state_that_is_no_end_can_reach_one(status):
    assert any(may_follow(status, end) for end in TERMINAL_STATUSES)


@given(ALL.filter(lambda status: not status.is_terminal))
def test_an_unlisted_state_may_stand_anywhere_but_after_an_end(status):
    assert may_follow(status, S("pondering"))
    assert may_follow(S("pondering"), status)
