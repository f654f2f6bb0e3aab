"""`/mcp` of a server: clients of both revisions, profiles, and which requests are refused."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpcore
import pytest
from mcp import Client
from mcp_clients import NEW, Person, text_of

from agenttool import Runtime, tool
from agenttool.adapters.rap.credentials import Bearer
from agenttool.mcp.http import McpOptions, serve_http
from agenttool.ports.identity import AccessRole
from agenttool.ports.surfacing import Role
from agenttool.server.app import serve_runtime
from agenttool.server.grants import GrantKind
from agenttool.server.state import ServerOptions


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


@pytest.fixture
def serving(serve_app):
    @asynccontextmanager
    async def serving(*, approves_own_calls=False, with_grants=False, more=(), **options):
        profiles = {
            "": McpOptions(approves_own_calls=approves_own_calls),
            "readers": McpOptions(profile="readers", role=Role(name="r", tools=("local.*",))),
        }
        async with (
            Runtime.open(tools=[add, send, *more], approve="wait") as runtime,
            serve_http(runtime, profiles) as mcp,
            serve_runtime(runtime, ServerOptions(**options), mcp=mcp) as served,
            serve_app(served, lifespan="off") as url,
        ):
            yield (url, served.grants) if with_grants else url
        for task in asyncio.all_tasks():
            if "_shutdown_watcher" in repr(task):  # sse-starlette leaves it running
                task.cancel()

    return serving


async def test_a_client_lists_calls_and_is_asked_if_the_owner_allows_that(serving, mode):
    person = Person(decision="allow")
    async with (
        serving(approves_own_calls=True) as url,
        Client(f"{url}/mcp", mode=mode, elicitation_callback=person) as client,
    ):
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "read_result", "send"]
        assert text_of(await client.call_tool("add", {"a": 19, "b": 23})) == "42"
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"
        assert len(person.asked) == 1


async def test_a_local_program_without_a_key_cannot_approve_its_own_call(serving, mode):
    person = Person(decision="allow")
    async with serving() as url, Client(f"{url}/mcp", mode=mode, elicitation_callback=person) as client:
        refused = await client.call_tool("send", {"to": "ada"})
        assert refused.is_error
        assert "agenttool approvals" in text_of(refused)
        assert person.asked == []


async def test_a_profile_has_an_endpoint_of_its_own(serving, mode):
    async with serving() as url, Client(f"{url}/mcp/readers", mode=mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "read_result"]
        assert (await client.call_tool("send", {"to": "ada"})).is_error


DISCOVER = (
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)


async def post(url, content=None, **headers):
    sent = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEW,
        "mcp-method": "server/discover",
        **headers,
    }
    async with httpcore.AsyncConnectionPool() as pool:
        return (await pool.request("POST", url, headers=sent, content=content or DISCOVER)).status


async def test_requests_of_browsers_other_hosts_and_proxies_are_refused(serving):
    async with serving() as url:
        host = url.removeprefix("http://")
        assert await post(f"{url}/mcp") == 200
        assert await post(f"{url}/mcp", origin=url) == 200
        assert await post(f"{url}/mcp", origin="http://evil.example") == 403
        assert await post(f"{url}/mcp", host="evil.example", origin="http://evil.example") == 403
        assert await post(f"{url}/mcp", host=host, **{"x-forwarded-for": "203.0.113.9"}) == 401
        assert await post(f"{url}/mcp", **{"mcp-method": "tools/list"}) == 400
        assert await post(f"{url}/mcp/nobody") == 404


async def test_a_body_with_very_many_values_is_refused_before_it_is_parsed_and_a_long_text_is_not(serving):
    def with_more(more):
        return DISCOVER.replace(b'"params":{', b'"params":{"more":' + more + b",", 1)

    async with serving() as url:
        assert await post(f"{url}/mcp", with_more(b"[" + b"1," * 450_000 + b"1]")) == 200
        assert await post(f"{url}/mcp", with_more(b"[" + b"1," * 600_000 + b"1]")) == 413
        assert await post(f"{url}/mcp", with_more(b'"' + b"x" * 5_000_000 + b'"')) == 200
        assert await post(f"{url}/mcp", with_more(b'"' + b"x" * 20_000_000 + b'"')) == 413


LISTEN = (
    b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},'
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
)
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}'
)


async def test_an_open_stream_ends_when_its_key_is_revoked(serving, mode, monkeypatch):
    monkeypatch.setattr("agenttool.server.state.CHECK_S", 0.01)
    async with serving(with_grants=True) as (url, grants), httpcore.AsyncConnectionPool() as pool:
        key, grant = await grants.add(GrantKind.KEY, subject="bob", roles=[AccessRole.CALLER], created_by="test")
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        sent["accept"] = "application/json, text/event-stream"
        method, body = "POST", LISTEN
        if mode == NEW:
            sent |= {"mcp-protocol-version": NEW, "mcp-method": "subscriptions/listen"}
        else:
            opened = await pool.request("POST", f"{url}/mcp", headers=sent, content=INITIALIZE)
            sent["mcp-session-id"] = dict(opened.headers)[b"mcp-session-id"].decode()
            method, body = "GET", None
        async with asyncio.timeout(30), pool.stream(method, f"{url}/mcp", headers=sent, content=body) as stream:
            assert stream.status == 200
            await grants.revoke(GrantKind.KEY, grant.grant_id)
            async for _ in stream.aiter_stream():
                pass


def hold_request(mode):
    """Return the body of a call of `hold`."""
    own = "io.modelcontextprotocol"
    meta = {f"{own}/protocolVersion": NEW, f"{own}/clientCapabilities": {}} if mode == NEW else {}
    params = {"name": "hold", "arguments": {}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode()


async def test_a_request_ends_when_its_key_is_revoked_and_its_call_continues(serving, mode, monkeypatch):
    monkeypatch.setattr("agenttool.server.state.CHECK_S", 0.01)
    begun, release = asyncio.Event(), asyncio.Event()
    outcome = asyncio.get_running_loop().create_future()

    @tool(read_only=True)
    async def hold() -> str:
        begun.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            outcome.set_result("canceled")
            raise
        outcome.set_result("completed")
        return "held"

    async with serving(with_grants=True, more=[hold]) as (url, grants), httpcore.AsyncConnectionPool() as pool:
        key, grant = await grants.add(GrantKind.KEY, subject="bob", roles=[AccessRole.CALLER], created_by="test")
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        sent["accept"] = "application/json, text/event-stream"
        if mode == NEW:
            sent |= {"mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "hold"}
        else:
            opened = await pool.request("POST", f"{url}/mcp", headers=sent, content=INITIALIZE)
            sent["mcp-session-id"] = dict(opened.headers)[b"mcp-session-id"].decode()
        async with asyncio.timeout(30):
            calling = asyncio.create_task(pool.request("POST", f"{url}/mcp", headers=sent, content=hold_request(mode)))
            await begun.wait()
            await grants.revoke(GrantKind.KEY, grant.grant_id)
            reply = await calling
            release.set()
            assert (await outcome, b"held" in reply.content) == ("completed", False)


async def test_a_server_with_a_token_requires_it(serving):
    async with serving(token=Bearer("a-long-secret-token")) as url:
        assert await post(f"{url}/mcp") == 401
        assert await post(f"{url}/mcp", authorization="Bearer a-long-secret-token") == 200
