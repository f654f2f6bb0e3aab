"""A process whose lease expired: others have its calls, and it continues with new ones."""

import asyncio
import sqlite3
from contextlib import closing, suppress

import pytest
from starting import begin

from agenttool import Context, ToolCall, tool
from agenttool.call.call_state import MAX_ATTEMPTS
from agenttool.codec import write
from agenttool.durable import recovery
from agenttool.errors import ConfigError
from agenttool.journal import steps
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
        return len(rt.calls.open_ids()) == count and (rt.calls.open_ids() or [None])

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
        assert await rt.journal.result(invocation_id) is None, "no caller has received it"
        fall_asleep(slept)
        result = await result_of(rt, invocation_id)
        assert (result.error, result.content[0].text) == (None, "did 2")
        assert list(rt._core.journal.log.verify()) == []
        batch.cancel()
        await asyncio.wait([batch])
        assert list(rt._core.journal.log.verify()) == [], "what the sleeper said afterwards is not on record"


async def test_a_process_taken_for_dead_continues_with_other_calls(living, tmp_path):
    async with living.open_runtime(tmp_path, tools=TOOLS) as slept, living.open_runtime(tmp_path, tools=TOOLS) as rt:
        surface = await slept.surface()
        calling = asyncio.ensure_future(slept.call("endless", {"number": 1}, surface=surface))
        (invocation_id,) = await under_way(slept, 1)
        fall_asleep(slept)
        first_result = await result_of(rt, invocation_id)
        assert first_result.error.error_code == "unknown_after_crash"
        wake_up(slept)

        async def works_again():
            done = await slept.call("quick", {"number": 3}, surface=surface)
            return done.error is None and done

        done = await until(works_again)
        assert write(await rt.journal.result(done.invocation_id)) == write(done)
        mine = await calling
        assert mine.error.error_code == "waits_for_answer", "what another process said of it stands"
        assert write(await rt.journal.result(invocation_id)) == write(first_result)
        assert list(rt._core.journal.log.verify()) == []


async def test_a_call_that_only_reads_has_no_unknown_effect_after_too_many_attempts(
    living, edit_stored, sound, tmp_path
):
    @tool(read_only=True)
    async def watch(number: int) -> str:
        """Wait for what does not come, and change nothing."""
        await asyncio.Event().wait()
        return "never"

    tools = [watch]
    async with living.open_runtime(tmp_path, tools=tools) as slept, living.open_runtime(tmp_path, tools=tools) as rt:
        starting = asyncio.ensure_future(begin(slept, "watch", {"number": 1}, idempotency_key="key"))

        async def saved():
            return [each.invocation_id for each in await rt._agent.recovery.calls.page(limit=1) if each.body]

        (invocation_id,) = await until(saved)
        edit_stored(lambda checkpoint: checkpoint.update(attempts=MAX_ATTEMPTS))
        fall_asleep(slept)
        result = await result_of(rt, invocation_id)
        assert result.error.error_code == "process_died"
        starting.cancel()
        await sound(rt)


async def test_a_call_that_only_reads_is_canceled_after_its_process_died(living, tmp_path):
    is_running = asyncio.Event()

    @tool(read_only=True)
    async def watch(number: int) -> str:
        """Wait for what does not come, and change nothing."""
        is_running.set()
        await asyncio.Event().wait()
        return "never"

    tools = [watch]
    async with living.open_runtime(tmp_path, tools=tools) as slept, living.open_runtime(tmp_path, tools=[]) as rt:
        starting = asyncio.ensure_future(begin(slept, "watch", {"number": 1}, idempotency_key="key"))
        await is_running.wait()
        (invocation_id,) = slept.calls.open_ids()
        fall_asleep(slept)
        await until(lambda: rt.cancel(invocation_id))
        result = await result_of(rt, invocation_id)
        assert (result.error.error_code, result.error.abort_reason) == ("canceled", "user_interruption")
        starting.cancel()
        assert list(rt._core.journal.log.verify()) == []


def end_lease(folder):
    """Let other processes claim the calls of all processes."""
    with closing(sqlite3.connect(folder / "state.db")) as file, file:
        file.execute("DELETE FROM processes")


