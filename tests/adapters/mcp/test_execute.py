"""Calls of the tools of an MCP server over stdio, through the runtime."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequest
from waiting import wait_until

from agenttool import Allow, ConfigError, Edit, McpServer, Runtime
from agenttool.codec import to_json
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


NATIVE_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "crate": {"$ref": "#/$defs/crate", "description": "Which one."},
        "weight": {"type": "number", "exclusiveMinimum": 0, "default": 1, "examples": [2.5], "x-unit": "kg"},
    },
    "$defs": {"crate": {"type": "string", "format": "uuid"}},
    "required": ["crate"],
    "dependentRequired": {"weight": ["crate"]},
}


@pytest.mark.requirement("AT-IO-19")
async def test_the_schemas_of_a_server_are_in_the_contracts_as_the_server_wrote_them(open_server, tmp_path):
    found = {"type": "object", "properties": {"shelf": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "integer"}}}
    definition = {"name": "store", "inputSchema": NATIVE_SCHEMA, "outputSchema": found}
    (tmp_path / "definitions.json").write_text(json.dumps([definition]))
    async with open_server(f"definitions={tmp_path / 'definitions.json'}") as rt:
        declared = (await records_of(rt, ToolDeclaration))["tool_fx.store"]
        refused = await rt.call("fx.store", {"crate": 7})
    contract = declared.input_contract
    assert json.dumps(contract.model_input_schema) == json.dumps(NATIVE_SCHEMA)
    assert json.dumps(contract.runtime_input_schema) == json.dumps(NATIVE_SCHEMA)
    assert json.dumps(declared.output_contract.structured_schema) == json.dumps(found)
    assert declared.external_mappings == (McpMapping(server_id="fx", method="tools/list", tool_name="store"),)
    assert refused.error.error_class is ErrorClass.SCHEMA_VALIDATION_FAILED


def exchanged(log: Path):
    """Return the calls that a server read, without their ids and without what a client states about itself."""
    sent = messages(log, "tools/call")
    for each in sent:
        CallToolRequest.model_validate(each)
        assert each.pop("id") == each["params"]["_meta"].pop("progressToken")
        for name in ("clientInfo", "clientCapabilities", "logLevel"):
            each["params"]["_meta"].pop(f"io.modelcontextprotocol/{name}", None)
    return sent


async def ignore_progress(progress, total, message):
    """Take progress, as agenttool does."""


@pytest.mark.requirement("AT-MODEL-03")
@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_a_server_reads_the_same_messages_and_decides_the_same_with_and_without_agenttool(
    open_server, server, tmp_path, revision
):
    calls = [("echo", {"text": "hi"}), ("add", {"a": 1, "b": 2}), ("fail", {}), ("reject", {})]
    modern = ["modern=1"] if revision == "modern" else []
    direct, within = tmp_path / "direct", tmp_path / "within"
    program = server(*modern, f"log={direct}")
    parameters = StdioServerParameters(command=program.command, args=[*program.args])
    answers = []
    async with Client(stdio_client(parameters), mode="legacy" if revision == "legacy" else "2026-07-28") as client:
        for name, given in calls:
            try:
                result = await client.call_tool(name, given, progress_callback=ignore_progress)
                answers.append((result.is_error, result.structured_content, [each.text for each in result.content]))
            except MCPError as error:
                answers.append((error.code, error.message, error.data))
    async with open_server(*modern, f"log={within}") as rt:
        results = [await rt.call(f"fx.{name}", given) for name, given in calls]
    assert exchanged(within) == exchanged(direct)
    *answered, rejected = results
    assert answers[:-1] == [
        (each.is_error, to_json(each).get("structured_content"), [item.text for item in each.content])
        for each in answered
    ]
    assert answers[-1] == tuple(rejected.error.native_error_ref[name] for name in ("code", "message", "data"))


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
async def test_each_part_of_a_result_is_preserved_in_the_journal(open_server):
    async with open_server() as rt:
        ids = [
            (await rt.call(name, given)).invocation_id
            for name, given in (("fx.add", {"a": 1, "b": 2}), ("fx.fail", {}), ("fx.echo", {"text": "hi"}))
        ]
        added, failed, echoed = [to_json(await rt.journal.result(each)) for each in ids]
    assert (added["structured_content"], added["content"][0]["text"]) == ({"sum": 3}, "3")
    assert (failed["external_mappings"][0]["isError"], failed["is_error"]) == (True, True)
    assert failed["content"][0]["text"] == "the disk is full"
    assert failed["error"]["native_error_ref"]["isError"] is True
    assert echoed["external_mappings"][0]["_meta"] == {"vendor/trace": "t1"}


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


@pytest.mark.parametrize("message", ["the key is wrong", "Connection closed", "Connection closed by the database"])
async def test_an_error_with_the_code_of_lost_connections_is_an_answer_and_ends_no_other_call(
    open_server, tmp_path, message
):
    error = f'{{"code":-32000,"message":"{message}","data":{{"why":"test"}}}}'
    async with open_server(parallel=True) as rt:
        waiting = asyncio.create_task(rt.call("fx.until", {"file": str(tmp_path / "end")}))
        while not (tmp_path / "end.started").exists():
            await asyncio.sleep(0.01)
        failed = await rt.call("fx.raw", {"rest": f',"error":{error}}}'})
        (tmp_path / "end").touch()
        ended = await waiting
    assert failed.error.error_code == "-32000"
    assert failed.error.native_error_ref["data"] == {"why": "test"}
    assert ended.ok


async def test_most_requests_of_a_server_that_floods_are_dropped_and_its_call_ends(open_server, tmp_path):
    log = tmp_path / "messages"
    pings = "\n".join(json.dumps({"jsonrpc": "2.0", "id": f"p{each}", "method": "ping"}) for each in range(15_000))
    async with open_server(f"log={log}") as rt:
        result = await rt.call("fx.raw", {"rest": ',"result":{"content":[{"type":"text","text":"done"}]}}\n' + pings})
        assert (await rt.call("fx.echo", {"text": "still there"})).text == "still there"
    assert result.text == "done"
    answered = [line for line in log.read_text().splitlines() if '"id":"p' in line.replace(" ", "")]
    assert 0 < len(answered) < 10_000  # about 200 on a quiet machine


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


@pytest.mark.parametrize("trust", [False, True])
async def test_a_read_of_a_trusted_local_server_needs_no_approval(tmp_path, trust):
    program = tmp_path / "reader.py"
    program.write_text(
        "from mcp.server import MCPServer\nfrom mcp_types import ToolAnnotations\nserver = MCPServer('reader')\n"
        "@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))\n"
        "def look() -> str:\n    return 'seen'\nserver.run()\n"
    )
    reader = McpServer("reader", command=sys.executable, args=(str(program),), trust=trust)
    async with Runtime.open(sources=[reader], approve="deny") as rt:
        result = await rt.call("reader.look", {})
    assert (result.ok, result.error is None) == (trust, trust)


async def test_progress_is_reported_and_a_canceled_call_is_canceled_at_the_server(open_server, tmp_path):
    log = tmp_path / "messages"
    async with open_server(f"log={log}") as rt:
        started = await rt.start("fx.slow", {})
        while not [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]:
            await asyncio.sleep(0.01)
        assert await started.cancel()
        result = await started.result()
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


def answer(question):
    is_question = question.tool_name.endswith("ask_user")
    return Edit({**question.shown, "answer": {"name": "Ada"}}) if is_question else Allow()


async def test_a_task_is_followed_to_its_end(server):
    async with Runtime.open(sources=[server("modern=1")], approve=answer) as rt:
        done = await rt.call("fx.task", {"ends": "completed"})
        progress = [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]
        failed = await rt.call("fx.task", {"ends": "failed"})
        asked = await rt.call("fx.task", {"ends": "input"})
    assert done.text == "printed None"
    assert {"step 1", "step 2"} <= {each.message for each in progress}
    assert {each.task_id for each in progress} == {"t-completed"}
    assert (failed.error.error_code, failed.error.native_error_ref["message"]) == ("-32050", "out of paper")
    assert asked.text == "printed Ada"


async def test_the_task_of_a_canceled_call_is_canceled(server, tmp_path):
    log = tmp_path / "messages"
    async with Runtime.open(sources=[server("modern=1", f"log={log}")], approve=answer) as rt:
        started = await rt.start("fx.task", {"ends": "never"})
        while "tasks/get" not in log.read_text():
            await asyncio.sleep(0.01)
        await started.cancel()
        result = await started.result()
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert result.error.error_class is ErrorClass.CANCELED
    assert [each["params"]["taskId"] for each in sent if each.get("method") == "tasks/cancel"] == ["t-never"]


PROGRAM = """
import asyncio, json, sys
from agenttool import McpServer, Runtime

