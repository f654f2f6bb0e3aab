"""Order in is order out: under every policy a batch gives each call one result, and gives them as it promised."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import ToolCall
from agenttool.policy.rules import Rule
from agenttool.records import (
    Behavior,
    OrderingPolicy,
    RuleSource,
    SchedulerPolicy,
    SiblingFailurePolicy,
    YieldPolicy,
)
from agenttool.testing.fakes import scripted_tool

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
SAYING_UNORDERED = {OrderingPolicy.ALLOW_UNORDERED, YieldPolicy.UNORDERED_STREAMING}

policies = st.builds(
    SchedulerPolicy,
    scheduler_policy_id=st.just("sched_law"),
    ordering_policy=st.none() | st.sampled_from(list(OrderingPolicy)),
    yield_policy=st.none() | st.sampled_from(list(YieldPolicy)),
    max_parallel=st.none() | st.integers(1, 3),
    sibling_failure_policy=st.none() | st.sampled_from(list(SiblingFailurePolicy)),
)


@st.composite
def batches(draw):
    """Calls of some length, some alone and some in company, some failing, some waiting for earlier ones."""
    calls = []
    for place in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(["together", "alone", "fail", "missing"]))
        earlier = draw(st.lists(st.integers(0, place - 1), max_size=2, unique=True)) if place else []
        arguments = {"place": place, "seconds": draw(st.sampled_from([0, 0, 1, 2, 3]))}
        calls.append(ToolCall(name=name, arguments=arguments, depends_on=tuple(earlier)))
    return calls


def promises_order(policy):
    """Results keep the asked order unless somebody says otherwise and nobody contradicts (G-44)."""
    said = {policy.ordering_policy, policy.yield_policy} - {None}
    return not said or not said <= SAYING_UNORDERED


class Floor:
    """Where the tools of a batch run: notes who meets whom."""

    def __init__(self):
        self.inside, self.most, self.met_alone = [], 0, False
        self.tools = [
            scripted_tool("together", self.work, is_concurrency_safe=True, is_read_only=True),
            scripted_tool("alone", self.work),
            scripted_tool("fail", self.fail, is_concurrency_safe=True),
        ]

    async def work(self, job):
        self.inside.append(job.tool_id)
        self.most = max(self.most, len(self.inside))
        self.met_alone |= "tool_test.alone" in self.inside and len(self.inside) > 1
        try:
            await asyncio.sleep(job.call_input["seconds"])
        finally:
            self.inside.remove(job.tool_id)
        return job.call_input["place"]

    async def fail(self, job):
        await self.work(job)
        raise ValueError("as asked")


@pytest.mark.requirement("AT-SCHED-02", "AT-SCHED-12", "AT-SCHED-20", "AT-IFACE-18", "AT-RES-11")
@pytest.mark.slow
@given(calls=batches(), policy=policies)
def test_every_call_of_a_batch_has_one_result_and_they_leave_in_the_order_that_was_promised(
    run, opened, sound_export, *, calls, policy
):
    floor = Floor()

    async def scenario():
        async with opened(floor.tools, rules=ALLOW) as rt:
            surface = await rt.surface()
            left = [
                item async for item in rt.stream_batch(calls, surface=surface, policy=policy) if item.result is not None
            ]
            together = await rt.batch(calls, surface=surface, policy=policy)
            await sound_export(rt)
        return left, together

    left, together = run(scenario())
    places = [item.index for item in left]
    assert sorted(places) == list(range(len(calls)))
    if promises_order(policy):
        assert places == sorted(places)
    assert len({item.result.invocation_id for item in left}) == len(calls) == len(together)
    for results in ([item.result for item in sorted(left, key=lambda item: item.index)], together):
        for place, (call, result) in enumerate(zip(calls, results, strict=True)):
            if result.status == "succeeded":
                assert (result.structured_content, call.name in ("together", "alone")) == (place, True)
    assert not floor.met_alone
    limit = 1 if policy.ordering_policy == OrderingPolicy.SERIAL else policy.max_parallel
    assert floor.most <= (limit or len(calls))
