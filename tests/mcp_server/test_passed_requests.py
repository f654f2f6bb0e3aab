"""What a server behind the gateway asks of its client reaches the client that made the call, on both revisions."""

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from free_ports import find_free_port
from mcp.shared.exceptions import MCPError
from mcp_clients import NEW, OLD, Person, connected, text_of
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from waiting import wait_until

from agenttool import McpServer, Runtime

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

SERVER = Path(__file__).resolve().parents[1] / "support" / "mcp_asking_server.py"


@pytest.fixture(scope="module")
def url():
    """Run the server in a process of its own, and return its URL."""
    port = find_free_port()
    with subprocess.Popen([sys.executable, SERVER, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: is_open(port))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def is_open(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def gateway(**settings):
    source = McpServer("up", **{"sampling": True, "roots": "client", **settings})
    return Runtime.open(sources=[source], rules=[{"behavior": "allow", "tool": "up.*"}], approve="wait")


class Peer:
    """A client that answers all requests of servers; `logged` has the log messages that it got."""

    def __init__(self):
        self.person, self.logged = Person(name="Ada"), []

    async def sample(self, context, params):
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Hello"), model="m")

    async def list_roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv")])

    async def log(self, params):
        self.logged.append((params.level, params.data))

    @property
    def callbacks(self):
        return {
            "sampling_callback": self.sample,
            "list_roots_callback": self.list_roots,
            "logging_callback": self.log,
            "log_level": "info",
        }


async def test_an_older_client_answers_what_a_newer_server_asks_in_the_older_way(url):
    peer = Peer()
    async with gateway(url=url) as rt, connected(rt, OLD, peer.person, callbacks=peer.callbacks) as client:
        result = await client.call_tool("ask_while_open", {})
        revision = rt.sources.get("up").protocol_version
    assert (text_of(result), revision) == ("Hello, Ada", NEW)
    assert peer.logged == [("info", "asking")], "the tool ran once"


async def test_a_tool_that_asks_only_in_the_newer_way_is_called_once_for_each_call_of_an_older_client(url):
    peer = Peer()
    async with gateway(url=url) as rt, connected(rt, OLD, peer.person, callbacks=peer.callbacks) as client:
        failed = await client.call_tool("ask_and_end", {})
        answered = await client.call_tool("ask_and_end", {})
    assert (failed.is_error, answered.is_error) == (True, False)
    assert peer.logged == [("info", "asking")] * 3, "one request for the first call, two for the second"


@pytest.mark.parametrize("is_local", [True, False])
async def test_questions_sampling_roots_and_log_messages_of_a_newer_server_reach_any_client(mode, is_local, url):
    peer, place = Peer(), {"command": sys.executable, "args": (str(SERVER),)} if is_local else {"url": url}
    async with gateway(**place) as rt, connected(rt, mode, peer.person, callbacks=peer.callbacks) as client:
        if mode == OLD and not is_local:  # the first call finds out that the tool needs the newer revision
            assert (await client.call_tool("ask_and_end", {})).is_error
        result = await client.call_tool("ask_and_end", {})
        prompt = await client.get_prompt("greet")
    assert text_of(result) == "Hello, Ada ['file:///srv'] asked"
    assert peer.logged[0] == ("info", "asking")
    assert prompt.messages[0].content.text == "Greet Ada"
    assert peer.person.asked == ["up asks: Your name?"] * 2


async def test_a_client_gets_all_requests_of_a_server_at_once_under_the_names_of_the_server(url):
    peer = Peer()
    async with gateway(url=url) as rt, connected(rt, NEW, peer.person, callbacks=peer.callbacks) as client:
        asked = await client.session.call_tool("ask_and_end", {}, allow_input_required=True)
    assert {key: each.method for key, each in asked.input_requests.items()} == {
        "who": "elicitation/create",
        "greeting": "sampling/createMessage",
        "folders": "roots/list",
    }


async def test_a_client_gets_all_questions_of_a_server_at_once(url):
    peer = Peer()
    async with gateway(url=url) as rt, connected(rt, NEW, peer.person) as client:
        asked = await client.session.call_tool("ask_two_questions", {}, allow_input_required=True)
        answered = await client.call_tool("ask_two_questions", {})
    assert list(asked.input_requests) == ["first", "second"]
    assert text_of(answered) == "Ada and Ada"


async def test_a_question_in_the_older_way_to_a_local_server_of_the_newest_revision_names_the_setting_that_allows_it():
    peer, program = Peer(), {"command": sys.executable, "args": (str(SERVER),)}
    async with gateway(**program) as rt, connected(rt, OLD, peer.person) as client:
        failed = await client.call_tool("ask_while_open", {})
    async with (
        gateway(**program, protocol="legacy") as rt,
        connected(rt, OLD, peer.person, callbacks=peer.callbacks) as client,
    ):
        answered = await client.call_tool("ask_while_open", {})
    assert 'ask the operator to write protocol = "legacy"' in text_of(failed)
    assert text_of(answered) == "Hello, Ada"


class Gate:
    """An ASGI application that passes requests to a server; if it is closed, no handshake of an older revision."""

    def __init__(self, url):
        self.url, self.is_closed, self.refused = url, True, 0

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        body = await request.body()
        is_refused = self.is_closed and b'"initialize"' in body
        self.refused += is_refused
        async with httpx2.AsyncClient(timeout=None) as client:
            headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
            sent = client.build_request(request.method, self.url, content=body, headers=headers)
            reply = await client.send(sent, stream=True)
            reply = (
                Response(status_code=503)
                if is_refused
                else StreamingResponse(reply.aiter_raw(), reply.status_code, dict(reply.headers))
            )
            await reply(scope, receive, send)


async def test_a_handshake_that_failed_once_is_tried_again_for_a_later_call(url, serve_app):
    peer, gate = Peer(), Gate(url)
    async with (
        serve_app(gate, lifespan="off") as place,
        gateway(url=f"{place}/mcp") as rt,
        connected(rt, OLD, peer.person, callbacks=peer.callbacks) as client,
        asyncio.timeout(60),
    ):
        failed = await client.call_tool("ask_while_open", {})
        gate.is_closed = False
        result = failed
        while result.is_error:
            await asyncio.sleep(0.05)
            result = await client.call_tool("ask_while_open", {})
    assert (gate.refused > 0, "no back-channel" in text_of(failed)) == (True, True)
    assert text_of(result) == "Hello, Ada"


async def test_a_client_without_the_capability_that_a_server_requires_is_refused(url):
    peer = Peer()
    async with gateway(url=url) as rt:
        async with connected(rt, NEW, peer.person) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("need_sampling", {})
        async with connected(rt, NEW, peer.person, callbacks=peer.callbacks) as client:
            accepted = await client.call_tool("need_sampling", {})
    assert (refused.value.code, refused.value.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    assert text_of(accepted) == "declared"


async def test_what_the_settings_do_not_pass_on_is_not_declared_and_the_failure_names_the_setting(url):
    peer = Peer()
    async with (
        gateway(url=url, sampling=False, roots=()) as rt,
        connected(rt, NEW, peer.person, callbacks=peer.callbacks) as client,
    ):
        needed = await client.call_tool("need_sampling", {})
        asked = await client.call_tool("ask_and_end", {})
    assert [needed.is_error, asked.is_error, peer.person.asked] == [True, True, []]
    assert "sampling is required" in text_of(needed)
    assert "write sampling = true" in text_of(asked)


class Held(Peer):
    """A client whose user answers a method only when it may."""

    def __init__(self, name, method):
        super().__init__()
        self.name, self.method, self.requests = name, method, []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def note(self, method):
        self.requests.append(method)
        if method == self.method:
            self.is_asked.set()
            await self.may_answer.wait()

    async def elicit(self, context, params):
        await self.note("elicitation")
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def sample(self, context, params):
        await self.note("sampling")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text=self.name), model="m")


async def test_over_http_two_actors_with_open_calls_are_asked_about_their_own_calls(url):
    ada, bob = Held("ada", "elicitation"), Held("bob", "sampling")
    async with (
        asyncio.timeout(150),
        gateway(url=url) as rt,
        connected(rt, OLD, ada.elicit, callbacks=ada.callbacks, actor="ada") as adas,
        connected(rt, OLD, bob.elicit, callbacks=bob.callbacks, actor="bob") as bobs,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(adas.call_tool("ask_while_open", {}))
        await ada.is_asked.wait()
        second = tasks.create_task(bobs.call_tool("ask_while_open", {}))
        await bob.is_asked.wait()
        ada.may_answer.set()
        assert text_of(await first) == "ada, ada"
        bob.may_answer.set()
        assert text_of(await second) == "bob, bob"
    assert ada.requests == bob.requests == ["elicitation", "sampling"]
    assert {*ada.logged} == {*bob.logged} == {("info", "asking")}, "a first call may be sent twice"
