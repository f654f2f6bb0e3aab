"""Resources and prompts: those of the sources, the stored output of calls, and changes."""

import asyncio

import pytest
from mcp.shared.exceptions import MCPError
from mcp_clients import OLD, Person, connected, text_of
from mcp_everything import Everything

from agenttool import Runtime, tool
from agenttool.ports.resources import OfferKind


@tool(read_only=True)
def much() -> str:
    """Return much text."""
    return "".join(f"line {number}\n" for number in range(20_000))


async def test_resources_and_prompts_of_a_source_are_passed_on(mode):
    async with (
        Runtime.open(tools=[much], sources=[Everything()], approve="wait") as runtime,
        connected(runtime, mode, Person(context="tests")) as client,
    ):
        listed = await client.list_resources()
        assert [each.uri for each in listed.resources] == sorted(each.uri for each in listed.resources)
        (contents,) = (await client.read_resource("test://static-text")).contents
        assert contents.text == "This is the content of the static text resource."
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "test://template/{id}/data"
        asked = await client.get_prompt("test_input_required_result_prompt")
        assert asked.messages[0].content.text == "Use the context tests"
        with pytest.raises(MCPError, match="no prompt is named 'nothing'"):
            await client.get_prompt("nothing")
        with pytest.raises(MCPError, match="Resource not found") as refused:
            await client.read_resource("test://nothing")
        assert refused.value.error.code == (-32002 if mode == OLD else -32602)


async def test_the_link_of_a_large_result_is_read_as_a_resource(mode):
    async with Runtime.open(tools=[much], approve="wait") as runtime, connected(runtime, mode) as client:
        result = await client.call_tool("much", {})
        link = next(each for each in result.content if each.type == "resource_link")
        (contents,) = (await client.read_resource(link.uri)).contents
        assert (contents.text, contents.uri) == ((await runtime.journal.payload(link.uri)).decode(), link.uri)
        assert text_of(result) != contents.text


async def test_a_client_that_listens_is_notified_of_changes():
    source = Everything()
    async with (
        Runtime.open(tools=[much], sources=[source], approve="wait") as runtime,
        connected(runtime) as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as events,
    ):
        source.changed(OfferKind.PROMPTS, None)
        assert type(await asyncio.wait_for(anext(aiter(events)), 30)).__name__ == "PromptsListChanged"
        runtime.declare(tool(name="new", read_only=True)(lambda: "new"))
        assert type(await asyncio.wait_for(anext(aiter(events)), 30)).__name__ == "ToolsListChanged"
