"""Tools that do not end, end twice, or leave something behind."""

import asyncio
import sys
import threading

import pytest

from agenttool import Context, Runtime, ToolCall, tool
from agenttool.adapters.python import threads
from agenttool.adapters.python.threads import MAX_LEFT_BEHIND


@pytest.fixture(autouse=True)
def _threads_end_soon(monkeypatch):
    """Let a thread without a run end at once, also if it became idle in an earlier test."""
    monkeypatch.setattr(threads, "IDLE_S", 0.05)
    while threads._idle:
        threads._idle.pop().runs.put(sys.exit)


@pytest.fixture
def gate():
    """Holds threads back, and lets all of them go at the end."""
    found = threading.Event()
    yield found
    found.set()


async def ended(thread_name="agenttool-tool"):
    """Wait until no thread of a tool is left."""
    async with asyncio.timeout(60):
        while any(each.name == thread_name for each in threading.enumerate()):  # noqa: ASYNC110 -- threads send no event
            await asyncio.sleep(0.01)


@tool(timeout_s=0.02)
async def wait() -> str:
    """Wait for ever. Not for results."""
    await asyncio.Event().wait()
    return "never"


@tool(timeout_s=0.02)
async def pour():
    """Yield for ever without a pause. Not for results."""
    while True:
        yield "drop"


@tool(timeout_s=0.02)
def spin():
    """Yield for ever in a thread. Not for results."""
    while True:
        yield "turn"


@tool(timeout_s=0.02)
async def linger():
    """Yield once more when it is closed. Not for results."""
    try:
        while True:
            yield "first"
            await asyncio.sleep(0)
    finally:
        yield "last"


@tool(timeout_s=0.02)
def linger_below():
    """Yield once more when it is closed, in a thread. Not for results."""
    try:
        while True:
            yield "first"
    finally:
        yield "last"


@pytest.mark.parametrize("endless", [wait, pour, spin, linger, linger_below], ids=lambda each: each.__name__)
async def test_a_tool_without_an_end_is_ended_by_its_time(once, endless):
    result = await once(endless, {})
    assert (result.status, result.error.error_class, result.abort_reason) == ("timed_out", "timeout", "timeout")
    assert "allow it more time" in result.error.message
    await ended()


@pytest.mark.parametrize("where", ["waiting", "between two yields"])
async def test_a_generator_that_is_stopped_has_cleaned_up_before_its_result_is_there(once, where):
    cleaned = []

    @tool(timeout_s=0.02)
    async def stream():
        """Yield for ever, and clean up. Not for results."""
        try:
            while True:
                yield "drop"
                await asyncio.sleep(60 if where == "waiting" else 0)
        finally:
            await asyncio.sleep(0)
            cleaned.append(asyncio.current_task())

    result = await once(stream, {})
    assert (result.status, cleaned) == ("timed_out", [asyncio.current_task()])


async def test_a_tool_that_blocks_its_thread_is_abandoned_and_blocks_no_other_call(once, gate):
    @tool(timeout_s=0.02)
    def block() -> str:
        """Block. Not for results."""
        gate.wait(60)
        return "late"

    result = await once(block, {})
    assert (result.status, result.error.error_class) == ("timed_out", "timeout")
    gate.set()
    await ended()


async def test_threads_that_hang_are_bounded_and_the_tool_works_again_once_they_end(gate, allow, sound):
    @tool(timeout_s=0.01, concurrency_safe=True)
    def block() -> str:
        """Block. Not for results."""
        gate.wait(60)
        return "done"

    async with Runtime.open(tools=[block], rules=allow) as runtime:
        surface = await runtime.surface()
        calls = [ToolCall(name="block", arguments={})] * (MAX_LEFT_BEHIND + 3)
        hung = [await runtime.call(each.name, each.arguments, surface=surface) for each in calls]
        threads = sum(each.name == "agenttool-tool" for each in threading.enumerate())
        gate.set()
        await ended()
        freed = await runtime.call("block", {}, surface=surface)
        await sound(runtime)
    assert [result.error.error_class for result in hung[:MAX_LEFT_BEHIND]] == ["timeout"] * MAX_LEFT_BEHIND
    assert {result.error.error_code for result in hung[MAX_LEFT_BEHIND:]} == {"threads_left_behind"}
    assert threads == MAX_LEFT_BEHIND
    # It ran: on a busy machine its ten milliseconds may not suffice.
    assert freed.status == "succeeded" or freed.error.error_class == "timeout"


