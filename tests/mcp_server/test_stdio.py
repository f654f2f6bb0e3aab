"""`agenttool mcp` as a process: the client of the SDK starts it, and calls its tools on both revisions."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_clients import OLD, Person, text_of

TOOLS = '''
from agenttool import tool

print("a line that is no message")

@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("another one")
    return a + b

@tool
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"
'''


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", OLD])
async def test_a_client_starts_the_command_and_uses_its_tools(tmp_path, mode):
    (tmp_path / "mytools.py").write_text(TOOLS)
    command = ["-m", "agenttool", "mcp", "--from", "mytools", "--store", "calls.db", "--actor", "user:ada"]
    program = StdioServerParameters(command=sys.executable, args=command, cwd=tmp_path)
    async with Client(stdio_client(program), mode=mode, elicitation_callback=Person(decision="allow")) as client:
        assert client.protocol_version == {"auto": "2026-07-28", OLD: "2025-11-25"}[mode]
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "read_result", "send"]
        assert text_of(await client.call_tool("add", {"a": 19, "b": 23})) == "42"
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"


@pytest.mark.slow
async def test_a_call_that_waits_names_a_command_that_works_in_every_folder(tmp_path):
    (tmp_path / "mytools.py").write_text(TOOLS)
    command = ["-m", "agenttool", "mcp", "--from", "mytools", "--store", "calls.db", "--directory", str(tmp_path)]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        waiting = text_of(await client.call_tool("send", {"to": "ada"}))
    assert f"approvals --store {tmp_path / 'calls.db'}`" in waiting


PATIENT = """
from agenttool import tool
from agenttool.adapters.mcp import source

source.FIRST_ANSWER_S = 600.0

@tool
def own() -> str:
    return "own"
"""
FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"


def settings_with(folder, *options):
    args = ["-I", "-S", str(FIXTURE), *options]
    (folder / "agenttool.toml").write_text(
        f'[sources.fx]\nkind = "mcp"\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n'
    )
    (folder / "mytools.py").write_text(PATIENT)
    words = ["-m", "agenttool", "mcp", "--from", "mytools", "--settings", "agenttool.toml", "--store", "calls.db"]
    return StdioServerParameters(command=sys.executable, args=words, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", OLD])
async def test_a_client_connects_while_a_server_starts_and_its_first_list_waits_for_that_server(tmp_path, mode):
    starts = tmp_path / "starts"
    async with Client(stdio_client(settings_with(tmp_path, f"start={starts}")), mode=mode) as client:
        assert not starts.exists()
        starts.touch()
        assert {"fx__echo", "own"} <= {each.name for each in (await client.list_tools()).tools}


@pytest.mark.slow
async def test_settings_that_cannot_be_used_end_the_command_with_the_reason_also_if_a_client_is_connected(tmp_path):
    program = settings_with(tmp_path)
    with (tmp_path / "agenttool.toml").open("a") as file:
        file.write('[mcp.readers]\ntools = ["nothing.*"]\n')
    with (tmp_path / "stderr").open("w+") as log:
        with pytest.raises((MCPError, BaseExceptionGroup)):
            async with Client(stdio_client(program, errlog=log), mode=OLD) as client:
                await client.list_tools()
        log.seek(0)
        assert "'nothing.*' in tools of [mcp.readers] matches no tool" in log.read()


DEEP = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}"
INVALID_LINES = {
    b"hello": (None, -32700),
    b'{"jsonrpc":"2.0","id":5,"method":"ping"': (5, -32700),
    b'[{"jsonrpc":"2.0","id":6,"method":"ping"}]': (None, -32600),
    b'{"jsonrpc":"2.0","id":"x","method":8}': ("x", -32600),
    DEEP: (7, -32600),
}


@pytest.mark.slow
async def test_each_line_that_is_no_message_gets_an_error_and_the_next_request_is_answered(tmp_path):
    (tmp_path / "mytools.py").write_text(TOOLS)
    words = [sys.executable, "-m", "agenttool", "mcp", "--from", "mytools", "--store", "calls.db"]
    ping = b'{"jsonrpc":"2.0","id":9,"method":"ping"}'
    process = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, stdin=PIPE, stdout=PIPE)
    try:
        async with asyncio.timeout(60):
            process.stdin.write(b"\n".join([*INVALID_LINES, ping, b""]))
            replies = [json.loads(await process.stdout.readline()) for _ in (*INVALID_LINES, ping)]
    finally:
        process.stdin.close()
        await process.wait()
    *refused, answered = replies
    assert [(each["id"], each["error"]["code"]) for each in refused] == [*INVALID_LINES.values()]
    assert answered["id"] == 9
