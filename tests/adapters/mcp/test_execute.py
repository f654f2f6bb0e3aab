"""Calls of the tools of an MCP server over stdio, through the runtime."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agenttool import ConfigError, Runtime
from agenttool.records import ContentClass, ErrorClass, McpMapping, ToolDeclaration, ToolInterface, ToolProgress


@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_tools_of_a_server_are_listed_and_called(open_server, revision):
    async with open_server(*(["modern=1"] if revision == "modern" else [])) as rt:
        surface = await rt.surface()
        text = await rt.call("fx.echo", {"text": "hi"}, surface=surface)
        total = await rt.call("fx.add", {"a": 19, "b": 23}, surface=surface)
    assert (text.ok, text.text, total.value) == (True, "hi", {"sum": 42})


async def test_a_server_of_the_settings_file_is_called(tmp_path, server):
    made = server()
    settings = tmp_path / "agenttool.toml"
    settings.write_text(
        f"[sources.fx]\nkind = 'mcp'\ncommand = {json.dumps(made.command)}\nargs = {json.dumps(made.args)}\n"
        "env = {COLOR = 'green'}\n"
    )
    async with Runtime.open(config=settings, approve=lambda _: True) as rt:
        assert (await rt.call("fx.env", {"name": "COLOR"})).text == "green"
        assert (await rt.call("fx.env", {"name": "PYTEST_CURRENT_TEST"})).text == "(unset)"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("command = 'x'\nurl = 'http://x'", "must have either command or url"),
        ("comand = 'x'", "did you mean 'command'?"),
        ("command = 'x'\nheaders = {A = 'b'}", "headers of source 'fx' needs url"),
        ("command = 'x'\nsessions = 'many'", 'sessions must be "shared" or "actor"'),
    ],
)
async def test_invalid_settings_are_rejected_with_their_place(tmp_path, members, words):
    settings = tmp_path / "agenttool.toml"
    settings.write_text(f"[sources.fx]\nkind = 'mcp'\n{members}\n")
    with pytest.raises(ConfigError, match=r"agenttool\.toml:1: ") as raised:
        async with Runtime.open(config=settings):
            pass
    assert words in str(raised.value)


async def records_of(rt, kind):
    return {each.tool_id: each async for each in rt.journal.export() if isinstance(each, kind)}


def messages(log: Path, method: str):
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [each for each in found if each.get("method") == method]


@pytest.mark.requirement("AT-INTEROP-MCP-02")
async def test_definitions_of_all_pages_are_preserved(open_server):
    async with open_server("page=3", "tools=20") as rt:
        declared = await records_of(rt, ToolDeclaration)
    add, lie = declared["tool_fx.add"], declared["tool_fx.lie"]
    assert "tool_fx.tool_19" in declared
    assert (add.name, add.title, add.description) == ("add", "Sum", "Add two numbers.")
    assert add.input_contract.model_input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    }
    assert add.output_contract.structured_schema["required"] == ["sum"]
    assert add.annotations == {"mcp": {"icons": [{"src": "data:,x"}]}}
    assert lie.annotations == {"mcp": {"_meta": {"vendor/x": 1}, "extension": {"kept": True}}}
    assert declared["tool_fx.echo"].annotations == {
        "mcp": {"annotations": {"readOnlyHint": True}},
        "untrusted": ["readOnlyHint"],
    }


@pytest.mark.requirement("AT-INTEROP-MCP-01")
@pytest.mark.requirement("AT-INTEROP-MCP-04")
@pytest.mark.requirement("AT-INTEROP-MCP-05")
async def test_a_call_keeps_its_native_ids_and_adds_nothing_to_the_messages(open_server, tmp_path):
    log = tmp_path / "messages"
    async with open_server(f"log={log}") as rt:
        result = await rt.call("fx.echo", {"text": "hi"})
        call = await rt.journal.invocation(result.invocation_id)
        failed = await rt.call("fx.fail", {})
        summed = await rt.call("fx.add", {"a": 1, "b": 2})
    (sent,) = [each for each in messages(log, "tools/call") if each["params"]["name"] == "echo"]
    ids = {
        "server_id": "fx",
        "server_name": "fixture",
        "mcp_protocol_version": "2025-11-25",
        "method": "tools/call",
        "tool_name": "echo",
        "jsonrpc_request_id": sent["id"],
    }
    assert call.external_mappings == (McpMapping(**ids),)
    assert result.external_mappings == (McpMapping(**ids, meta={"vendor/trace": "t1"}),)
    assert failed.external_mappings[0].is_error is True
    assert summed.structured_content == {"sum": 3}
    assert set(sent) == {"jsonrpc", "id", "method", "params"}
    assert set(sent["params"]) == {"name", "arguments", "_meta"}
    assert sent["params"]["arguments"] == {"text": "hi"}
    assert result.invocation_id not in json.dumps(sent["params"]["arguments"])


@pytest.mark.requirement("AT-INTEROP-MCP-03")
async def test_content_of_every_kind_is_preserved(open_server):
    async with open_server() as rt:
        result = await rt.call("fx.content", {})
        image = await rt.journal.payload(result.content[1].ref)
    text, picture, link, embedded, unknown = result.content
    assert (text.text, text.annotations) == ("hello", {"audience": ["user"]})
    assert (picture.type, picture.media_type, image[:4]) == (ContentClass.IMAGE, "image/png", b"\x89PNG")
    assert (link.type, link.uri, link.name, link.ref.size_bytes) == (ContentClass.RESOURCE_LINK, "memo://one", "one", 3)
    assert link.ref.native_ref["_meta"] == link.annotations["_meta"] == {"k": 1}
    assert (embedded.type, embedded.uri, embedded.text) == (ContentClass.EMBEDDED_RESOURCE, "memo://two", "two")
    assert (unknown.type, unknown.data) == (ContentClass.STRUCTURED_CONTENT, {"type": "hologram", "beam": 7})


@pytest.mark.requirement("AT-INTEROP-MCP-07")
async def test_an_error_of_a_tool_differs_from_an_error_of_the_protocol(open_server):
    async with open_server() as rt:
        reported, protocol = await rt.call("fx.fail", {}), await rt.call("fx.reject", {})
    assert reported.is_error is protocol.is_error is True
    assert (reported.text, reported.error.error_code) == ("the disk is full", "mcp_tool_error")
    assert reported.error.native_error_ref["isError"] is True
    assert protocol.error.error_code == "-32001"
    assert protocol.error.native_error_ref | {"jsonrpc_request_id": 0} == {
        "jsonrpc_request_id": 0,
        "code": -32001,
        "message": "rejected",
        "data": {"why": "test"},
    }


@pytest.mark.requirement("AT-INTEROP-MCP-06")
async def test_a_deferred_tool_names_its_server_and_its_native_tool(open_server, tmp_path):
    log = tmp_path / "messages"
    async with open_server("tools=500", f"log={log}") as rt:
        surface = await rt.surface()
        ref = next(each for each in surface.deferred_tools if each.name == "tool_7")
        loaded = await rt.load(["fx.tool_7"], surface=surface)
        result = await rt.call("fx.tool_7", {}, surface=loaded)
    assert ref.namespace == "fx"
    assert (ref.native_ref["server_id"], ref.native_ref["tool_name"]) == ("fx", "tool_7")
    assert result.ok
    assert messages(log, "tools/call")[-1]["params"]["name"] == "tool_7"


async def test_hints_only_tighten_unless_the_server_is_trusted(open_server):
    async with open_server() as rt:
        doubted = await records_of(rt, ToolInterface)
    async with open_server(trust=True) as rt:
        trusted = await records_of(rt, ToolInterface)
    assert doubted["tool_fx.echo"].is_read_only is False
    assert trusted["tool_fx.echo"].is_read_only is True
    assert doubted["tool_fx.die"].is_destructive is trusted["tool_fx.die"].is_destructive is True


async def test_progress_is_reported_and_a_canceled_call_is_canceled_at_the_server(open_server, tmp_path):
    log = tmp_path / "messages"
    async with open_server(f"log={log}") as rt:
        started = await rt.start("fx.slow", {})
        while not [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]:
            await asyncio.sleep(0.01)
        assert await rt.cancel(started.invocation_id)
        result = await rt.wait(started.invocation_id)
        while not messages(log, "notifications/cancelled"):
            await asyncio.sleep(0.01)
    assert result.error.error_class is ErrorClass.CANCELED
    (sent,) = messages(log, "tools/call")
    assert messages(log, "notifications/cancelled")[0]["params"]["requestId"] == sent["id"]


async def test_a_missing_extra_is_named(monkeypatch, server):
    monkeypatch.setitem(sys.modules, "agenttool.adapters.mcp.source", None)
    with pytest.raises(ConfigError, match=r"pip install 'agenttool\[mcp\]'"):
        async with Runtime.open(sources=[server()]):
            pass


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (',"result":{"content":[{"type":"text","text":"cut \\ud83d here"}]}}', "cut � here"),
        (',"result":{"content":[{"type":"text","text":"latin \xe4"}]}}', "latin �"),
        ("}", "is not valid MCP: its response is no valid message"),
        (',"result":[1]}', "is not valid MCP: its response is no valid message"),
        (',"result":{"content":[}', "is not valid MCP: its response is no valid message"),
    ],
)
async def test_a_response_that_is_no_valid_message_ends_its_call(open_server, rest, text):
    async with open_server() as rt:
        result = await rt.call("fx.raw", {"rest": rest})
        after = await rt.call("fx.echo", {"text": "hi"})
    assert text in result.text
    assert after.text == "hi"