async def test_a_process_that_lost_its_lease_continues_its_own_call_once_it_is_approved(living, tmp_path):
    async with living.open_runtime(tmp_path) as rt:
        started = await begin(rt, "send", {"number": 1}, surface=await rt.surface())
        (question,) = await until(rt.approvals.list)
        end_lease(tmp_path)
        await under_way(rt, 0)
        await rt.approvals.decide(question.approval_id, "allow", by="eve")
        result = await result_of(rt, started.invocation_id)
        assert (result.error, result.text) == (None, "wrote 1")
        assert [call for _, call, _ in living.ledger_of(tmp_path)] == [started.invocation_id]
        assert list(rt._core.journal.log.verify()) == []


async def test_a_call_that_depended_on_one_that_was_lost_before_it_was_recorded_names_no_missing_record(
    living, sound, tmp_path
):
    @tool(read_only=True, concurrency_safe=True)
    async def watch(number: int) -> str:
        """Wait for what does not come, and change nothing."""
        await asyncio.Event().wait()
        return "never"

    async with living.open_runtime(tmp_path, tools=[*TOOLS, watch]) as rt:
        surface = await rt.surface()
        await rt.call("quick", {"number": 1}, surface=surface)
        fall_asleep(rt)
        end_lease(tmp_path)
        calls = [ToolCall("watch", {"number": 2}), ToolCall("quick", {"number": 3}, depends_on=(0,))]
        batch = asyncio.ensure_future(rt.batch(calls, surface=surface))
        await under_way(rt, 2)
        wake_up(rt)
        lost, dependent = await batch
        assert await rt.journal.result(lost.invocation_id) is None
        assert (await rt.journal.result(dependent.invocation_id)).error.error_code == "sibling_canceled"
        await sound(rt)


async def test_a_handle_of_a_call_that_was_lost_before_it_was_recorded_says_so_and_what_to_do(living, tmp_path):
    @tool(read_only=True, concurrency_safe=True)
    async def watch(number: int) -> str:
        """Wait for what does not come, and change nothing."""
        await asyncio.Event().wait()
        return "never"

    async with living.open_runtime(tmp_path, tools=[quick, watch]) as rt:
        await rt.call("quick", {"number": 1})
        fall_asleep(rt)
        end_lease(tmp_path)
        call = await rt.start("watch", {"number": 2})
        await under_way(rt, 1)
        wake_up(rt)
        lost = "was lost with the lease of its process before it was recorded; find out whether it ran"
        with pytest.raises(ConfigError, match=lost):
            await call.result()


async def test_a_call_that_depended_on_one_that_could_not_be_recorded_names_no_missing_record(living, sound, tmp_path):
    async with living.open_runtime(tmp_path, tools=TOOLS) as rt:
        surface = await rt.surface()
        await rt.call("quick", {"number": 1}, surface=surface)
        fall_asleep(rt)
        end_lease(tmp_path)
        calls = [ToolCall("quick", {"number": 2}), ToolCall("quick", {"number": 3}, depends_on=(0,))]
        policy = SchedulerPolicy(scheduler_policy_id="sched_1", ordering_policy=OrderingPolicy.ALLOW_UNORDERED)
        lost, dependent = await rt.batch(calls, surface=surface, policy=policy)
        wake_up(rt)
        recorded = await until(lambda: rt.journal.result(dependent.invocation_id))
        assert recorded.error.error_code == "sibling_canceled"
        assert await rt.journal.result(lost.invocation_id) is None
        await sound(rt)


def stubborn_tool(**options):
    """Return a tool that ignores requests to stop, an event that it sets, and one that ends it."""
    is_running, may_end = asyncio.Event(), asyncio.Event()

    @tool(concurrency_safe=True, **options)
    async def stubborn(number: int) -> str:
        """Ignore requests to stop."""
        is_running.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        return "ended"

    return stubborn, is_running, may_end


async def test_a_planned_call_is_not_stored_with_a_dependency_that_is_lost(living, sound, tmp_path):
    stubborn, is_running, may_end = stubborn_tool(read_only=True)

    async with living.open_runtime(tmp_path, tools=[stubborn, quick]) as rt:
        surface = await rt.surface()
        await rt.call("quick", {"number": 1}, surface=surface)
        fall_asleep(rt)
        end_lease(tmp_path)
        calls = [
            ToolCall(name="stubborn", arguments={"number": 2}, invocation_id=rt.calls.new_id()),
            ToolCall(name="quick", arguments={"number": 3}, invocation_id=rt.calls.new_id(), depends_on=(0,)),
        ]
        owner, batch = rt._agent.recovery.calls.owner, asyncio.ensure_future(rt.batch(calls, surface=surface))
        await is_running.wait()
        wake_up(rt)
        await until(lambda: asyncio.sleep(0, result=rt._agent.recovery.calls.owner != owner))
        await rt.journal.checkpoint([each.invocation_id for each in calls])
        may_end.set()
        await batch
        assert (await result_of(rt, calls[1].invocation_id)).error.error_code == "sibling_canceled"
        await sound(rt)


