"""A call that is started twice under one id or one idempotency key runs once, in one process and in several."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest
from starting import begin

from agenttool import Context, Runtime, Sensitive, tool
from agenttool.errors import ConfigError, StoreError
from agenttool.hooks.definition import Hook
from agenttool.records import Behavior, HookEvent

HERE = Path(__file__).parent
AT_ONCE = 5
BOUND_S = 60


@pytest.fixture
def ran():
    """How often each number was paid."""
    return Counter()


@pytest.fixture
def tools(ran):
    """`pay`, which notes that it ran, and `open_safe`, which has a secret."""

    @tool
    async def pay(number: int) -> str:
        """Pay."""
        ran[number] += 1
        await asyncio.sleep(0)
        return f"paid {number}"

    @tool
    async def open_safe(pin: Annotated[int, Sensitive]) -> str:
        """Open the safe."""
        ran[pin] += 1
        return "open"

    return [pay, open_safe]


@pytest.fixture
def opened(tools, living, tmp_path):
    """Open a runtime on a store; two of them on one file are like two processes."""
    return lambda store="sqlite": Runtime.open(
        tools=tools, rules=living.RULES, store="memory:" if store == "memory" else f"sqlite:{tmp_path}/state.db"
    )


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_starts_at_the_same_time_with_one_id_run_once(opened, ran, store):
    async with opened(store) as rt, asyncio.timeout(BOUND_S):
        name, surface = rt.calls.new_id(), await rt.surface()
        started = await asyncio.gather(
            *(begin(rt, "pay", {"number": 1}, surface=surface, invocation_id=name) for _ in range(AT_ONCE))
        )
        assert {each.invocation_id for each in started} == {name}
        assert (await rt.calls.get(name).result()).status == "succeeded"
        assert ran == {1: 1}


async def test_starts_in_two_processes_with_one_id_run_once(opened, ran):
    async with opened() as one, opened() as two, asyncio.timeout(BOUND_S):
        shown = {rt: await rt.surface() for rt in (one, two)}
        for number in range(10):
            name = one.calls.new_id()
            starts = (
                begin(rt, "pay", {"number": number}, surface=shown[rt], invocation_id=name)
                for rt in (one, two, one, two)
            )
            started = await asyncio.gather(*starts)
            assert {each.invocation_id for each in started} == {name}
        assert ran == dict.fromkeys(range(10), 1)
        assert list(one._core.journal.log.verify()) == []


async def test_an_id_of_a_call_that_was_made_without_a_start_names_that_call(opened, ran):
    async with opened("memory") as rt:
        surface = await rt.surface()
        first = await rt.call("pay", {"number": 1}, surface=surface)
        again = await begin(rt, "pay", {"number": 1}, surface=surface, invocation_id=first.invocation_id)
        assert again.invocation_id == first.invocation_id
        assert ran == {1: 1}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("is_started", [True, False])
async def test_an_id_belongs_to_one_request(opened, ran, store, is_started):
    async with opened(store) as rt:
        surface, name = await rt.surface(), rt.calls.new_id()
        if is_started:
            await begin(rt, "pay", {"number": 1}, surface=surface, invocation_id=name)
        else:
            name = (await rt.call("pay", {"number": 1}, surface=surface)).invocation_id
        for other, given in (("pay", {"number": 2}), ("open_safe", {"pin": 4711}), ("no_such_tool", {})):
            with pytest.raises(ConfigError, match="used for another tool or other arguments"):
                await begin(rt, other, given, surface=surface, invocation_id=name)
        again = await begin(rt, "pay", {"number": 1}, surface=surface, invocation_id=name)
        assert again.invocation_id == name
        assert ran == {1: 1}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_an_id_of_a_call_with_another_secret_is_refused(opened, ran, store):
    async with opened(store) as rt:
        surface, name = await rt.surface(), rt.calls.new_id()
        for _ in range(2):
            await begin(rt, "open_safe", {"pin": 4711}, surface=surface, invocation_id=name)
        with pytest.raises(ConfigError, match="used for another tool or other arguments"):
            await begin(rt, "open_safe", {"pin": 9999}, surface=surface, invocation_id=name)
    assert ran == {4711: 1}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_calls_with_one_key_run_once_and_have_one_result(opened, ran, store):
    async with opened(store) as rt, asyncio.timeout(BOUND_S):
        surface = await rt.surface()
        calls = (rt.call("pay", {"number": 1}, surface=surface, idempotency_key="order 7") for _ in range(AT_ONCE))
        results = await asyncio.gather(*calls)
        later = await begin(rt, "pay", {"number": 1}, surface=surface, idempotency_key="order 7")
        assert {each.result_id for each in results} == {results[0].result_id}
        assert later.invocation_id == results[0].invocation_id
        other = await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="order 8")
        assert other.invocation_id != results[0].invocation_id
        assert ran == {1: 2}


async def test_a_key_is_known_in_the_next_process(opened, ran):
    async with opened() as rt:
        first = await rt.call("pay", {"number": 1}, surface=await rt.surface(), idempotency_key="k")
    async with opened() as rt:
        again = await rt.call("pay", {"number": 1}, surface=await rt.surface(), idempotency_key="k")
        assert again == first
        assert ran == {1: 1}


async def test_a_key_belongs_to_one_request_and_one_actor(opened, ran):
    async with opened("memory") as rt:
        surface = await rt.surface()
        for name, given in (("pay", {"number": 1}), ("open_safe", {"pin": 4711})):
            await rt.call(name, given, surface=surface, idempotency_key=name, actor_ref="ada")
        with pytest.raises(ConfigError, match="used for another tool or other arguments"):
            await rt.call("pay", {"number": 2}, surface=surface, idempotency_key="pay", actor_ref="ada")
        with pytest.raises(ConfigError, match="used for another tool or other arguments"):
            await begin(rt, "open_safe", {"pin": 4711}, surface=surface, idempotency_key="pay", actor_ref="ada")
        unknown = await rt.call("no_such_tool", {}, surface=surface, idempotency_key="pay", actor_ref="ada")
        assert unknown.error.error_class == "unknown_tool"
        await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="pay", actor_ref="bob")
        assert ran == {1: 2, 4711: 1}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_key_of_a_call_with_another_secret_is_refused(opened, ran, store):
    async with opened(store) as rt:
        surface = await rt.surface()
        first = await rt.call("open_safe", {"pin": 4711}, surface=surface, idempotency_key="k")
        again = await rt.call("open_safe", {"pin": 4711}, surface=surface, idempotency_key="k")
        with pytest.raises(ConfigError, match="used for another tool or other arguments"):
            await rt.call("open_safe", {"pin": 9999}, surface=surface, idempotency_key="k")
    assert again == first
    assert ran == {4711: 1}


async def test_actors_and_keys_that_look_alike_when_joined_are_different(opened, ran):
    async with opened("memory") as rt:
        surface = await rt.surface()
        for actor, key in (("ada", "bob c"), ("ada bob", "c"), (None, " c"), ("", "c")):
            await rt.call("pay", {"number": 1}, surface=surface, idempotency_key=key, actor_ref=actor)
    assert ran == {1: 4}


async def test_a_caller_whose_surface_lacks_the_tool_is_refused_with_or_without_a_key(opened, ran):
    async with opened("memory") as rt:
        await rt.call("pay", {"number": 1}, surface=await rt.surface(), idempotency_key="k")
        small = await rt.surface(only=["local.open_safe"])
        refused = await rt.call("pay", {"number": 1}, surface=small, idempotency_key="k")
    assert refused.error.error_class == "blocked_tool"
    assert ran == {1: 1}


async def test_an_input_that_a_hook_changes_and_rules_deny_runs_once_by_its_key(tools, ran):
    class Halve:
        async def run(self, question):
            return {"updated_input": {"number": 1}}

    hook = Hook(name="halve", event=HookEvent.PRE_TOOL_USE, runner=Halve(), is_trusted=True)
    rules = [
        {"behavior": "allow", "tool": "local.*"},
        {"behavior": "deny", "tool": "local.pay", "argument": {"/number": {"min": 2}}},
    ]
    async with Runtime.open(tools=tools, rules=rules, hooks=[hook]) as rt:
        results = [await rt.call("pay", {"number": 5}, idempotency_key="k") for _ in range(3)]
    assert len({each.result_id for each in results}) == 1
    assert sum(ran.values()) <= 1


async def test_a_key_gives_no_result_to_a_caller_whose_call_is_refused(opened, ran, living):
    deny = replace(living.RULES[1], ref="deny", behavior=Behavior.DENY)
    async with opened("memory") as rt:
        surface = await rt.surface()
        await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
        child = rt.child(surface, rules=[deny])
        refused = await child.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
    assert refused.error.error_class == "permission_denied"
    assert ran == {1: 1}


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", 7])
async def test_an_invalid_key_is_refused(opened, ran, key):
    async with opened("memory") as rt:
        with pytest.raises(ConfigError, match="1 to 255 printable characters"):
            await rt.call("pay", {"number": 1}, surface=await rt.surface(), idempotency_key=key)
        with pytest.raises(ConfigError, match="not both"):
            await begin(rt, "pay", {}, invocation_id=rt.calls.new_id(), idempotency_key="k")
        assert not ran


@pytest.mark.parametrize("how", ["await", "gather", "task group", "thread", "wait"])
async def test_a_tool_that_calls_itself_with_its_own_key_fails_and_does_not_wait_for_itself(how):
    loop = asyncio.get_running_loop()

    def repeat():
        return rt.call(f"local.{name}", {}, idempotency_key="k")

    @tool
    async def again(context: Context) -> str:
        """Call itself."""
        if how == "wait":
            return (await rt.calls.get(context.invocation_id).result()).text
        if how == "gather":
            return (await asyncio.gather(repeat()))[0].text
        if how == "task group":
            async with asyncio.TaskGroup() as group:
                task = group.create_task(repeat())
            return task.result().text
        return (await repeat()).text

    @tool
    def again_in_a_thread() -> str:
        """Call itself."""
        return asyncio.run_coroutine_threadsafe(repeat(), loop).result().text

    name = "again_in_a_thread" if how == "thread" else "again"
    async with asyncio.timeout(BOUND_S), Runtime.open(tools=[again, again_in_a_thread], approve=lambda _: True) as rt:
        result = await repeat()
        assert (await repeat()).invocation_id == result.invocation_id
    assert result.error.error_class == "execution_failed"
    assert how == "task group" or "neither would end" in result.error.message


@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize(
    "declared", [{}, {"concurrency_safe": True}, {"concurrency_safe": True, "locks": lambda _: ["one"]}]
)
@pytest.mark.parametrize("together", [True, False])
async def test_calls_that_wait_for_each_other_by_their_keys_fail_and_do_not_hang(length, declared, together):
    started = 0

    @tool(read_only=True, **declared)
    async def step(number: int) -> str:
        """Wait for the next one."""
        nonlocal started
        started += 1
        while together and started < length and declared == {"concurrency_safe": True}:
            await asyncio.sleep(0)
        result = await one((number + 1) % length)
        return result.text if result.ok else "the next one failed"

    def one(number):
        return rt.call("step", {"number": number}, idempotency_key=f"k{number}")

    async with asyncio.timeout(BOUND_S), Runtime.open(tools=[step]) as rt:
        results = await asyncio.gather(*map(one, range(length))) if together else [await one(0)]
    assert not {result.error.error_class for result in results if not result.ok} - {"execution_failed", "canceled"}
    if together:
        assert any(not result.ok for result in results)


@pytest.mark.parametrize("key", [None, "k{}"])
async def test_calls_that_only_wait_for_their_turn_are_not_searched_for_circles(opened, ran, monkeypatch, key):
    monkeypatch.delattr("agenttool.scheduler.limiter.CallLimiter.ahead_of")
    async with opened("memory") as rt:
        surface, keys = await rt.surface(), [None if key is None else key.format(each) for each in range(AT_ONCE)]
        calls = (rt.call("pay", {"number": 1}, surface=surface, idempotency_key=each) for each in keys)
        assert {each.status for each in await asyncio.gather(*calls)} == {"succeeded"}
    assert ran == {1: AT_ONCE}


async def test_a_task_that_outlives_its_call_gets_the_result_of_that_call_by_its_key():
    tasks = []

    async def later():
        await ended.wait()
        return await rt.call("spawn", {}, idempotency_key="k")

    @tool
    async def spawn() -> str:
        """Start a task."""
        tasks.append(asyncio.create_task(later()))
        return "spawned"

    ended = asyncio.Event()
    async with asyncio.timeout(BOUND_S), Runtime.open(tools=[spawn], approve=lambda _: True) as rt:
        result = await rt.call("spawn", {}, idempotency_key="k")
        ended.set()
        assert await tasks[0] == result


async def test_a_key_can_be_used_again_once_retention_has_deleted_its_call(opened, ran):
    async with opened() as rt:
        surface = await rt.surface()
        first = await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
        await rt.journal.retain(journal=timedelta(0))
        again = await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
        assert again.invocation_id != first.invocation_id
        assert ran == {1: 2}


async def test_a_key_whose_call_left_no_record_is_an_error_and_does_not_hang(opened, ran):
    async with opened("memory") as rt, asyncio.timeout(BOUND_S):
        surface = await rt.surface()
        await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
        rt._core.journal.log._drop(rt._core.journal.log.last)
        with pytest.raises(StoreError, match=r"no record of inv_.*use another key"):
            await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="k")
        assert ran == {1: 1}


async def test_a_key_of_a_process_that_died_before_its_call_was_recorded_can_be_used(opened, ran, living, tmp_path):
    await _killed(tmp_path, "reserve")
    async with asyncio.timeout(BOUND_S):
        async with opened() as rt:
            result = await rt.call("pay", {"number": 1}, surface=await rt.surface(), idempotency_key="0")
            assert result.status == "succeeded"
            assert ran == {1: 1}


async def test_a_key_whose_call_was_stopped_with_its_runtime_before_it_changed_anything_runs_the_call(tmp_path):
    started, may_end = asyncio.Event(), asyncio.Event()

    @tool(read_only=True)
    async def look() -> str:
        """Look, once that is possible."""
        started.set()
        await may_end.wait()
        return "seen"

    def open_runtime():
        return Runtime.open(tools=[look], store=f"sqlite:{tmp_path}/state.db")

    async with open_runtime() as rt:
        calling = asyncio.ensure_future(rt.call("look", {}, idempotency_key="k"))
        await started.wait()
    stopped = await calling
    assert (stopped.error.error_code, stopped.error.retry.safe) == ("runtime_shutdown", True)
    may_end.set()
    async with open_runtime() as rt:
        again = await rt.call("look", {}, idempotency_key="k")
        assert (again.text, await rt.call("look", {}, idempotency_key="k")) == ("seen", again)


async def test_a_key_whose_process_died_before_anything_changed_runs_the_call(living, tmp_path):
    await _killed(tmp_path, "look_by_key")

    @tool(read_only=True)
    async def look(number: int) -> str:
        """Look."""
        return f"saw {number}"

    async with living.open_runtime(tmp_path, tools=[look]) as rt, asyncio.timeout(BOUND_S):
        result = await rt.call("look", {"number": 1}, surface=await rt.surface(), idempotency_key="0")
        assert result.text == "saw 1"


async def test_a_key_whose_call_was_stopped_with_its_runtime_after_it_acted_runs_nothing_again(tmp_path):
    marks, has_marked = [], asyncio.Event()

    @tool
    async def mark() -> str:
        """Mark."""
        marks.append(1)
        return "marked"

    @tool(idempotent=True)
    async def composite(context: Context) -> str:
        """Mark, and wait for what does not come."""
        await context.call("mark", {})
        has_marked.set()
        await asyncio.Event().wait()
        return "never"

    def open_runtime():
        rules = [{"behavior": "allow", "tool": "*"}]
        return Runtime.open(tools=[mark, composite], store=f"sqlite:{tmp_path}/state.db", rules=rules)

    async with open_runtime() as rt:
        calling = asyncio.ensure_future(rt.call("composite", {}, idempotency_key="k"))
        await has_marked.wait()
    stopped = await calling
    assert stopped.error.error_code == "runtime_shutdown"
    async with open_runtime() as rt, asyncio.timeout(60):
        assert await rt.call("composite", {}, idempotency_key="k") == stopped
    assert marks == [1]


async def test_a_call_that_only_reads_runs_again_after_a_crash_if_its_caller_has_chosen_its_id(living, tmp_path):
    await _killed(tmp_path, "look", f"inv_{1:032x}")

    @tool(read_only=True)
    async def look(number: int) -> str:
        """Look."""
        return f"saw {number}"

    async with living.open_runtime(tmp_path, tools=[look]) as rt, asyncio.timeout(BOUND_S):
        result = await rt.calls.get(f"inv_{1:032x}").result()
        assert result.content[0].text == "saw 1"


async def test_the_state_of_a_running_call_that_only_reads_is_stored_before_it_is_shown(living, tmp_path):
    proceed = asyncio.Event()

    @tool(read_only=True)
    async def look(number: int) -> str:
        """Look."""
        await proceed.wait()
        return f"saw {number}"

    async with living.open_runtime(tmp_path, tools=[look]) as rt, asyncio.timeout(BOUND_S):
        call = await rt.start("look", {"number": 1})
        while (shown := await rt.journal.invocation(call.id)) is None:
            await asyncio.sleep(0)
        async with living.open_runtime(tmp_path, tools=[look]) as other:
            assert await other.journal.invocation(call.id) == shown
        proceed.set()
        assert (await call.result()).status == "succeeded"


async def _killed(folder, how, name="1"):
    program = [sys.executable, HERE / "racing.py", folder, name, how]
    done = await asyncio.to_thread(subprocess.run, program, check=False, timeout=BOUND_S)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.soak
@pytest.mark.parametrize("number", range(50))
def test_two_processes_that_start_the_same_ids_run_each_once(tmp_path, number):
    names = [f"inv_{number:016x}{each:016x}" for each in range(20)]
    racers = [subprocess.Popen([sys.executable, HERE / "racing.py", tmp_path, *names]) for _ in range(2)]
    assert [racer.wait(BOUND_S) for racer in racers] == [0, 0]
    ran = (tmp_path / "ledger").read_text().split()
    assert sorted(ran) == sorted(names)
