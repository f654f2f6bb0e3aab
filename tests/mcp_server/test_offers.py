"""Resources and prompts: those of the sources, the stored output of calls, and changes."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_clients import OLD, Person, connected, served, text_of
from mcp_everything import Everything

from agenttool import McpServer, Runtime, tool
from agenttool.records import ContentClass, ContentItem, Ref


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
        uri = _link_in(result)
        (contents,) = (await client.read_resource(uri)).contents
        assert (contents.text, contents.uri) == ((await runtime.journal.payload(uri)).decode(), uri)
        assert text_of(result) != contents.text


async def test_stored_output_of_another_actor_or_profile_is_not_found(mode):
    async with (
        Runtime.open(tools=[much], approve="wait") as runtime,
        connected(runtime, mode, actor="user:ada") as owner,
        connected(runtime, mode, actor="user:ben") as other,
        connected(runtime, mode, actor="user:ada", profile="support") as other_profile,
        connected(runtime, mode) as nameless,
    ):
        uri = _link_in(await owner.call_tool("much", {}))
        for stranger in (other, other_profile, nameless):
            with pytest.raises(MCPError, match="Resource not found") as unknown:
                await stranger.read_resource("payload:sha256:" + "0" * 64)
            with pytest.raises(MCPError, match="Resource not found") as foreign:
                await stranger.read_resource(uri)
            assert foreign.value.error.code == unknown.value.error.code
            for name in ("read_result", "agenttool.read_result", "tool_agenttool.read_result"):
                assert (await stranger.call_tool(name, {"payload_id": uri})).is_error
        assert (await owner.read_resource(uri)).contents
        for payload_id in (uri, uri.removeprefix("payload:")):
            assert not (await owner.call_tool("read_result", {"payload_id": payload_id})).is_error
        assert _link_in(await other.call_tool("much", {})) == uri
        assert (await other.read_resource(uri)).contents


@pytest.mark.parametrize(("actor", "other"), [("user:ada", None), (None, "user:ada")])
async def test_stored_output_is_readable_after_a_restart_for_the_actor_that_received_it(mode, tmp_path, actor, other):
    store = str(tmp_path / "calls.db")
    async with served([much], mode, store=store, actor=actor) as (_, client):
        uri = _link_in(await client.call_tool("much", {}))
    async with (
        served([much], mode, store=store, actor=actor) as (runtime, client),
        connected(runtime, mode, actor=other) as stranger,
    ):
        assert (await client.read_resource(uri)).contents[0].uri == uri
        assert "line" in text_of(await client.call_tool("read_result", {"payload_id": uri}))
        with pytest.raises(MCPError, match="Resource not found"):
            await stranger.read_resource(uri)


async def test_output_that_no_result_of_the_client_refers_to_is_not_found(mode):
    @tool(read_only=True)
    def linking(uri: str) -> ContentItem:
        """Return a link that this tool made up."""
        return ContentItem(type=ContentClass.RESOURCE_LINK, uri=uri, ref=Ref(uri=uri))

    async with served([much, linking], mode) as (runtime, client):
        stored = await runtime.call("much", {}, actor_ref="user:ada")
        uri = next(each.ref.uri for each in stored.content if each.ref is not None)
        await client.call_tool("linking", {"uri": uri})
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(uri)


def _link_in(result):
    return next(each.uri for each in result.content if each.type == "resource_link")


async def test_a_client_that_listens_is_notified_of_changes():
    source = Everything()
    async with (
        Runtime.open(tools=[much], sources=[source], approve="wait") as runtime,
        connected(runtime) as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as events,
    ):
        await source.change_prompts()
        assert type(await asyncio.wait_for(anext(aiter(events)), 30)).__name__ == "PromptsListChanged"
        runtime.declare(tool(name="new", read_only=True)(lambda: "new"))
        assert type(await asyncio.wait_for(anext(aiter(events)), 30)).__name__ == "ToolsListChanged"


FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"


async def test_a_server_that_does_not_list_its_resources_delays_one_request_and_is_listed_when_it_replies(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("agenttool.mcp.offer_lists.LIST_S", 0.5)
    log, listing = tmp_path / "log", tmp_path / "list"

    def server(name, *options):
        return McpServer(name, command=sys.executable, args=("-I", "-S", str(FIXTURE), *options))

    async def uris(client):
        listed = await client.list_resources()
        return [each.uri for each in listed.resources], (listed.meta or {}).get("agenttool/faults", {})

    sources = [Everything(), server("late", f"log={log}", f"list={listing}", "offers=1")]
    async with (
        Runtime.open(sources=sources, approve=lambda _: True) as rt,
        connected(rt, callbacks={"cache": None}) as client,
        client.listen(resources_list_changed=True) as events,
    ):
        others, faults = await uris(client)
        asked = log.read_text().count('"resources/list"')
        assert "memo://one" not in others
        assert faults == {"late": "it has not replied after 0.5 s; requests do not wait for it now"}
        monkeypatch.setattr("agenttool.mcp.offer_lists.LIST_S", 600)
        assert await uris(client) == (others, faults)
        assert log.read_text().count('"resources/list"') == asked, "it is not asked again before it replies"
        listing.touch()
        assert not (await rt.call("late.change", {})).is_error  # it reports that its list has changed
        async with asyncio.timeout(30):
            await anext(aiter(events))
            while (found := await uris(client))[1]:  # this requests the list again, and does not wait
                await anext(aiter(events))
        complete, _ = found
        assert {*complete} == {*others, "memo://one", "memo://new"}
        listing.unlink()
        monkeypatch.setattr("agenttool.mcp.offer_lists.LIST_S", 0.5)
        assert await uris(client) == (complete, faults), "its last list is used"
