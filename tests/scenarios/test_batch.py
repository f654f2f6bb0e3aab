"""Several calls at once, through the public door."""

import asyncio

import pytest

from agenttool import Runtime, ToolCall, tool
from agenttool.records import (
    OrderingPolicy,
    SchedulerPolicy,
    SiblingFailurePolicy,
    ToolEvent,
)


def policy(**fields):
    return SchedulerPolicy(scheduler_policy_id="sched_test", **fields)


class Watch:
    """Tools that note who runs beside whom."""

    def __init__(self):
        self.inside, self.peak, self.log = 0, 0, []

        @tool(read_only=True, concurrency_safe=True, open_world=False)
        async def read(n: int) -> int:
            """Read. Not for writing."""
            return await self.work("read", n)

        @tool
        async def write(n: int) -> int:
            """Write. Not for reading."""
            return await self.work("write", n)

        @tool(concurrency_safe=True)
        async def fail(n: int) -> int:
            """Fail. Not for success."""
            raise ValueError(f"failed {n}")

        self.tools = [read, write, fail]

    async def work(self, name, n):
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        self.log.append((name, n, self.inside))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.inside -= 1
        return n


@pytest.fixture
def run(allow):
    async def run(watch, calls, **fields):
        async with Runtime.open(tools=watch.tools, rules=allow) as rt:
            surface = await rt.surface()
            return await rt.batch(calls, surface=surface, policy=policy(**fields))

    return run


def call(name, n, *depends_on):
    return ToolCall(name=name, arguments={"n": n}, depends_on=depends_on)


@pytest.mark.requirement("AT-SCHED-20")
async def test_no_more_than_max_parallel_run_at_once(run):
    watch = Watch()
    await run(watch, [call("read", n) for n in range(9)], max_parallel=3)
    assert watch.peak == 3


@pytest.mark.requirement("AT-SCHED-02", "AT-SCHED-12")
async def test_results_leave_in_asked_order_unless_unordered_is_allowed(allow):
    release = asyncio.Event()

    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def slow() -> str:
        """Wait for the other. Not for haste."""
        await release.wait()
        return "slow"

    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def quick() -> str:
        """Answer at once. Not for patience."""
        release.set()
        return "quick"

    for ordering, wanted in ((None, ["slow", "quick"]), (OrderingPolicy.ALLOW_UNORDERED, ["quick", "slow"])):
        release.clear()
        async with Runtime.open(tools=[slow, quick]) as rt:
            surface = await rt.surface()
            calls = [ToolCall(name="slow", arguments={}), ToolCall(name="quick", arguments={})]
            left = [
                item.result.structured_content or item.result.model_facing_content[0].text
                async for item in rt.stream_batch(calls, surface=surface, policy=policy(ordering_policy=ordering))
            ]
        assert left == wanted


@pytest.mark.requirement("AT-SCHED-15")
async def test_under_ignore_a_failure_affects_no_other_call(run):
    results = await run(Watch(), [call("fail", 0), call("read", 1), call("read", 2)])
    assert [result.status.value for result in results] == ["failed", "succeeded", "succeeded"]


@pytest.mark.requirement("AT-SCHED-16")
async def test_under_cancel_siblings_a_failure_takes_the_unfinished_along(allow):
    stuck = asyncio.Event()

    @tool(concurrency_safe=True)
    async def wait() -> str:
        """Wait for ever. Not for results."""
        stuck.set()
        await asyncio.Event().wait()
        return "never"

    @tool(concurrency_safe=True)
    async def fail_late() -> str:
        """Fail once the other runs. Not for success."""
        await stuck.wait()
        raise ValueError("late")

    async with Runtime.open(tools=[wait, fail_late], rules=allow) as rt:
        surface = await rt.surface()
        results = await rt.batch(
            [ToolCall(name="wait", arguments={}), ToolCall(name="fail_late", arguments={})],
            surface=surface,
            policy=policy(sibling_failure_policy=SiblingFailurePolicy.CANCEL_SIBLINGS),
        )
    assert [result.status.value for result in results] == ["synthetic_error", "failed"]


async def test_a_call_that_waited_for_a_permit_starts_before_the_end_of_the_previous_call_is_recorded():
    async with Runtime.open(tools=Watch().tools) as rt:
        surface = await rt.surface()
        await rt.batch(
            [call("read", 0), call("read", 1), call("read", 2)], surface=surface, policy=policy(max_parallel=1)
        )
        recorded = [record.event_type.value async for record in rt.journal.export() if isinstance(record, ToolEvent)]
    begins = [place for place, kind in enumerate(recorded) if kind == "tool.invocation.started"]
    ends = [place for place, kind in enumerate(recorded) if kind == "tool.invocation.succeeded"]
    assert begins[1] < ends[0] < begins[2]


async def test_a_batch_that_is_canceled_as_a_tool_ends_keeps_what_the_tool_gave(allow):
    batches, began = [], []

    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def read(n: int) -> int:
        """Read. Not for writing."""
        began.append(n)
        await asyncio.sleep(0)
        if not n:
            asyncio.get_running_loop().call_soon(batches[0].cancel)
        return n

    async with Runtime.open(tools=[read], rules=allow) as rt:
        surface = await rt.surface()
        calls = [ToolCall(name="read", arguments={"n": n}) for n in range(3)]
        batches.append(asyncio.ensure_future(rt.batch(calls, surface=surface, policy=policy(max_parallel=1))))
        with pytest.raises(asyncio.CancelledError):
            await batches[0]
        events = [record async for record in rt.journal.export() if isinstance(record, ToolEvent)]
    ends = [event.event_type.value for event in events if event.event_type.is_terminal]
    assert ends.count("tool.invocation.succeeded") == 1
    assert len(ends) == len(calls)
