"""Asks about how calls end: in time, when stopped, with a result, and with a reason."""

import asyncio
import threading

import pytest

from agenttool import Context, Runtime, ToolCall, ToolFailure, tool
from agenttool.records import ErrorClass, Recoverability, ToolError

TERMINAL = {"succeeded", "failed", "canceled", "timed_out"}


@tool(timeout_s=0.02)
async def hang() -> str:
    """Wait for a server that never answers. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool
async def explode() -> str:
    """Crash. Not for results."""
    raise ZeroDivisionError("1/0")


@tool
async def unplugged() -> str:
    """Call a server that is gone. Not for results."""
    raise ConnectionRefusedError("connection refused")


@tool(read_only=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b


async def test_ask_11_a_call_that_hangs_ends_in_its_time_and_the_next_one_runs(allow):
    async with Runtime.open(tools=[hang, add], rules=allow) as rt:
        surface = await rt.surface()
        results = [
            await rt.call(name, arguments, surface=surface) for name, arguments in (("hang", {}), ("add", {"a": 1}))
        ]
    assert [each.status for each in results] == ["timed_out", "succeeded"]
    assert results[0].error.error_class == "timeout"


async def test_ask_11_a_tool_that_says_nothing_about_time_has_a_limit_all_the_same(allow):
    deadlines = []

    @tool
    async def look(context: Context) -> str:
        """Look at the clock. Not for results."""
        deadlines.append(context._job.deadline_ns)
        return "seen"

    async with Runtime.open(tools=[look], rules=allow) as rt:
        await rt.call("look", {}, surface=await rt.surface())
    assert deadlines[0] is not None


async def test_ask_13_a_call_that_was_stopped_writes_nothing_afterwards(allow, records):
    begun, written = asyncio.Event(), []

    @tool
    async def upload() -> str:
        """Upload in two steps. Not for small files."""
        begun.set()
        await asyncio.sleep(30)
        written.append("second half")
        return "uploaded"

    async with Runtime.open(tools=[upload], rules=allow) as rt:
        running = asyncio.ensure_future(rt.call("upload", {}, surface=await rt.surface()))
        await begun.wait()
        (call,) = await records(rt, "tool_invocation")
        assert await rt.cancel(call["invocation_id"]) is True
        result = await running
    assert (result.status, result.abort_reason) == ("canceled", "user_interruption")
    assert written == []


async def test_ask_13_a_call_that_cannot_be_stopped_says_so_and_its_end_is_reported(allow, records):
    begun, proceed, written = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    @tool
    def upload() -> str:
        """Upload in a thread. Not for hurry."""
        loop.call_soon_threadsafe(begun.set)
        proceed.wait(30)
        written.append("all of it")
        return "uploaded"

    async with Runtime.open(tools=[upload], rules=allow) as rt:
        running = asyncio.ensure_future(rt.call("upload", {}, surface=await rt.surface()))
        await begun.wait()
        (call,) = await records(rt, "tool_invocation")
        assert await rt.cancel(call["invocation_id"]) is False
        proceed.set()
        result = await running
        events = [each["event_type"].rpartition(".")[2] for each in await records(rt, "tool_event")]
    assert (result.status, written) == ("succeeded", ["all of it"])
    assert "cancel_failed" in events


async def test_ask_14_every_call_of_a_turn_has_a_result_however_it_ended(allow, records):
    begun = asyncio.Event()

    @tool(concurrency_safe=True)
    async def wait() -> str:
        """Wait until it is stopped. Not for results."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    names = ["add", "explode", "hang", "wait", "nowhere"]
    async with Runtime.open(tools=[add, explode, hang, wait], rules=allow) as rt:
        calls = [ToolCall(name=name, arguments={}, native_call_id=f"call_{name}") for name in names]
        turn = asyncio.ensure_future(rt.batch(calls, surface=await rt.surface()))
        await begun.wait()
        rt.calls.interrupt(blocking=True)
        results = await turn
        invocations = {each["native_call_id"]: each for each in await records(rt, "tool_invocation")}
        terminal = [
            each for each in await records(rt, "tool_event") if each["event_type"].rpartition(".")[2] in TERMINAL
        ]
    assert len(results) == len(names)
    assert [each.invocation_id for each in results] == [invocations[f"call_{name}"]["invocation_id"] for name in names]
    assert all(each.model_facing_content for each in results)
    assert len(terminal) == len(names)


