"""A process that said nothing for too long: others have its calls, and it goes on with new ones."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from agenttool import Context, ToolCall, tool
from agenttool.codec import write
from agenttool.journal import steps
from agenttool.pipeline import recovery
from agenttool.policy.approvals import Refused
from agenttool.records import OrderingPolicy, SchedulerPolicy


@tool(concurrency_safe=True)
async def quick(number: int) -> str:
    """Do it."""
    return f"did {number}"


@tool(concurrency_safe=True)
async def endless(number: int) -> str:
    """Wait for what does not come."""
    await asyncio.Event().wait()
    return "never"


@tool(idempotent=True, concurrency_safe=True)
async def outer(number: int, context: Context) -> str:
    """Make another call, unless this is the first attempt."""
    if not outer_may_end.is_set():
        await asyncio.Event().wait()
    result = await context.call("quick", {"number": number})
    return result.content[0].text


outer_may_end = asyncio.Event()
TOOLS = [quick, endless, outer]


def fall_asleep(rt):
    """Let a runtime say nothing any more, as if its process slept."""
    rt._agent.recovery._task.cancel()


def wake_up(rt):
    rt._agent.recovery._task = asyncio.ensure_future(rt._agent.recovery._poll())


async def until(found):
    for _ in range(600):
        if outcome := await found():
            return outcome
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


async def result_of(rt, invocation_id):
    return await until(lambda: rt.journal.result(invocation_id))


async def under_way(rt, count):
    async def found():
        return len(rt.open_calls()) == count and rt.open_calls()

    return await until(found)


async def test_a_result_that_waited_for_others_of_its_batch_leaves_as_it_was_made(living, tmp_path):
    async with living.open_runtime(tmp_path, tools=TOOLS) as slept, living.open_runtime(tmp_path, tools=TOOLS) as rt:
        surface = await slept.surface()
        calls = [ToolCall(name="endless", arguments={"number": 1}), ToolCall(name="quick", arguments={"number": 2})]
        policy = SchedulerPolicy(scheduler_policy_id="sched_x", ordering_policy=OrderingPolicy.PRESERVE_TERMINAL_ORDER)
        batch = asyncio.ensure_future(slept.batch(calls, surface=surface, policy=policy))

        async def made():
            facts = [fact for _, fact in slept._core.journal.log.read(0, 1000)]
            return [fact.invocation_id for fact in facts if fact.step is steps.CREATED]

        (invocation_id,) = await until(made)
        assert await rt.journal.result(invocation_id) is None, "nobody has been given it"
        fall_asleep(slept)
        result = await result_of(rt, invocation_id)
        assert (result.error, result.content[0].text) == (None, "did 2")
        assert list(rt._core.journal.log.verify()) == []
        batch.cancel()
        await asyncio.wait([batch])
        assert list(rt._core.journal.log.verify()) == [], "what the sleeper said afterwards is not on record"


async def test_a_process_taken_for_dead_goes_on_with_other_calls(living, tmp_path):
    async with living.open_runtime(tmp_path, tools=TOOLS) as slept, living.open_runtime(tmp_path, tools=TOOLS) as rt:
        surface = await slept.surface()
        calling = asyncio.ensure_future(slept.call("endless", {"number": 1}, surface=surface))
        (invocation_id,) = await under_way(slept, 1)
        fall_asleep(slept)
        told = await result_of(rt, invocation_id)
        assert told.error.error_code == "unknown_after_crash"
        wake_up(slept)

        async def works_again():
            done = await slept.call("quick", {"number": 3}, surface=surface)
            return done.error is None and done

        done = await until(works_again)
        assert write(await rt.journal.result(done.invocation_id)) == write(done)
        await slept.cancel(invocation_id)
        mine = await calling
        assert mine.error.error_code == "result_not_stored", "what another process said of it stands"
        assert write(await rt.journal.result(invocation_id)) == write(told)
        assert list(rt._core.journal.log.verify()) == []


async def test_a_process_that_slept_between_its_heartbeat_and_a_claim_recovers_the_call_later(
    dies, survivor, ended, living, tmp_path
):
    async with survivor(lease_s=3600) as rt:
        await rt.recover()
        fall_asleep(rt)
        dies("pay")
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            file.execute("UPDATE processes SET alive_until_ns = 0, steady_until_ns = 0")
        assert await rt.recover() == 0, "its own lease has expired, too"
        rt._core.durability.lease_s = living.LEASE_S
        wake_up(rt)
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"


async def test_a_tool_that_is_run_again_can_make_calls_on_its_surface(living, tmp_path):
    outer_may_end.clear()
    async with living.open_runtime(tmp_path, tools=TOOLS) as slept, living.open_runtime(tmp_path, tools=TOOLS) as rt:
        surface = await slept.surface()
        calling = asyncio.ensure_future(slept.call("outer", {"number": 4}, surface=surface))
        (invocation_id,) = await under_way(slept, 1)
        fall_asleep(slept)
        outer_may_end.set()
        result = await result_of(rt, invocation_id)
        assert (result.error, result.content[0].text) == (None, "did 4")
        calling.cancel()
        await asyncio.wait([calling])


async def test_a_call_whose_tool_is_nowhere_is_ended_after_a_day(living, tmp_path, monkeypatch):
    outer_may_end.clear()
    async with living.open_runtime(tmp_path, tools=TOOLS) as slept, living.open_runtime(tmp_path, tools=[]) as rt:
        surface = await slept.surface()
        calling = asyncio.ensure_future(slept.call("outer", {"number": 5}, surface=surface))
        (invocation_id,) = await under_way(slept, 1)
        fall_asleep(slept)
        for _ in range(50):
            await asyncio.sleep(0.02)
        assert await rt.recover() == 0
        assert await rt.journal.result(invocation_id) is None, "somebody with the tool may come"
        monkeypatch.setattr(recovery, "ABANDONED_AFTER_S", 0.0)
        rt._agent.recovery._abandoned_ns.clear()
        assert (await result_of(rt, invocation_id)).error.error_code == "unknown_after_crash"
        calling.cancel()
        await asyncio.wait([calling])


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_open_questions_are_listed_page_by_page(living, tmp_path, place):
    where = {"store": place, "approve": "wait"} if place == "memory:" else {}
    async with living.open_runtime(tmp_path, **where) as rt:
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call("send", {"number": n}, surface=surface)) for n in range(5)]

        async def all_asked():
            asked = await rt.approvals.list()
            return len(asked) == 5 and asked

        asked = await until(all_asked)
        first = await rt.approvals.list(limit=2)
        rest = await rt.approvals.list(limit=9, after=first[-1].approval_id)
        assert [each.approval_id for each in (*first, *rest)] == [each.approval_id for each in asked]
        assert len(rest) == 3
        rt.cancel_all()
        await asyncio.wait(calls)


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_who_follows_a_runtime_that_closes_hears_the_rest_and_waits_no_more(living, tmp_path, place):
    where = {"store": place, "approve": "wait"} if place == "memory:" else {}
    heard = []

    async def follow(rt):
        async for position, _ in rt.journal.events():
            heard.append(position)

    async with living.open_runtime(tmp_path, tools=TOOLS, **where) as rt:
        following = asyncio.ensure_future(follow(rt))
        await rt.call("quick", {"number": 1}, surface=await rt.surface())
        await until(lambda: asyncio.sleep(0, result=heard))
    await following
    assert heard


async def _has_no_questions(rt):
    return await rt.approvals.list() == ()


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_a_call_that_ended_while_others_of_its_batch_run_asks_nobody_any_more(living, tmp_path, place):
    where = {"store": place, "approve": "wait"} if place == "memory:" else {}
    tools = [*living.tools_of(tmp_path), endless]
    async with living.open_runtime(tmp_path, tools=tools, **where) as rt:
        calls = [ToolCall(name="endless", arguments={"number": 1}), ToolCall(name="send", arguments={"number": 2})]
        policy = SchedulerPolicy(scheduler_policy_id="sched_x", ordering_policy=OrderingPolicy.PRESERVE_TERMINAL_ORDER)
        batch = asyncio.ensure_future(rt.batch(calls, surface=await rt.surface(), policy=policy))
        (question,) = await until(rt.approvals.list)
        await rt.cancel(question.invocation_id)
        await until(lambda: _has_no_questions(rt))
        assert isinstance(await rt.approvals.decide(question.approval_id, "allow"), Refused)
        rt.cancel_all()
        await batch
        assert living.ledger_of(tmp_path) == []
