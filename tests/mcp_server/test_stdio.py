"""`agenttool mcp` as a process: the client of the SDK starts it, and calls its tools on both revisions."""

import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
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