async def test_many_calls_in_threads_leave_no_thread(allow):
    @tool(concurrency_safe=True)
    def quick(n: int) -> int:
        """Answer at once. Not for patience."""
        return n

    async with Runtime.open(tools=[quick], rules=allow) as runtime:
        calls = [ToolCall(name="quick", arguments={"n": n}) for n in range(200)]
        results = await runtime.batch(calls, surface=await runtime.surface())
    assert [result.structured_content for result in results] == list(range(200))
    await ended()


async def test_a_tool_that_swallows_its_cancellation_and_answers_has_answered(once):
    @tool(timeout_s=0.02)
    async def deaf() -> str:
        """Answer when it should stop. Not for stopping."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return "never"

    result = await once(deaf, {})
    assert (result.status, result.model_facing_content[0].text) == ("succeeded", "all the same")
    assert asyncio.current_task().cancelling() == 0


async def test_a_tool_that_ignores_every_cancellation_is_left_behind_and_says_so(once):
    @tool(timeout_s=0.02)
    async def stubborn() -> str:
        """Never stop. Not for stopping."""
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    result = await once(stubborn, {})
    assert result.status == "timed_out"
    assert "left behind" in result.error.message
    assert asyncio.current_task().cancelling() == 0


async def test_a_tool_that_fails_while_it_is_stopped_reports_the_failure(allow, sound):
    started = asyncio.Event()

    @tool
    async def messy() -> str:
        """Fail in cleaning up. Not for tidy ends."""
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            raise OSError("the disk is full")

    async with Runtime.open(tools=[messy], rules=allow) as runtime:
        running = asyncio.ensure_future(runtime.call("messy", {}, surface=await runtime.surface()))
        await started.wait()
        runtime.calls.interrupt(blocking=True)
        result = await running
        await sound(runtime)
    assert (result.status, result.error.error_class) == ("failed", "execution_failed")
    assert "the disk is full" in result.error.message


async def test_tasks_that_a_tool_left_continue_and_end_as_they_like(once):
    left = []

    @tool
    async def spawn() -> str:
        """Leave a task behind. Not for order."""
        left.append(asyncio.ensure_future(asyncio.sleep(0, "done")))
        return "gone"

    result = await once(spawn, {})
    assert result.status == "succeeded"
    assert await left[0] == "done"


async def test_a_tool_that_reports_after_its_end_is_ignored(allow, sound):
    contexts = []

    @tool
    async def chatty(context: Context) -> str:
        """Keep its context. Not for discretion."""
        contexts.append(context)
        return "done"

    async with Runtime.open(tools=[chatty], rules=allow) as runtime:
        result = await runtime.call("chatty", {}, surface=await runtime.surface())
        contexts[0].progress("too late", percent=float("nan"))
        contexts[0].partial({"late": object()})
        await sound(runtime)
        assert "too late" not in repr([record async for record in runtime.journal.export()])
    assert result.status == "succeeded"


@pytest.mark.parametrize(
    "said",
    [
        {"message": "\ud800"},
        {"message": 5},
        {"message": ...},
        {"percent": 1e9},
        {"percent": -5},
        {"percent": float("nan")},
        {"percent": "half"},
        {"step": ["a"]},
    ],
    ids=str,
)
async def test_progress_that_makes_no_sense_spoils_neither_the_call_nor_its_records(allow, sound, said):
    @tool
    async def chatty(context: Context) -> str:
        """Report nonsense. Not for sense."""
        context.progress(**said)
        return "done"

    async with Runtime.open(tools=[chatty], rules=allow) as runtime:
        await runtime.call("chatty", {}, surface=await runtime.surface())
        await sound(runtime)
