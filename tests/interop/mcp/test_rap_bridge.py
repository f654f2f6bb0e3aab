"""Both protocols at once, in processes of their own: an MCP server as a RAP toolset, and a RAP toolset for MCP clients."""

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension
from mcp.client.stdio import stdio_client
from mcp_clients import OpenResult, text_of
from mcp_types import Request

from agenttool import RapServer, Runtime
from agenttool.adapters.mcp.session import TASKS_EXTENSION

FIXTURE = Path(__file__).parents[2] / "support" / "mcp_fixture_server.py"

BRIDGE = f"""
from agenttool import McpServer, Runtime
from agenttool.rap import Provider

server = McpServer("fx", command={sys.executable!r}, args=("-I", "-S", {str(FIXTURE)!r}))
rules = [{{"tool": "fx.*", "behavior": "allow"}}]
provider = Provider("bridge", allow=["127.0.0.1"])
provider.include_runtime(lambda: Runtime.open(sources=[server], rules=rules, store="sqlite:bridge.db"))
"""

SLOW = """
import asyncio
from pathlib import Path
from agenttool.rap import Provider

provider = Provider("press", allow=["127.0.0.1"])

@provider.tool(read_only=True)
async def print_page(text: str) -> str:
    "Print a page."
    while not Path("ink").exists():
        await asyncio.sleep(0.02)
    return f"printed {text}"
"""

pytestmark = pytest.mark.slow


@contextmanager
def serving(folder: Path, module: str, code: str):
    (folder / f"{module}.py").write_text(code)
    command = [sys.executable, "-m", "agenttool", "rap", "serve", f"{module}:provider", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


async def test_a_runtime_calls_an_mcp_server_that_is_offered_over_rap(tmp_path):
    with serving(tmp_path, "bridge", BRIDGE) as url:
        source = RapServer(name="far", url=url, allow=("127.0.0.0/8",))
        async with Runtime.open(sources=[source], store="memory:", approve=lambda _: True) as rt:
            echoed = await rt.call("far.echo", {"text": "over two protocols"})
            failed = await rt.call("far.fail", {})
            slow = await rt.call("far.slow", {"steps": 3})
    assert (echoed.text, slow.text) == ("over two protocols", "done")
    assert "the disk is full" in failed.error.message


class Follower(ClientExtension):
    """Declares that this client can follow tasks."""

    identifier = TASKS_EXTENSION


class TaskRequest(Request[dict[str, object], str]):
    method: str
    params: dict[str, object]


async def sent(client, method, **params):
    return (await client.session.send_request(TaskRequest(method=method, params=params), OpenResult)).model_extra


@pytest.mark.parametrize("extensions", [[], [Follower()]], ids=["waits", "task"])
async def test_an_mcp_client_calls_a_rap_toolset_and_follows_it_as_a_task_if_it_can(tmp_path, extensions):
    with serving(tmp_path, "press", SLOW) as url:
        (tmp_path / "agenttool.toml").write_text(
            f"[sources.press]\nkind = 'rap'\nurl = '{url}'\nallow = ['127.0.0.0/8']\n"
            "[[rules]]\nbehavior = 'allow'\ntool = 'press.*'\n"
        )
        words = ["-m", "agenttool", "mcp", "--store", "calls.db", "--settings", "agenttool.toml"]
        program = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)
        async with Client(stdio_client(program), extensions=extensions) as client:
            if not extensions:
                (tmp_path / "ink").touch()
                assert text_of(await client.call_tool("print_page", {"text": "one"})) == "printed one"
                return
            task = await sent(client, "tools/call", name="print_page", arguments={"text": "one"})
            assert (task["resultType"], task["status"]) == ("task", "working")
            (tmp_path / "ink").touch()
            while task["status"] == "working":
                await asyncio.sleep(0.05)
                task = await sent(client, "tasks/get", taskId=task["taskId"])
    assert task["status"] == "completed"
    assert task["result"]["content"][0]["text"] == "printed one"
