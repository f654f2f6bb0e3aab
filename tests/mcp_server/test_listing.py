"""What an MCP client lists: names, schemas, facts, order, and large catalogs."""

import asyncio
import sys
from pathlib import Path

import mcp_types as types
import pytest
from mcp_clients import NEW, OLD, connected, served, text_of

from agenttool import Runtime, SurfacePolicy, tool
from agenttool.adapters.mcp import source
from agenttool.adapters.mcp.settings import McpServer
from agenttool.mcp.listing import MAX_NAME_CHARS, ToolLister
from agenttool.ports.surfacing import Role
from agenttool.records import ToolSurface


@tool(read_only=True, title="Add numbers", open_world=False)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool(namespace="files")
def remove(path: str) -> str:
    """Delete a file."""
    return path


async def test_a_tool_is_listed_with_its_schemas_facts_and_qualified_name(mode):
    async with served([add, remove], mode) as (_, client):
        listed = await client.list_tools()
    found = {each.name: each for each in listed.tools}
    assert list(found) == ["add", "read_result", "remove"]
    assert found["add"].title == "Add numbers"
    assert found["add"].description == "Add two numbers."
    assert found["add"].input_schema["required"] == ["a", "b"]
    assert found["add"].output_schema["type"] == "object"
    assert found["add"].annotations.read_only_hint is True
    assert found["add"].annotations.open_world_hint is False
    assert found["remove"].meta["agenttool/name"] == "files.remove"
    if mode == NEW:
        assert (listed.ttl_ms > 0, listed.cache_scope, listed.result_type) == (True, "private", "complete")


def named(namespace, name):
    def function() -> str:
        """Do something."""
        return namespace

    return tool(name=name, namespace=namespace, read_only=True)(function)


async def test_names_have_room_for_the_prefix_of_a_client_and_never_collide(mode):
    long = "a" * 60
    tools = [named("github", "search"), named("jira", "search"), named("one", long), named("two", long + "b")]
    async with served(tools, mode) as (_, client):
        listed = [each.name for each in (await client.list_tools()).tools]
        assert "github__search" in listed
        assert len(set(listed)) == len(listed)
        assert max(map(len, listed)) <= MAX_NAME_CHARS
        assert text_of(await client.call_tool("jira__search", {})) == "jira"
        shortened = sorted(name for name in listed if name.startswith("aaa"))
        assert sorted([text_of(await client.call_tool(name, {})) for name in shortened]) == ["one", "two"]
    async with served(list(reversed(tools)), mode) as (_, client):
        assert [each.name for each in (await client.list_tools()).tools] == listed


MANY = [*(named("many", f"tool_{number}") for number in range(120)), add]


async def test_a_session_of_an_older_revision_lists_the_tools_that_were_found():
    changed = asyncio.Event()

    async def note(message):
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with (
        served(MANY, OLD, callbacks={"message_handler": note}) as (runtime, client),
        connected(runtime, OLD) as other,
    ):
        assert [each.name for each in (await client.list_tools()).tools] == ["tool_search", "tool_call", "read_result"]
        await client.call_tool("tool_search", {"query": "add two numbers", "limit": 1})
        await asyncio.wait_for(changed.wait(), 30)
        listed = (await client.list_tools()).tools
        assert [each.name for each in listed] == ["tool_search", "tool_call", "read_result", "add"]
        assert listed[-1].input_schema["required"] == ["a", "b"]
        assert (await client.call_tool("add", {"a": 19, "b": 23})).structured_content == {"sum": 42}
        assert "add" not in [each.name for each in (await other.list_tools()).tools]


async def test_a_large_catalog_shows_search_and_call_and_from_2026_on_the_list_never_changes_by_use(mode):
    async with served(MANY, mode) as (_, client):
        before = await client.list_tools()
        assert [each.name for each in before.tools] == ["tool_search", "tool_call", "read_result"]
        found = (await client.call_tool("tool_search", {"query": "add two numbers"})).structured_content
        assert found["matches"][0]["name"] == "add"
        assert found["matches"][0]["inputSchema"]["required"] == ["a", "b"]
        result = await client.call_tool("tool_call", {"name": "add", "arguments": {"a": 19, "b": 23}})
        assert result.structured_content == {"sum": 42}
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}
        again = await client.list_tools(cache_mode="bypass")
        assert (again.tools == before.tools) is (mode == NEW)


