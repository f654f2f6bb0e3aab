"""Callers over HTTP: the subject of a token is the actor, and what one subject has is closed to another."""

import asyncio
import gc
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_clients import NEW, Person, text_of
from project_settings import write_settings
from starlette.applications import Starlette
from starlette.routing import Route

from agenttool import McpServer, Runtime, tool
from agenttool.config import read_config
from agenttool.mcp.http import serve_http
from agenttool.mcp.profiles import McpOptions, read_profiles
from agenttool.ports.identity import AccessRole, IdentityKind, Principal
from agenttool.ports.quota import PER_CALLER
from agenttool.records import PermissionDecision, ToolInvocation

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
STARTED = []
ROLE = "approver"


@tool
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


@tool(read_only=True)
def much() -> str:
    """Return much text."""
    return "".join(f"line {number}\n" for number in range(20_000))


@tool(read_only=True)
async def wait() -> str:
    """Wait."""
    STARTED[0].set()
    await asyncio.Event().wait()
    return "never"


class Authenticated:
    """Stands in for the gateway: the header names the subject, which the real one takes from a verified token."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        subject = dict(scope["headers"]).get(b"x-subject")
        if subject is not None:
            principal = Principal(
                subject=subject.decode(), kind=IdentityKind.KEY, tenant="t", roles=frozenset({AccessRole(ROLE)})
            )
            scope.setdefault("state", {})["principal"] = principal
        await self.app(scope, receive, send)


@pytest.fixture
def serving(serve_app):
    @asynccontextmanager
    async def serving(profiles=None, rules=(), sources=()):
        async with (
            Runtime.open(tools=[send, much, wait], sources=sources, approve="wait", rules=rules) as runtime,
            serve_http(runtime, profiles or {"": McpOptions()}) as mcp,
            serve_app(
                Authenticated(Starlette(routes=[Route("/mcp", mcp), Route("/mcp/{profile}", mcp)])), lifespan="off"
            ) as url,
        ):
            yield runtime, url
        for task in asyncio.all_tasks():
            if "_shutdown_watcher" in repr(task):  # sse-starlette leaves it running
                task.cancel()

    return serving


@asynccontextmanager
async def client_of(url, mode, subject, person=None):
    headers = {} if subject is None else {"x-subject": subject}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, elicitation_callback=person
        ) as client,
    ):
        yield client


async def test_the_actor_of_a_call_is_the_subject_of_its_token(serving, mode):
    async with serving() as (runtime, url):
        for subject in ("user:ada", None):
            async with client_of(url, mode, subject) as client:
                result = await client.call_tool("much", {})
            invocation = await runtime.journal.invocation(result.meta["agenttool/invocation"])
            assert invocation.actor_ref == subject


async def test_the_name_of_a_client_matches_no_rule_by_actor(serving, mode):
    rule = {"behavior": "allow", "tool": "local.send", "actor": "mcp"}  # the client of the SDK calls itself mcp
    async with serving(rules=[rule]) as (_, url):
        async with client_of(url, mode, None) as client:
            assert (await client.call_tool("send", {"to": "ada"})).is_error
        async with client_of(url, mode, "mcp") as client:
            assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"


async def test_stored_output_is_read_by_the_subject_that_received_it(serving, mode):
    async with serving() as (_, url), client_of(url, mode, "user:ada") as ada:
        uri = next(each.uri for each in (await ada.call_tool("much", {})).content if each.type == "resource_link")
        assert (await ada.read_resource(uri)).contents
        assert not (await ada.call_tool("read_result", {"payload_id": uri})).is_error
        for other in ("user:eve", None):
            async with client_of(url, mode, other) as client:
                with pytest.raises(MCPError, match="Resource not found"):
                    await client.read_resource(uri)
                refused = await client.call_tool("read_result", {"payload_id": uri})
                assert "there is no stored output" in text_of(refused)


async def test_an_approved_call_continues_for_its_subject_alone(serving, mode):
    async with serving() as (runtime, url), client_of(url, mode, "user:ada") as ada:
        await ada.call_tool("send", {"to": "bob"})
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")
        async with client_of(url, mode, "user:eve") as eve:
            assert (await eve.call_tool("send", {"to": "bob"})).is_error
        assert text_of(await ada.call_tool("send", {"to": "bob"})) == "sent to bob"


async def test_an_answer_in_the_client_is_recorded_with_its_subject(serving, mode):
    async with serving({"": McpOptions(approves_own_calls=True)}) as (runtime, url):
        async with client_of(url, mode, "user:ada", Person(decision="allow")) as ada:
            await ada.call_tool("send", {"to": "bob"})
        records = [each async for each in runtime.journal.export()]
    (decision,) = [each for each in records if isinstance(each, PermissionDecision) and each.behavior == "allow"]
    assert decision.decided_by == "user:ada"
    assert [*decision.reason.details["approver"]] == ["claim", "principal"]


@pytest.mark.parametrize(("role", "own_calls"), [("approver", False), ("caller", True)])
async def test_a_caller_that_may_not_approve_its_own_calls_is_not_asked(serving, mode, monkeypatch, role, own_calls):
    monkeypatch.setitem(globals(), "ROLE", role)
    person = Person(decision="allow")
    profiles = {"": McpOptions(approves_own_calls=own_calls)}
    async with serving(profiles) as (_, url), client_of(url, mode, "user:ada", person) as ada:
        assert "approval_required" in text_of(await ada.call_tool("send", {"to": "bob"}))
    assert person.asked == []


async def test_an_approval_for_a_tool_that_is_named_like_a_question_is_no_question(serving, mode, tmp_path):
    (tmp_path / "more.json").write_text('[{"name": "ask_user", "inputSchema": {"type": "object"}}]')
    options = ("-I", "-S", str(FIXTURE), f"definitions={tmp_path / 'more.json'}")
    source, person = McpServer("fx", command=sys.executable, args=options), Person(decision="allow")
    async with serving(sources=[source]) as (_, url), client_of(url, mode, "user:ada", person) as ada:
        result = await ada.call_tool("fx__ask_user_", {"message": "Your name?", "schema": {"type": "object"}})
    assert "approval_required" in text_of(result)
    assert person.asked == []


async def test_a_canceled_request_is_recorded_with_its_caller_and_not_with_the_user_of_the_server(serving, mode):
    STARTED[:] = [asyncio.Event()]
    async with serving() as (runtime, url), client_of(url, mode, "user:ada") as ada:
        call = asyncio.ensure_future(ada.call_tool("wait", {}))
        await asyncio.wait_for(STARTED[0].wait(), 30)
        call.cancel()
        async for _, event in runtime.journal.events():
            if event.event_type == "tool.invocation.canceled":
                break
        (invocation,) = [each async for each in runtime.journal.export() if isinstance(each, ToolInvocation)]
    requested_by = invocation.cancellation.requested_by
    assert (sorted(requested_by), requested_by["principal"]["subject"]) == (["claim", "principal"], "user:ada")


async def test_a_caller_with_too_many_open_calls_is_refused_and_others_are_not(serving, mode, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "open calls", 2)
    async with serving() as (runtime, url), client_of(url, mode, "ada") as ada, client_of(url, mode, "bob") as bob:
        for name in ("one", "two"):
            assert (await ada.call_tool("send", {"to": name})).is_error, "it waits for an approval"
        with pytest.raises(MCPError, match="this caller has 2 open calls, which is the limit"):
            await ada.call_tool("send", {"to": "three"})
        assert "approval_required" in text_of(await bob.call_tool("send", {"to": "one"}))
        await runtime.approvals.decide((await runtime.approvals.list())[0], "deny")
        assert "approval_required" in text_of(await ada.call_tool("send", {"to": "three"}))


async def test_a_caller_with_too_many_sessions_is_refused_and_others_are_not(serving, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "MCP sessions", 2)
    async with serving() as (_, url), httpx2.AsyncClient(timeout=30) as http:
        opened = [await open_session(http, url, "ada") for _ in range(3)]
        assert [each.status_code for each in opened] == [200, 200, 503]
        assert (await open_session(http, url, "bob")).status_code == 200
        ended = {"mcp-session-id": opened[0].headers["mcp-session-id"], "x-subject": "ada"}
        await http.delete(f"{url}/mcp", headers=ended)
        assert (await open_session(http, url, "ada")).status_code == 200


async def test_a_session_stores_little_of_what_its_client_states_about_itself(serving):
    mark, filler = "mark of this client", "x" * 100_000
    capabilities = {
        "elicitation": {"form": {"x": filler}, "y": filler},
        "experimental": {"x": {"y": filler}},
        "extensions": {"x": {"y": filler}},
    }
    info = {"name": f"{mark}{filler}", "version": filler, "title": filler, "description": filler}
    async with serving() as (_, url), httpx2.AsyncClient(timeout=30) as http:
        assert (await open_session(http, url, "ada", capabilities, info)).status_code == 200
        found = [each for each in gc.get_objects() if isinstance(each, types.InitializeRequestParams)]
        (stored,) = [each for each in found if each.client_info.name.startswith(mark)]
        assert stored.capabilities.elicitation.form is not None
        assert len(stored.model_dump_json()) < 16_000


async def test_a_caller_with_too_many_listen_streams_is_refused_and_others_are_not(serving, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "MCP listen streams", 1)
    async with (
        serving() as (_, url),
        client_of(url, NEW, "ada") as ada,
        client_of(url, NEW, "bob") as bob,
        ada.listen(tools_list_changed=True),
        bob.listen(tools_list_changed=True),
    ):
        with pytest.raises(MCPError, match="this caller has 1 MCP listen streams, which is the limit"):
            async with ada.listen(tools_list_changed=True):
                pass


async def open_session(http, url, subject, capabilities=None, info=None):
    named = {"name": "c", "version": "1", **(info or {})}
    about = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": named}
    headers = {"accept": "application/json, text/event-stream", "x-subject": subject}
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    return await http.post(f"{url}/mcp", json=initialize, headers=headers)


async def test_a_caller_with_too_many_stored_events_loses_the_oldest_and_others_lose_none(serving, monkeypatch):
    async with serving() as (_, url), httpx2.AsyncClient(timeout=30) as http:

        async def call(headers):
            """Call a tool; return the id of the first event of its stream, and its characters."""
            calling = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "much", "arguments": {}}}
            called = await http.post(f"{url}/mcp", json=calling, headers=headers)
            return {**headers, "last-event-id": re.search(r"^id: (\d+)", called.text, re.MULTILINE)[1]}, len(
                called.text
            )

        async def is_resumed(headers):
            async with http.stream("GET", f"{url}/mcp", headers=headers) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: {"):
                        return True
                return False

        sessions = []
        for subject in ("ada", "ada", "bob"):
            opened = await open_session(http, url, subject)
            accepted = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
            sessions.append({**accepted, "x-subject": subject, "mcp-session-id": opened.headers["mcp-session-id"]})
        first, chars = await call(sessions[0])
        monkeypatch.setitem(PER_CALLER, "characters of MCP events", round(2.5 * chars))
        others = [(await call(session))[0] for session in sessions]
        assert [await is_resumed(each) for each in (first, *others)] == [False, True, True, True]


async def test_a_session_serves_the_subject_that_opened_it(serving):
    async with serving() as (_, url), httpx2.AsyncClient(timeout=30) as http:
        headers = {"accept": "application/json, text/event-stream", "x-subject": "user:ada"}
        opened = await open_session(http, url, "user:ada")
        headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await http.post(f"{url}/mcp", json=listing, headers=headers)).status_code == 200
        stranger = {**headers, "x-subject": "user:eve"}
        assert (await http.post(f"{url}/mcp", json=listing, headers=stranger)).status_code == 404


async def test_a_subject_reaches_only_the_profiles_that_name_it(serving, tmp_path):
    write_settings(tmp_path / "agenttool.toml", '[mcp.support]\ntools = ["much"]\nsubjects = ["key:*"]\n[mcp.open]\n')
    profiles = read_profiles(read_config(tmp_path / "agenttool.toml"))
    async with serving(profiles) as (_, url), httpx2.AsyncClient(timeout=30) as http:

        async def reach(path, subject):
            headers = {"x-subject": subject} if subject else {}
            found = await http.get(url + path, headers=headers)
            return found.status_code, found.text

        assert (await reach("/mcp/support", "key:1"))[0] not in (403, 404)
        assert await reach("/mcp", "key:1") == (
            404,
            "this caller may use profiles only, not /mcp; use one of /mcp/support",
        )
        assert await reach("/mcp/opne", None) == (
            404,
            "there is no profile 'opne' for this caller; did you mean '/mcp/open'?",
        )
        for stranger in ("user:eve", None):
            assert (await reach("/mcp/support", stranger))[0] == 404
            assert (await reach("/mcp/open", stranger))[0] not in (403, 404)
        assert (await reach("/mcp", ""))[0] not in (403, 404)