async def test_a_planned_call_ends_although_its_live_process_lost_the_call_that_it_depends_on(living, sound, tmp_path):
    stubborn, is_running, may_end = stubborn_tool()

    async with living.open_runtime(tmp_path, tools=[stubborn, quick]) as rt:
        calls = [
            ToolCall(name="stubborn", arguments={"number": 1}, invocation_id=rt.calls.new_id()),
            ToolCall(name="quick", arguments={"number": 2}, invocation_id=rt.calls.new_id(), depends_on=(0,)),
        ]
        batch = asyncio.ensure_future(rt.batch(calls, surface=await rt.surface()))
        await is_running.wait()
        owner = rt._agent.recovery.calls.owner
        end_lease(tmp_path)
        await until(lambda: asyncio.sleep(0, result=rt._agent.recovery.calls.owner != owner))
        await rt.journal.checkpoint([each.invocation_id for each in calls])
        may_end.set()
        await batch
        lost, planned = [await result_of(rt, each.invocation_id) for each in calls]
        assert (lost.error.error_code, planned.text) == ("unknown_after_crash", "did 2")
        await sound(rt)


async def test_a_tool_whose_process_lost_its_lease_makes_no_more_nested_calls(living, tmp_path):
    attempts, may_continue = [], asyncio.Event()

    @tool(idempotent=True, concurrency_safe=True)
    async def composite(number: int, context: Context) -> str:
        """Make a nested call; ignore the first request to stop."""
        attempts.append(number)
        while len(attempts) == 1 and not may_continue.is_set():
            with suppress(asyncio.CancelledError):
                await may_continue.wait()
        return (await context.call("mark", {"number": number})).text

    tools = [*living.tools_of(tmp_path), composite]
    async with living.open_runtime(tmp_path, tools=tools) as slept, living.open_runtime(tmp_path, tools=tools) as rt:
        calling = asyncio.ensure_future(slept.call("composite", {"number": 6}, surface=await slept.surface()))
        (opened,) = await until(lambda: slept._agent.recovery.calls.page(limit=1))
        fall_asleep(slept)
        result = await result_of(rt, opened.invocation_id)
        assert (result.error, result.text) == (None, "wrote 6")
        owner = slept._agent.recovery.calls.owner
        wake_up(slept)
        await until(lambda: asyncio.sleep(0, result=slept._agent.recovery.calls.owner != owner))
        may_continue.set()
        mine = await calling
        assert mine.error.message == (
            "its process lost its lease while the tool ran; another process records the end of " + opened.invocation_id
        )
        assert [number for _, _, number in living.ledger_of(tmp_path)] == [6]
        assert list(rt._core.journal.log.verify()) == []


async def test_a_process_that_slept_between_its_heartbeat_and_a_claim_recovers_the_call_later(
    dies, survivor, ended, living, tmp_path
):
    async with survivor(lease_s=3600) as rt:
        await rt.calls.recover()
        fall_asleep(rt)
        dies("pay")
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            file.execute("UPDATE processes SET alive_until_ns = 0, steady_until_ns = 0")
        assert await rt.calls.recover() == 0, "its own lease has expired, too"
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
        assert await rt.calls.recover() == 0
        assert await rt.journal.result(invocation_id) is None, "a process with the tool may come"
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
        rt.calls.interrupt(blocking=True)
        await asyncio.wait(calls)


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_a_reader_of_a_runtime_that_closes_gets_the_rest_and_waits_no_more(living, tmp_path, place):
    where = {"store": place, "approve": "wait"} if place == "memory:" else {}
    received = []

    async def follow(rt):
        async for position, _ in rt.journal.events():
            received.append(position)

    async with living.open_runtime(tmp_path, tools=TOOLS, **where) as rt:
        following = asyncio.ensure_future(follow(rt))
        await rt.call("quick", {"number": 1}, surface=await rt.surface())
        await until(lambda: asyncio.sleep(0, result=received))
    await following
    assert received


async def _has_no_questions(rt):
    return await rt.approvals.list() == ()


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_a_call_that_ended_while_others_of_its_batch_run_asks_no_approver_any_more(living, tmp_path, place):
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
        rt.calls.interrupt(blocking=True)
        await batch
        assert living.ledger_of(tmp_path) == []
