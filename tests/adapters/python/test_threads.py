import asyncio
import threading

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.python.threads import FunctionHook
from agenttool.hooks.definition import Hook
from agenttool.records import HookEvent


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


async def result_with(function, **options):
    hook = Hook(name="hook", event=HookEvent.PRE_TOOL_USE, runner=FunctionHook(function), **options)
    async with Runtime.open(tools=[add], hooks=[hook]) as rt:
        return await rt.call("add", {"a": 1}, surface=await rt.surface())


async def test_a_function_is_asked_wherever_it_runs():
    def plain(question):
        return {"updated_input": {**question.input, "a": 40}}

    async def coroutine(question):
        await asyncio.sleep(0)
        return plain(question)

    assert [(await result_with(each)).structured_content for each in (plain, coroutine)] == [41, 41]


async def test_a_function_that_blocks_is_left_behind_at_its_deadline():
    released = threading.Event()

    def block(question):
        released.wait(60)

    try:
        result = await result_with(block, timeout_s=0.01)
    finally:
        released.set()
    assert result.error.error_class == "hook_failed"
    assert "no answer within 0.01 s" in result.error.message


@pytest.mark.parametrize("crash", [RuntimeError("boom"), StopIteration("boom")])
async def test_what_a_function_raises_fails_the_call(crash):
    def explode(question):
        raise crash

    result = await result_with(explode)
    assert result.error.error_class == "hook_failed"
    assert "boom" in result.error.message
