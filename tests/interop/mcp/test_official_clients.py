"""Clients that others wrote, through `agenttool serve`: the SDK's, FastMCP's, and the command line of the inspector.

Each lists, searches, calls, is asked, reads a large result and runs a task; the first two also cancel a call, which the
command line cannot.

FastMCP gets an environment of its own, and the inspector comes from npm; both are installed once into a folder that git
ignores. The inspector runs on Node.js 22.
"""

import asyncio
import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClientExtension
from mcp_clients import Person, text_of
from npm_packages import BUILD, install_packages, node_22
from waiting import wait_until

from agenttool.mcp.tasks import EXTENSION, OpenResult

FASTMCP = Path(__file__).parents[2] / "support" / "fastmcp_client.py"

pytestmark = pytest.mark.soak

TOOLS = '''
import asyncio
from agenttool import tool


@tool(read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


@tool(read_only=True)
def much() -> str:
    """Return much text."""
    return "".join(f"line {number}\\n" for number in range(20_000))


@tool(read_only=True)
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool(read_only=True, background=True)
async def compute(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return "computed"


def named(number):
    @tool(name=f"tool_{number}", namespace="many", read_only=True)
    def some() -> str:
        """Do something."""
        return "done"

    return some


MANY = [named(number) for number in range(120)]
'''
LISTED = ["tool_search", "tool_call", "read_result"]
SIZE = sum(len(f"line {number}\n") for number in range(20_000))


