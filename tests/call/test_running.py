"""A call that would wait for the call whose tool makes it is refused at once."""

import asyncio
import gc

import pytest

from agenttool import Context, Hook, Runtime, ToolCall, tool
from agenttool.call.call import Call
from agenttool.records import HookEvent, ResourceLock, SchedulerPolicy

BOUND_S = 60
ALLOW = [{"behavior": "allow", "tool": "x.*"}]


def calling(make, **facts):
    """Return a tool that makes another call, and the other tool, which is exclusive; `make` gets the runtime."""
    opened = []

    @tool(namespace="x")
    async def inner(number: int) -> str:
        """Count. Not for words."""
        await asyncio.sleep(0)
        return f"inner {number}"

    @tool(namespace="x", **facts)
    async def outer(*, later: bool, ctx: Context) -> str:
        """Make another call. Not for counting."""
        if later:
            await asyncio.sleep(0)
        result = await make(opened[0], ctx)
        return result.text if result.ok else f"{result.error.error_code}: {result.error.message}"

    return opened, [inner, outer]


async def directly(rt, _ctx):
    return await rt.call("inner", {"number": 1})


async def in_a_task(rt, _ctx):
    return (await asyncio.gather(rt.call("inner", {"number": 1}), rt.call("inner", {"number": 2})))[1]