async def main():
    server = McpServer("fx", command=sys.executable, args=json.loads(sys.argv[2]))
    async with Runtime.open(sources=[server], store=sys.argv[1], approve=lambda _: True) as rt:
        await rt.call("fx.task", {"ends": "file"})

asyncio.run(main())
"""


async def open_call(rt):
    while not rt.calls.open_ids():
        await asyncio.sleep(0.01)
    return rt.calls.open_ids()[0]


def is_followed(log):
    return log.exists() and "tasks/get" in log.read_text()


async def finish(made, store, done, log):
    """Open a runtime on the store, end the task, and return the result of its call."""
    log.write_text("")
    async with Runtime.open(sources=[made], store=store, approve=lambda _: False) as rt:
        call = await open_call(rt)
        while not is_followed(log):
            await asyncio.sleep(0.01)
        done.touch()
        result = await rt.calls.get(call).result()
    sent = [json.loads(line).get("method") for line in log.read_text().splitlines()]
    return result, sent


async def test_a_task_is_followed_by_the_next_runtime_if_this_one_is_closed(server, tmp_path):
    done, log, store = tmp_path / "done", tmp_path / "messages", str(tmp_path / "calls.db")
    made = server("modern=1", f"done={done}", f"log={log}")
    async with Runtime.open(sources=[made], store=store, approve=lambda _: True) as rt:
        started = await rt.start("fx.task", {"ends": "file"})
        while not is_followed(log):
            await asyncio.sleep(0.01)
    first = log.read_text()
    result, sent = await finish(made, store, done, log)
    assert "tasks/cancel" not in first
    assert (result.invocation_id, result.text) == (started.id, "printed None")
    assert "tools/call" not in sent


@pytest.mark.slow
async def test_a_task_is_followed_by_the_next_process_if_this_one_is_killed(server, tmp_path):
    done, log, store = tmp_path / "done", tmp_path / "messages", str(tmp_path / "calls.db")
    made = server("modern=1", f"done={done}", f"log={log}")
    words = [sys.executable, "-c", PROGRAM, store, json.dumps(made.args)]
    with subprocess.Popen(words) as process:
        try:
            wait_until(lambda: is_followed(log))
        finally:
            process.kill()
    result, sent = await finish(made, store, done, log)
    assert result.text == "printed None"
    assert "tools/call" not in sent
