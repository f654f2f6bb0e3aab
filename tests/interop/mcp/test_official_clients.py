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
from mcp_clients import OpenResult, Person, text_of
from npm_packages import BUILD, install_packages, node_22
from waiting import wait_until

from agenttool.adapters.mcp.session import TASKS_EXTENSION

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

    identifier = TASKS_EXTENSION


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


class Inspector:
    """The command line of the inspector, in front of a gateway."""

    def __init__(self, gateway, era):
        program = install_packages("mcp-inspector", "@modelcontextprotocol/inspector@2") / ".bin" / "mcp-inspector"
        words = ["--cli", "--server-url", gateway, "--protocol-era", era, "--format", "json", "--quiet"]
        self.command = [str(node_22()), str(program), *words]

    @contextmanager
    def asking(self, method, *more):
        """Start a request; yield a function that waits for its result."""
        with subprocess.Popen([*self.command, "--method", method, *more], stdout=subprocess.PIPE, text=True) as process:
            yield lambda: json.loads(process.communicate(timeout=120)[0])["result"]

    def ask(self, method, *more):
        with self.asking(method, *more) as result:
            return result()

    def calling(self, name, **arguments):
        inner = json.dumps({"name": name, "arguments": arguments})
        return self.asking("tools/call", "--tool-name", "tool_call", "--tool-args-json", inner)

    def call(self, name, **arguments):
        with self.calling(name, **arguments) as result:
            return result()


def questions_in(folder):
    return [*map(json.loads, agenttool(folder, "approvals", "--store", "x.db", "--json").splitlines())]


def allow_one(folder):
    (question,) = wait_until(lambda: questions_in(folder))
    words = ("--shown", question["shown_digest"], "--store", "x.db")
    agenttool(folder, "approvals", "answer", question["approval_id"], "allow", *words)
    return question["approval_id"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_command_line_of_the_inspector(gateway, tmp_path, era):
    inspector = Inspector(gateway, era)
    assert [each["name"] for each in inspector.ask("tools/list")["tools"]] == LISTED
    found = inspector.ask("tools/call", "--tool-name", "tool_search", "--tool-arg", "query=add two numbers")
    assert found["structuredContent"]["matches"][0]["name"] == "add"
    assert inspector.call("add", a=19, b=23)["structuredContent"] == {"sum": 42}
    if era == "modern":  # a task, which waits for the approver
        with inspector.calling("send", to="ada") as result:
            allow_one(tmp_path)
            sent = result()
    else:  # this client cannot be asked and has no tasks
        refused = inspector.call("send", to="ada")
        assert f"approvals --store {tmp_path / 'x.db'}" in refused["content"][0]["text"]
        assert allow_one(tmp_path) == refused["_meta"]["agenttool/approval"]
        sent = inspector.call("send", to="ada")
    assert sent["content"][0]["text"] == "sent to ada"
    link = inspector.call("much")["content"][-1]
    words = ("--tool-name", "read_result", "--tool-arg", f"payload_id={link['uri']}", "start_line=9")
    assert "line 8" in inspector.ask("tools/call", *words)["content"][0]["text"]
    assert len(inspector.ask("resources/read", "--uri", link["uri"])["contents"][0]["text"]) == SIZE
    assert inspector.call("compute", seconds=0.5)["content"][0]["text"] == "computed"  # a task on the modern revision