async def test_ask_14_a_caller_that_is_killed_in_the_middle_leaves_a_result_behind(allow, records):
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait. Not for results."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with Runtime.open(tools=[wait], rules=allow) as rt:
        running = asyncio.ensure_future(rt.call("wait", {}, surface=await rt.surface()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (result,) = await records(rt, "tool_result")
    assert result["status"] == "canceled"


async def test_ask_17_one_dead_backend_fails_its_own_calls_and_no_others(allow):
    async with Runtime.open(tools=[unplugged, add], rules=allow) as rt:
        calls = [ToolCall(name="unplugged", arguments={}), ToolCall(name="add", arguments={"a": 1})]
        results = await rt.batch(calls, surface=await rt.surface())
    assert results[0].error.error_class == "dependency_unavailable"
    assert results[0].error.recoverability == "retryable"
    assert results[1].structured_content == 2


async def test_ask_28_every_failure_has_a_class_a_code_and_a_word_about_trying_again(allow):
    @tool
    async def throttled() -> str:
        """Be asked too often. Not for haste."""
        raise ToolFailure(
            ToolError(
                error_class=ErrorClass.RATE_LIMITED,
                error_code="quota",
                message="too many requests",
                recoverability=Recoverability.RETRYABLE,
                retry_after=30.0,
            )
        )

    errors = {}
    async with Runtime.open(tools=[add, explode, hang, unplugged, throttled], rules=allow) as rt:
        surface = await rt.surface()
        for name in ("explode", "hang", "unplugged", "throttled", "add", "nowhere"):
            errors[name] = (await rt.call(name, {}, surface=surface)).error
        after_all = await rt.call("add", {"a": 1}, surface=surface)
    assert {name: (each.error_class, each.recoverability) for name, each in errors.items()} == {
        "explode": ("execution_failed", "change_arguments"),
        "hang": ("timeout", "retryable"),
        "unplugged": ("dependency_unavailable", "retryable"),
        "throttled": ("rate_limited", "retryable"),
        "add": ("schema_validation_failed", "change_arguments"),
        "nowhere": ("unknown_tool", "discover_first"),
    }
    assert all(each.error_code and each.message for each in errors.values())
    assert (errors["add"].retry.safe, errors["add"].retry.arguments_must_change) == (True, True)
    assert errors["explode"].retry.safe is False, "it may have done something"
    assert errors["throttled"].retry_after == 30
    assert after_all.structured_content == 2


BROKEN = '''
from agenttool import tool

@tool(read_only=True, open_world=False)
async def explode() -> str:
    """Crash. Not for results."""
    raise ZeroDivisionError("1/0")
'''


@pytest.mark.slow
def test_ask_28_the_terminal_prints_the_class_and_fails(terminal):
    (terminal.folder / "broken.py").write_text(BROKEN)
    done = terminal("call", "explode", "--from", "broken", "--json")
    assert done.returncode == 1
    assert '"error_class":"execution_failed"' in done.stdout
    assert "Traceback" not in done.stdout, "only the log has it, which is not for models"


@pytest.mark.slow
async def test_ask_12_signs_of_life_keep_a_call_alive_and_silence_ends_it(allow):
    @tool(idle_timeout_s=2.0, timeout_s=60)
    async def work(mood: str, context: Context) -> str:
        """Work for longer than silence may last. Not for hurry."""
        for _ in range(30):
            await asyncio.sleep(0.1)
            if mood == "talkative":
                context.progress("still at it")
        return "done"

    async with Runtime.open(tools=[work], rules=allow) as rt:
        surface = await rt.surface()
        results = [await rt.call("work", {"mood": each}, surface=surface) for each in ("talkative", "silent")]
    assert [each.status for each in results] == ["succeeded", "timed_out"]