def agenttool(folder, *words):
    command = [sys.executable, "-m", "agenttool", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(folder, port):
    """Serve the tools in a process; yield it and the URL."""
    (folder / "mytools.py").write_text(TOOLS)
    (folder / "own.toml").write_text("[server]\napproves_own_calls = true\n")
    command = [sys.executable, "-m", "agenttool", "serve", "--from", "mytools", "--store", "x.db"]
    command += ["--settings", "own.toml", "--port", str(port)]
    with (
        (folder / "serve.log").open("a") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"))
            yield process, f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def answers(url):
    with suppress(OSError):
        return urllib.request.urlopen(url, timeout=10).status == 200  # noqa: S310 -- our own server
    return False


@pytest.fixture
def gateway(tmp_path, free_port):
    with serving(tmp_path, free_port()) as (_, url):
        yield url


@pytest.fixture(scope="session")
def fastmcp_python():
    folder = BUILD / "fastmcp"
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = ["fastmcp>=4.1,<4.1.4", "fastmcp-tasks>=4.1,<4.1.4"]
        subprocess.run([folder / "bin" / "pip", "install", "-q", *packages], check=True, timeout=900)
        (folder / "done").touch()
    return folder / "bin" / "python"


def ends_of(folder, tool):
    """Return how the calls of a tool ended; a filter by a tool that was not called yet would be an error."""
    listed = map(json.loads, agenttool(folder, "log", "--store", "x.db", "--json").splitlines())
    return [each["status"] for each in listed if each["tool"] == tool]


class Follower(ClientExtension):
    """Declares that this client follows tasks."""

    identifier = EXTENSION


class AnyRequest(types.Request[dict[str, object], str]):
    method: str
    params: dict[str, object]


async def send(client, method, **params):
    return (await client.session.send_request(AnyRequest(method=method, params=params), OpenResult)).model_extra


async def ended(client, task):
    """Poll a task until it has ended."""
    while True:
        state = await send(client, "tasks/get", taskId=task["taskId"])
        if state["status"] != "working":
            return state
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_of_the_sdk(gateway, tmp_path, mode):
    person = Person(decision="allow")
    async with Client(gateway, mode=mode, elicitation_callback=person) as client:
        assert [each.name for each in (await client.list_tools()).tools] == LISTED
        found = await client.call_tool("tool_search", {"query": "add two numbers"})
        assert found.structured_content["matches"][0]["name"] == "add"
        assert (await client.call_tool("add", {"a": 19, "b": 23})).structured_content == {"sum": 42}
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"
        assert len(person.asked) == 1
        link = (await client.call_tool("much", {})).content[-1]
        assert len((await client.read_resource(link.uri)).contents[0].text) == SIZE
        waiting = asyncio.ensure_future(client.call_tool("wait", {}))
        await asyncio.to_thread(wait_until, lambda: ends_of(tmp_path, "local.wait"))
        waiting.cancel()
        await asyncio.to_thread(wait_until, lambda: ends_of(tmp_path, "local.wait") == ["canceled"])


async def test_a_task_of_the_client_of_the_sdk_survives_a_crash_of_the_gateway(tmp_path, free_port):
    port = free_port()
    with serving(tmp_path, port) as (process, url):
        async with Client(url, extensions=[Follower()]) as client:
            tasks = [
                await send(client, "tools/call", name="compute", arguments={"seconds": seconds}) for seconds in (0.1, 5)
            ]
            await ended(client, tasks[0])
        process.kill()
        process.wait()
    with serving(tmp_path, port) as (_, url):
        async with Client(url, extensions=[Follower()]) as client, asyncio.timeout(120):
            for task in tasks:  # the second one ran when the process died, and a call that only reads runs again
                assert (await ended(client, task))["result"]["content"][0]["text"] == "computed"


def test_the_client_of_fastmcp(gateway, fastmcp_python, tmp_path):
    done = subprocess.run([fastmcp_python, FASTMCP, gateway], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    same = {
        "listed": LISTED,
        "found": "add",
        "called": {"sum": 42},
        "sent": "sent to ada",
        "asked": 1,
        "read": SIZE,
    }
    assert json.loads(done.stdout) == [
        {"version": "2026-07-28", **same, "task": "computed"},
        {"version": "2025-11-25", **same},
    ]
    wait_until(lambda: ends_of(tmp_path, "local.wait") == ["canceled", "canceled"])


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_command_line_of_the_inspector(gateway, tmp_path, era):
    program = install_packages("mcp-inspector", "@modelcontextprotocol/inspector@2") / ".bin" / "mcp-inspector"
    words = ["--cli", "--server-url", gateway, "--protocol-era", era, "--format", "json", "--quiet"]
    inspector = [str(node_22()), str(program), *words]

    def ask(method, *more):
        done = subprocess.run(
            [*inspector, "--method", method, *more], capture_output=True, text=True, check=False, timeout=120
        )
        return json.loads(done.stdout)["result"]

    def run(name, **arguments):
        inner = json.dumps({"name": name, "arguments": arguments})
        return ask("tools/call", "--tool-name", "tool_call", "--tool-args-json", inner)

    assert [each["name"] for each in ask("tools/list")["tools"]] == LISTED
    found = ask("tools/call", "--tool-name", "tool_search", "--tool-arg", "query=add two numbers")
    assert found["structuredContent"]["matches"][0]["name"] == "add"
    assert run("add", a=19, b=23)["structuredContent"] == {"sum": 42}
    refused = run("send", to="ada")  # this client cannot be asked
    assert f"approvals --store {tmp_path / 'x.db'}" in refused["content"][0]["text"]
    question = json.loads(agenttool(tmp_path, "approvals", "--store", "x.db", "--json"))
    assert question["approval_id"] == refused["_meta"]["agenttool/approval"]
    words = ("--shown", question["shown_digest"], "--store", "x.db")
    agenttool(tmp_path, "approvals", "answer", question["approval_id"], "allow", *words)
    assert run("send", to="ada")["content"][0]["text"] == "sent to ada"
    link = run("much")["content"][-1]
    part = ask("tools/call", "--tool-name", "read_result", "--tool-arg", f"payload_id={link['uri']}", "start_line=9")
    assert "line 8" in part["content"][0]["text"]
    assert len(ask("resources/read", "--uri", link["uri"])["contents"][0]["text"]) == SIZE
    assert run("compute", seconds=0.5)["content"][0]["text"] == "computed"  # a task on the modern revision