async def nested(_rt, ctx):
    return await ctx.call("inner", {"number": 1})


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("make", [directly, in_a_task])
@pytest.mark.parametrize("is_shared", [False, True])
async def test_an_exclusive_call_that_waits_for_its_caller_is_refused_at_once(tmp_path, make, later, kind, is_shared):
    opened, tools = calling(make, concurrency_safe=is_shared)
    store = "memory:" if kind == "memory" else tmp_path / "calls.db"
    async with Runtime.open(store=store, tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        result = await rt.call("outer", {"later": later})
        assert result.text.startswith("would_deadlock: this call would wait for the tool that makes it")
        assert "make the call with `ctx.call`" in result.text
        assert (await rt.call("inner", {"number": 3})).text == "inner 3"


async def test_a_nested_call_of_an_exclusive_call_runs_within_it():
    opened, tools = calling(nested)
    async with Runtime.open(tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        assert (await rt.call("outer", {"later": False})).text == "inner 1"


async def test_calls_beside_an_exclusive_call_still_wait_for_it():
    opened, tools = calling(nested)
    async with Runtime.open(tools=tools, rules=ALLOW) as rt, asyncio.timeout(BOUND_S):
        opened.append(rt)
        calls = [rt.call("outer", {"later": True}), *(rt.call("inner", {"number": n}) for n in range(3))]
        results = await asyncio.gather(*calls)
        assert [each.text for each in results] == ["inner 1", "inner 0", "inner 1", "inner 2"]


DOOR = (ResourceLock(resource="door", mode="exclusive"),)


def asking_tools(**facts):
    """Return a tool whose nested call is asked about, one that excludes it, and the record of what ran."""
    ran, started, may_end = [], asyncio.Event(), asyncio.Event()

    @tool(namespace="ask", concurrency_safe=True)
    async def inner() -> str:
        """Do the part that a person must allow. Not for words."""
        return "allowed"

    @tool(namespace="x", concurrency_safe=True)
    async def quick() -> str:
        """Return at once. Not for words."""
        return "quick"

    @tool(namespace="x", **facts)
    async def outer(ctx: Context, *, at_once: bool) -> str:
        """Make a nested call. Not for counting."""
        ran.append("outer asks")
        makes = [ctx.call("inner", {}), *([ctx.call("quick", {})] if at_once else [])]
        result, *_ = await asyncio.gather(*makes) if at_once else [await makes[0]]
        ran.append("outer continues")
        return result.text

    @tool(namespace="x", **facts)
    async def other() -> str:
        """Run until it may end. Not for words."""
        ran.append("other starts")
        started.set()
        await may_end.wait()
        ran.append("other ends")
        return "done"

    return [inner, outer, quick, other], ran, started, may_end


async def question_of(rt):
    while True:
        for found in await rt.approvals.list():
            return found
        await asyncio.sleep(0)


RULES = [*ALLOW, {"behavior": "ask", "tool": "ask.*"}]


@pytest.mark.parametrize("at_once", [False, True], ids=["directly", "beside a call that ends"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "facts", [{}, {"concurrency_safe": True, "locks": lambda _: DOOR}], ids=["exclusive", "with a lock"]
)
async def test_a_call_whose_nested_call_waits_for_a_person_delays_no_other_call(tmp_path, kind, at_once, facts):
    tools, ran, started, may_end = asking_tools(**facts)
    store = "memory:" if kind == "memory" else tmp_path / "calls.db"
    async with Runtime.open(store=store, tools=tools, rules=RULES, approve="wait") as rt, asyncio.timeout(BOUND_S):
        outer = asyncio.create_task(rt.call("outer", {"at_once": at_once}))
        question = await question_of(rt)
        other = asyncio.create_task(rt.call("other", {}))
        await started.wait()
        await rt.approvals.decide(question, "allow")
        may_end.set()
        assert [(await each).text for each in (outer, other)] == ["allowed", "done"]
    assert ran == ["outer asks", "other starts", "other ends", "outer continues"]


async def test_a_call_of_a_batch_that_waits_for_a_person_takes_no_slot_of_the_batch():
    tools, *_, may_end = asking_tools()
    may_end.set()
    policy = SchedulerPolicy(scheduler_policy_id="sched_1", max_parallel=1, ordering_policy="allow_unordered")
    async with Runtime.open(tools=tools, rules=RULES, approve="wait") as rt, asyncio.timeout(BOUND_S):
        calls = [ToolCall("outer", {"at_once": False}), ToolCall("other", {}), ToolCall("quick", {})]
        ended = []
        async for item in rt.stream_batch(calls, policy=policy):
            ended.append((item.index, item.result.text))
            if len(ended) == 2:
                await rt.approvals.decide(await question_of(rt), "allow")
    assert ended == [(1, "done"), (2, "quick"), (0, "allowed")]


async def test_a_call_that_is_canceled_while_it_waits_for_its_lock_again_does_not_continue():
    tools, ran, started, may_end = asking_tools(concurrency_safe=True, locks=lambda _: DOOR)
    async with Runtime.open(tools=tools, rules=RULES, approve="wait") as rt, asyncio.timeout(BOUND_S):
        outer = asyncio.create_task(rt.call("outer", {"at_once": False}))
        question = await question_of(rt)
        other = asyncio.create_task(rt.call("other", {}))
        await started.wait()
        await rt.approvals.decide(question, "allow")
        assert (await rt.calls.get(question.invocation_id).result()).ok
        outer.cancel()
        await asyncio.wait([outer])
        may_end.set()
        assert (await other).text == "done"
        assert (await rt.call("other", {})).text == "done"
    assert "outer continues" not in ran


def beginning(make):
    """Return a tool that starts a task and returns, and the list of its tasks."""
    tasks = []

    @tool(namespace="x", concurrency_safe=True)
    async def begin_task(name: str) -> str:
        """Start a task that outlives the call. Not for words."""
        tasks.append(asyncio.create_task(make()))
        return f"started {name}"

    return begin_task, tasks


async def test_a_call_of_a_task_whose_tool_has_ended_waits_for_the_calls_of_others():
    go, opened = asyncio.Event(), []

    async def make():
        await go.wait()
        return await opened[0].call("alone", {})

    @tool(namespace="x")
    async def alone() -> str:
        """Run alone. Not for words."""
        return "ran alone"

    @tool(namespace="x", concurrency_safe=True)
    async def slow() -> str:
        """Run beside others. Not for words."""
        await go.wait()
        await asyncio.sleep(0.05)
        return "slow"

    class Slow:
        async def run(self, _):
            go.set()
            await asyncio.sleep(0.02)

    begin_task, tasks = beginning(make)
    hook = Hook(event=HookEvent.POST_TOOL_USE, name="slow", runner=Slow(), tools=("x.begin_task",))
    async with Runtime.open(tools=[alone, slow, begin_task], rules=ALLOW, hooks=[hook]) as rt:
        opened.append(rt)
        other = asyncio.create_task(rt.call("slow", {}))
        assert (await rt.call("begin_task", {"name": "a"})).text == "started a"
        assert (await tasks[0]).text == "ran alone"
        assert (await other).text == "slow"


async def test_a_task_that_outlives_a_call_keeps_no_input_of_it_in_memory():
    begin_task, tasks = beginning(asyncio.Event().wait)
    async with Runtime.open(tools=[begin_task], rules=ALLOW) as rt:
        assert (await rt.call("begin_task", {"name": "outlived"})).ok
        gc.collect()
        calls = [each for each in gc.get_objects() if isinstance(each, Call)]
        assert [each for each in calls if each.final_input == {"name": "outlived"}] == []
        tasks[0].cancel()
