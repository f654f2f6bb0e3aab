"""Calls by MCP clients: results, errors, progress, cancellation and large output."""

import asyncio

import anyio
import pytest
from mcp_clients import served, text_of

from agenttool import Context, Image, tool

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@tool(read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool(read_only=True)
def pixel() -> Image:
    """Return an image."""
    return Image(PIXEL)


@tool(read_only=True)
def fail() -> str:
    """Fail."""
    raise ValueError("the widget is broken")


@tool(read_only=True)
def much() -> str:
    """Return much text."""
    return "".join(f"line {number}\n" for number in range(20_000))


async def test_a_result_has_text_structure_and_the_id_of_its_call(mode):
    async with served([add], mode) as (runtime, client):
        result = await client.call_tool("add", {"a": 19, "b": 23})
        recorded = await runtime.journal.result(result.meta["agenttool/invocation"])
    assert (result.is_error, text_of(result), result.structured_content) == (False, '{"sum":42}', {"sum": 42})
    assert recorded.value == {"sum": 42}


async def test_an_image_is_an_image(mode):
    async with served([pixel], mode) as (_, client):
        (block,) = (await client.call_tool("pixel", {})).content
    assert (block.type, block.mime_type) == ("image", "image/png")


@pytest.mark.parametrize(
    ("name", "arguments", "error_class", "words"),
    [
        ("add", {"a": 1}, "schema_validation_failed", "'b'"),
        ("ad", {"a": 1}, "unknown_tool", "no tool on this surface is named 'ad'; did you mean '"),
        ("fail", {}, "execution_failed", "the widget is broken"),
    ],
)
async def test_an_error_is_a_result_that_says_what_to_change(mode, name, arguments, error_class, words):
    async with served([add, fail], mode) as (_, client):
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.meta["agenttool/error"]["error_class"] == error_class
    assert words in text_of(result)
    assert "Next: " in text_of(result)


async def test_progress_reaches_the_client(mode):
    @tool(read_only=True)
    async def work(ctx: Context) -> str:
        """Work."""
        for percent in (0, 50, 100):
            ctx.progress(f"at {percent}", percent=percent)
            await asyncio.sleep(0.01)
        return "done"

    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    async with served([work], mode) as (_, client):
        await client.call_tool("work", {}, progress_callback=note)
    assert seen == [(0.0, 100.0, "at 0"), (50.0, 100.0, "at 50"), (100.0, 100.0, "at 100")]


async def test_a_canceled_request_cancels_the_call(mode):
    started, ended = asyncio.Event(), asyncio.Event()

    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    async with served([wait], mode) as (runtime, client):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wait", {})
            await started.wait()
            group.cancel_scope.cancel()
        await asyncio.wait_for(ended.wait(), 30)
        async for _, event in runtime.journal.events():
            if event.event_type == "tool.invocation.canceled":
                break


async def test_a_large_result_is_a_preview_with_a_link_and_the_rest_can_be_read(mode):
    async with served([much], mode) as (_, client):
        result = await client.call_tool("much", {})
        link = next(each for each in result.content if each.type == "resource_link")
        assert link.size == sum(len(f"line {number}\n") for number in range(20_000))
        assert "line 19999" in text_of(result)
        rest = await client.call_tool("read_result", {"payload_id": link.uri, "start_line": 10_001, "end_line": 10_002})
    assert "line 10000" in text_of(rest)