async def test_a_tool_that_is_declared_later_is_listed(mode):
    async with served([add], mode) as (runtime, client):
        assert "remove" not in [each.name for each in (await client.list_tools()).tools]
        runtime.declare(remove)
        assert "remove" in [each.name for each in (await client.list_tools(cache_mode="bypass")).tools]


async def test_the_list_keeps_one_surface_however_often_it_changes(mode):
    async with served([add], mode) as (runtime, client):
        for number in range(3):
            runtime.declare(tool(name=f"later_{number}")(lambda: "x"))
            assert f"later_{number}" in [each.name for each in (await client.list_tools(cache_mode="bypass")).tools]
        surfaces = [each async for each in runtime.journal.export() if isinstance(each, ToolSurface)]
        current = {runtime.surfaces.current(each).surface_id for each in surfaces}
        assert len(current) == 2  # the list, and the default surface


async def test_a_profile_lists_its_tools_and_the_one_that_reads_their_output_and_calls_no_other(mode):
    role = Role(name="readers", tools=("local.*",))
    async with served([add, remove], mode, role=role) as (_, client):
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "read_result"]
        refused = await client.call_tool("remove", {"path": "a"})
        assert refused.is_error


async def test_a_long_list_has_pages():
    tools = [named("many", f"tool_{number}") for number in range(450)]
    async with Runtime.open(tools=tools, surface=SurfacePolicy(max_tools=None, max_tokens=None)) as runtime:
        listed = await ToolLister(runtime).current()
    seen, cursor = [], None
    while True:
        page, cursor = listed.page(cursor)
        seen += page
        if cursor is None:
            break
    assert seen == list(listed.shown)
    for wrong in ("451", "-1", "x", "1_00", "9" * 5000):
        with pytest.raises(ValueError, match="no page begins at"):
            listed.page(wrong)


FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"


def fixture_server(name, *options, **settings):
    return McpServer(name, command=sys.executable, args=("-I", "-S", str(FIXTURE), *options), **settings)


async def test_the_first_list_waits_for_a_server_that_starts_and_reports_its_name(mode, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "FIRST_ANSWER_S", 0.05)
    starts, messages = tmp_path / "starts", []

    async def progressed(progress, total, message):
        messages.append(message)
        starts.touch()

    async with (
        Runtime.open(sources=[fixture_server("fx", f"start={starts}"), fixture_server("quick")]) as rt,
        connected(rt, mode) as client,
    ):
        request = types.ListToolsRequest(params=types.PaginatedRequestParams())
        listed = await client.session.send_request(request, types.ListToolsResult, progress_callback=progressed)
    assert {"fx__echo", "quick__echo"} <= {each.name for each in listed.tools}
    assert "waits for the start of 'fx'" in messages[0]
    assert "agenttool/faults" not in (listed.meta or {})


async def test_a_list_without_a_server_that_does_not_start_in_time_names_it(mode, monkeypatch):
    monkeypatch.setattr(source, "FIRST_ANSWER_S", 0.05)
    sources = [fixture_server("fx", "hang=1", start_timeout_s=0.5), fixture_server("quick")]
    async with Runtime.open(sources=sources) as rt, connected(rt, mode) as client:
        listed = await client.list_tools()
    assert {each.name.partition("__")[0] for each in listed.tools} == {"quick", "read_result"}
    assert list(listed.meta["agenttool/faults"]) == ["fx"]
    assert listed.ttl_ms == 0


async def test_resources_and_prompts_of_a_server_are_no_tools_for_clients_which_have_methods_for_them(mode):
    async with Runtime.open(sources=[fixture_server("fx")]) as rt, connected(rt, mode) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        resources, prompts = (await client.list_resources()).resources, (await client.list_prompts()).prompts
    assert not listed & {"list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt"}
    assert {"echo", "add", "read_result"} <= listed
    assert ([each.name for each in resources], [each.name for each in prompts]) == (["one"], ["greet"])
