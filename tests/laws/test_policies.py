"""A scheduler policy that is written out in full means what it meant when it was short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import (
    UNSET,
    ContextModifierPolicy,
    InterruptBehavior,
    OrderingPolicy,
    SchedulerPolicy,
    SiblingFailurePolicy,
    YieldPolicy,
    complete_policy,
)
from agenttool.scheduler.batch_order import delivery_of, siblings_of, strictest_modifier_policy
from agenttool.scheduler.drive import stops_on_interrupt

POLICIES = st.builds(
    SchedulerPolicy,
    scheduler_policy_id=st.just("s"),
    ordering_policy=st.none() | st.sampled_from(OrderingPolicy),
    yield_policy=st.none() | st.sampled_from(YieldPolicy),
    interrupt_behavior=st.none() | st.sampled_from(InterruptBehavior),
    sibling_failure_policy=st.none() | st.sampled_from(SiblingFailurePolicy),
    context_modifier_policy=st.none() | st.sampled_from(ContextModifierPolicy),
)


@pytest.mark.requirement("AT-SCHED-06")
@given(POLICIES, st.sampled_from(ContextModifierPolicy), st.sampled_from(InterruptBehavior))
def test_a_policy_that_says_it_all_means_what_it_meant_before(policy, of_tool, on_interrupt):
    whole = complete_policy(policy)
    silent = ("max_parallel", "resource_locks")
    assert [name for name in whole.__struct_fields__ if getattr(whole, name) in (None, UNSET)] == list(silent)
    assert complete_policy(whole) == whole
    assert delivery_of(whole) == delivery_of(policy)
    words = [strictest_modifier_policy(of_tool, each.context_modifier_policy) for each in (policy, whole)]
    assert words[0] == words[1]
    stops = [stops_on_interrupt(on_interrupt, each.interrupt_behavior) for each in (policy, whole)]
    assert stops[0] == stops[1]
    followers = [siblings_of({0: (), 1: ()}, each.sibling_failure_policy) for each in (policy, whole)]
    assert followers[0] == followers[1]
