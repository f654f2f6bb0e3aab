"""A request of a server behind the gateway reaches the actor of its call, and never another actor."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import pytest
from mcp_clients import OLD, connected, text_of

from agenttool import McpServer, Runtime
from agenttool.adapters.mcp import server_requests
from agenttool.codec import write

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
REFUSAL = "the server does not state to which call the request belongs"
BOUND_S = 150

methods = pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])


class Actor:
    """The person and the client of an actor: notes each request, and answers once `may_answer` is set."""

    def __init__(self, name):
        self.name, self.asked = name, []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def note(self, request):
        self.asked.append(request)
        self.is_asked.set()
        await self.may_answer.wait()

    async def elicit(self, context, params):
        await self.note(params.message.removeprefix("fx asks: "))
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context, params):
        await self.note("sampling")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text=self.name), model="m")

    async def list_roots(self, context):
        await self.note("roots")
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///{self.name}")])

    async def log(self, params):
        self.asked.append(params.data)

    def connected(self, rt, mode=OLD):
        callbacks = {
            "sampling_callback": self.sample,
            "list_roots_callback": self.list_roots,
            "logging_callback": self.log,
            "log_level": "info",
        }
        return connected(rt, mode, self.elicit, callbacks=callbacks, actor=self.name)


@asynccontextmanager
async def two_actors(mode=OLD, **settings):
    """Yield a runtime and two actors with their clients, which share the connection to a server on stdio."""
    program = {"command": sys.executable, "args": ("-I", "-S", str(FIXTURE))}
    source = McpServer("fx", **program, sampling=True, roots="client", **settings)
    rules, ada, bob = [{"behavior": "allow", "tool": "fx.*"}], Actor("ada"), Actor("bob")
    async with (
        asyncio.timeout(BOUND_S),
        Runtime.open(sources=[source], rules=rules, approve="wait") as rt,
        ada.connected(rt, mode) as adas,
        bob.connected(rt, mode) as bobs,
    ):
        bob.may_answer.set()
        yield rt, (ada, adas), (bob, bobs)


async def existing(path):
    while not path.exists():  # noqa: ASYNC110 -- another process writes it
        await asyncio.sleep(0.01)


async def end(task):
    task.cancel()
    await asyncio.wait([task])


async def journal_of(rt):
    return "\n".join([write(each).decode() async for each in rt.journal.export()])


@methods
async def test_another_request_of_a_call_that_waits_is_refused_while_a_call_of_another_actor_runs(
    mode, method, tmp_path
):
    again, over = tmp_path / "again", tmp_path / "over"
    async with two_actors(mode) as (rt, (ada, adas), (bob, bobs)):
        asking = asyncio.create_task(adas.call_tool("ask_again", {"file": str(again), "method": method}))
        await ada.is_asked.wait()
        other = asyncio.create_task(bobs.call_tool("until", {"file": str(over)}))
        await existing(tmp_path / "over.started")
        again.touch()
        await existing(tmp_path / "again.replied")
        over.touch()
        assert text_of(await other) == "done"
        ada.may_answer.set()
        replies = json.loads(text_of(await asking))
        assert (ada.asked, bob.asked) == (["First?"], [])
        assert replies["first"] == {"action": "accept", "content": {"name": "ada"}}
        assert REFUSAL in replies["again"]["message"]
        assert f"the request {method!r} of the server is refused" in await journal_of(rt)


@methods
async def test_a_request_of_the_call_that_runs_is_refused_while_a_call_of_another_actor_waits(method, tmp_path):
    for name in ("ada", "bob"):
        (tmp_path / name).mkdir()
    async with two_actors() as (_, (ada, adas), (bob, bobs)):
        given = {"file": str(tmp_path / "ada" / "again"), "method": method}
        asking = asyncio.create_task(adas.call_tool("ask_again", given))
        await ada.is_asked.wait()
        (tmp_path / "bob" / "again").touch()
        result = await bobs.call_tool("ask_again", {"file": str(tmp_path / "bob" / "again"), "method": method})
        assert [REFUSAL in each["message"] for each in json.loads(text_of(result)).values()] == [True, True]
        assert (ada.asked, bob.asked) == (["First?"], [])
        await end(asking)


async def test_a_request_of_a_call_that_was_just_canceled_is_not_shown_to_the_actor_of_a_later_call(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(server_requests, "LEFT_S", 2.0 * BOUND_S)
    again, over = tmp_path / "again", tmp_path / "over"
    async with two_actors() as (rt, (ada, adas), (bob, bobs)):
        asking = asyncio.create_task(adas.call_tool("ask_again", {"file": str(again), "method": "elicitation/create"}))
        await ada.is_asked.wait()
        await end(asking)
        while await rt.approvals.list():  # noqa: ASYNC110 -- the call withdraws it
            await asyncio.sleep(0.01)
        other = asyncio.create_task(bobs.call_tool("until", {"file": str(over)}))
        await existing(tmp_path / "over.started")
        again.touch()
        await existing(tmp_path / "again.replied")
        over.touch()
        assert text_of(await other) == "done"
        assert REFUSAL in (tmp_path / "again.replied").read_text()
        assert bob.asked == []


async def test_a_call_that_was_canceled_and_never_answered_prevents_no_request_of_another_actor(tmp_path, monkeypatch):
    monkeypatch.setattr(server_requests, "LEFT_S", 0.0)
    async with two_actors() as (rt, (ada, adas), (bob, bobs)):
        hanging = asyncio.create_task(adas.call_tool("until", {"file": str(tmp_path / "never")}))
        await existing(tmp_path / "never.started")
        await end(hanging)
        while '"canceled"' not in await journal_of(rt):  # noqa: ASYNC110 -- the call records it
            await asyncio.sleep(0.01)
        (tmp_path / "again").touch()
        given = {"file": str(tmp_path / "again"), "method": "elicitation/create"}
        replies = json.loads(text_of(await bobs.call_tool("ask_again", given)))
        assert replies == {key: {"action": "accept", "content": {"name": "bob"}} for key in ("first", "again")}
        assert (ada.asked, sorted(bob.asked)) == ([], ["Again?", "First?"])


async def test_a_log_message_reaches_no_client_while_calls_of_two_actors_are_open(tmp_path):
    async with two_actors() as (rt, (ada, adas), (bob, bobs)):
        given = {"file": str(tmp_path / "again"), "method": "roots/list"}
        asking = asyncio.create_task(adas.call_tool("ask_again", given))
        await ada.is_asked.wait()
        assert text_of(await bobs.call_tool("note", {})) == "noted"
        assert (ada.asked, bob.asked) == (["First?"], [])
        assert "warning: low disk" in rt.sources.get("fx").log
        await end(asking)


@methods
async def test_actors_with_a_connection_each_are_asked_about_their_own_calls(method, tmp_path):
    async with two_actors(sessions="actor") as (_, (ada, adas), (bob, bobs)):
        given = {"file": str(tmp_path / "again"), "method": method}
        asking = asyncio.create_task(adas.call_tool("ask_again", given))
        await ada.is_asked.wait()
        (tmp_path / "bob").touch()
        result = await bobs.call_tool("ask_again", {"file": str(tmp_path / "bob"), "method": method})
        assert REFUSAL not in text_of(result)
        assert (ada.asked[:1], len(bob.asked)) == (["First?"], 2)
        await end(asking)
