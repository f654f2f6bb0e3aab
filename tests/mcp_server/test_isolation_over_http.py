"""`agenttool serve` with servers on stdio and five callers at `/mcp`: a question, a hang and a crash delay no other."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_clients import Person, Running, Silent, end, text_of
from project_settings import write_settings
from served_process import serving

pytestmark = pytest.mark.slow

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
CALLERS = ["ada", "bob", "cleo", "dan", "eve"]
OTHERS = CALLERS[1:]
BOUND_S = 240
SERVER = """
[sources.{name}]
kind = "mcp"
command = {python}
args = ["-I", "-S", {fixture}{options}]
{settings}

[[rules]]
behavior = "allow"
tool = "{name}.*"
"""


def source(name, options="", settings=""):
    return SERVER.format(
        name=name,
        python=json.dumps(sys.executable),
        fixture=json.dumps(str(FIXTURE)),
        options=options,
        settings=settings,
    )


SETTINGS = "\n".join(
    (
        '[store]\nurl = "sqlite:state.db"\n[server]\napproves_own_calls = true',
        source("old"),
        source("new", ', "modern=1"'),
        source("hangs"),
        source("dies", settings="parallel = true"),
    )
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Serve the servers in a process of its own; give its URL and a key for each caller."""
    folder = tmp_path_factory.mktemp("served")
    write_settings(folder / "agenttool.toml", SETTINGS)
    with serving(folder) as (_, url):
        yield SimpleNamespace(url=url, headers={name: key_of(folder, name) for name in CALLERS})


def key_of(folder, name):
    words = ["-m", "agenttool", "keys", "add", f"user:{name}", "--role", "caller", "--json"]
    made = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True)
    return {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}


@asynccontextmanager
async def connected(served, name, mode, person=None):
    async with (
        httpx2.AsyncClient(headers=served.headers[name], timeout=BOUND_S) as http,
        Client(
            streamable_http_client(f"{served.url}/mcp", http_client=http), mode=mode, elicitation_callback=person
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("upstream", ["old", "new"])
async def test_a_caller_that_never_answers_delays_no_other_caller_of_the_same_server(served, mode, upstream):
    silent, answering = Silent(), Person(name="Bob")
    async with asyncio.timeout(BOUND_S), AsyncExitStack() as clients:
        first = await clients.enter_async_context(connected(served, "ada", mode, silent))
        others = [await clients.enter_async_context(connected(served, each, mode, answering)) for each in OTHERS]
        asking = asyncio.create_task(first.call_tool(f"{upstream}__ask", {}))
        await silent.asked.wait()
        sums = await asyncio.gather(*(each.call_tool(f"{upstream}__add", {"a": 1, "b": 2}) for each in others))
        assert [each.structured_content for each in sums] == [{"sum": 3}] * 4
        answered = await others[0].call_tool("new__ask", {})
        is_open = not asking.done()
        await end(asking)
    assert "Bob" in text_of(answered)
    assert is_open


async def test_a_hanging_tool_a_question_and_a_killed_server_of_one_caller_affect_no_other_caller(served, mode):
    silent = Silent()
    async with asyncio.timeout(BOUND_S), AsyncExitStack() as clients:
        ada = await clients.enter_async_context(connected(served, "ada", mode, silent))
        others = [await clients.enter_async_context(connected(served, each, mode)) for each in OTHERS]
        hanging, crashing = Running(ada, "hangs__slow"), Running(ada, "dies__slow")
        asking = asyncio.create_task(ada.call_tool("old__ask", {}))
        for each in (hanging.runs, crashing.runs, silent.asked):
            await each.wait()
        pid = int(text_of(await others[0].call_tool("dies__pid", {})))
        os.kill(pid, signal.SIGKILL)
        crashed = await crashing.task
        while (await others[0].call_tool("dies__echo", {"text": "back"})).is_error:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.1)
        names = ("old", "new", "dies")
        calls = [(client, name) for client in (ada, *others) for name in names]
        results = await asyncio.gather(*(client.call_tool(f"{name}__echo", {"text": name}) for client, name in calls))
        still_open = [not each.done() for each in (hanging.task, asking)]
        await end(hanging.task, asking)
        # The server that hung serves others once its call was canceled.
        after = await others[1].call_tool("hangs__echo", {"text": "well"})
    assert crashed.is_error
    assert "the server 'dies' was lost during the call" in text_of(crashed)
    assert [text_of(each) for each in results] == [name for _, name in calls]
    assert still_open == [True, True]
    assert text_of(after) == "well"
