"""MCP servers over HTTP: streamable HTTP of both revisions, the older event streams, credentials, and faults."""

import asyncio
import gzip
import json
import threading
from contextlib import AsyncExitStack, contextmanager

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from waiting import wait_until

from agenttool import McpServer, ProviderState, Runtime
from agenttool.adapters.rap.credentials import Bearer
from agenttool.mcp.http import McpOptions, serve_http
from agenttool.records import ErrorClass, ExecutionProfile, McpMapping
from agenttool.server.app import serve_runtime
from agenttool.server.state import ServerOptions


@contextmanager
def served(app, port: int):
    """Serve in a thread, because the library behind the server leaves a task in its event loop."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def sdk_server() -> MCPServer:
    made = MCPServer("sdk")

    @made.tool()
    def echo(text: str) -> str:
        """Return the text."""
        return text

    @made.tool()
    async def count(ctx: Context) -> str:
        """Report progress."""
        await ctx.report_progress(1, 2, "half")
        return "counted"

    return made


@pytest.mark.parametrize(
    ("transport", "protocol", "revision"),
    [("http", "auto", "2026-07-28"), ("http", "legacy", "2025-11-25"), ("sse", "legacy", "2025-11-25")],
)
async def test_a_server_of_the_sdk_is_called_over_http(free_port, transport, protocol, revision):
    made = sdk_server()
    app, path = (made.sse_app(), "/sse") if transport == "sse" else (made.streamable_http_app(), "/mcp")
    with served(app, free_port()) as url:
        server = McpServer("far", url=url + path, transport=transport, protocol=protocol)
        async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
            result, counted = await rt.call("far.echo", {"text": "hi"}), await rt.call("far.count", {})
    mapping = result.external_mappings[0]
    assert (result.text, counted.text, mapping.mcp_protocol_version) == ("hi", "counted", revision)
    assert (mapping.mcp_session_id is not None) is (transport == "http" and protocol == "legacy")


class TinyServer:
    """A server of the newest revision in a few lines, whose answers a test chooses."""

    def __init__(self, on_call) -> None:
        self.on_call = on_call
        self.requests: list[Request] = []
        self.app = Starlette(routes=[Route("/mcp", self.post, methods=["POST"])])

    async def post(self, request: Request) -> Response:
        message = await request.json()
        cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        empty = {"resources/list": "resources", "resources/templates/list": "resourceTemplates"}
        if message["method"] in empty:
            result = {empty[message["method"]]: [], **cache}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.requests.append(request)
        if message["method"] == "server/discover":
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            result = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **cache}
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], **cache}
        else:
            return await self.on_call(request, message)
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})


def answer(message, text: str) -> Response:
    result = {"content": [{"type": "text", "text": text}], "resultType": "complete"}
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def test_headers_carry_the_credential_of_each_actor_and_results_do_not_show_it(serve_app):
    async def on_call(request, message):
        return answer(message, f"you are {request.headers['authorization']}")

    tiny, tokens = TinyServer(on_call), {"user:ada": "ada-secret-1", "user:bob": "bob-secret-2"}
    async with serve_app(tiny.app) as url:
        server = McpServer(
            "far", url=f"{url}/mcp", headers={"Authorization": "Bearer ${credentials.far}", "X-App": "one"}
        )
        options = {"approve": lambda _: True, "credentials": {"far": tokens.get}}
        async with Runtime.open(sources=[server], **options) as rt:
            results = [await rt.call("far.echo", {}, actor_ref=actor) for actor in (*tokens, "user:eve", None)]
    sent = [each.headers for each in tiny.requests]
    assert [each.get("authorization") for each in sent] == [None, None, "Bearer ada-secret-1", "Bearer bob-secret-2"]
    assert {each["x-app"] for each in sent} == {"one"}
    assert [each.ok for each in results] == [True, True, False, False]
    assert "secret" not in results[0].text
    assert results[2].error.error_class is ErrorClass.CREDENTIAL_MISSING


async def test_a_connection_for_an_actor_is_tried_again_by_its_calls_alone(serve_app, monkeypatch):
    monkeypatch.setattr("agenttool.adapters.mcp.subscriptions.MAX_DELAY_S", 0.001)

    async def on_call(request, message):
        return answer(message, "done")

    tiny, refused, names = TinyServer(on_call), [], {"user:ada": "ada-name-1", "user:eve": "eve-name-2"}
    post = tiny.post

    async def guarded(request):
        if request.headers.get("x-user") == names["user:eve"]:
            refused.append(request)
            return Response(status_code=500)
        return await post(request)

    app = Starlette(routes=[Route("/mcp", guarded, methods=["POST"])])
    async with serve_app(app) as url:
        headers = {"X-User": "${credentials.user}"}
        server = McpServer("far", url=f"{url}/mcp", headers=headers, sessions="actor")
        async with Runtime.open(sources=[server], approve=lambda _: True, credentials={"user": names.get}) as rt:
            assert not (await rt.call("far.echo", {}, actor_ref="user:eve")).ok
            tries = len(refused)
            for _ in range(5):
                assert (await rt.call("far.echo", {}, actor_ref="user:ada")).ok
            assert len(refused) == tries
            assert not (await rt.call("far.echo", {}, actor_ref="user:eve")).ok
    assert len(refused) == 2 * tries


async def test_the_token_of_the_gateway_is_never_sent_to_a_server(serve_app):
    async def on_call(request, message):
        return answer(message, "done")

    tiny, rules = TinyServer(on_call), [{"tool": "far.*", "behavior": "allow"}]
    async with serve_app(tiny.app) as upstream:
        server = McpServer("far", url=f"{upstream}/mcp", headers={"X-App": "one"})
        async with (
            Runtime.open(sources=[server], rules=rules) as rt,
            serve_http(rt, {"": McpOptions()}) as mcp,
            serve_runtime(rt, ServerOptions(token=Bearer("the-gateway-token")), mcp=mcp) as served,
            serve_app(served, lifespan="off") as url,
            httpx2.AsyncClient(headers={"Authorization": "Bearer the-gateway-token", "X-Trace": "t1"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("echo", {})
    for task in asyncio.all_tasks():
        if "_shutdown_watcher" in repr(task):  # sse-starlette leaves it running
            task.cancel()
    assert result.content[0].text == "done"
    sent = [dict(each.headers) for each in tiny.requests]
    assert "tools/call" in [each.get("mcp-method") for each in sent]
    assert "the-gateway-token" not in repr(sent)
    assert all("authorization" not in each and "x-trace" not in each and each["x-app"] == "one" for each in sent)


@pytest.mark.parametrize(("kind", "body"), [("text/plain", "who are you?"), ("application/json", '{"error": "who"}')])
async def test_a_server_that_lists_for_all_and_refuses_a_call_says_what_is_missing(serve_app, kind, body):
    async def on_call(request, message):
        return Response(body, 401, {"WWW-Authenticate": "Bearer"}, kind)

    async with (
        serve_app(TinyServer(on_call).app) as url,
        Runtime.open(sources=[McpServer("far", url=f"{url}/mcp")], approve=lambda _: True) as rt,
    ):
        result = await rt.call("far.echo", {})
    assert (result.error.error_class, result.error.error_code) == (ErrorClass.CREDENTIAL_MISSING, "unauthorized")
    assert "HTTP status 401; check the headers and credentials" in result.error.message


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_a_very_long_response_is_refused(serve_app, content_type):
    async def body(message):
        yield b'data: {"jsonrpc":"2.0",' if "event" in content_type else b"{"
        for _ in range(1000):
            yield b"x" * 65_536

    async def on_call(request, message):
        return StreamingResponse(body(message), media_type=content_type)

    async with (
        serve_app(TinyServer(on_call).app) as url,
        Runtime.open(sources=[McpServer("far", url=f"{url}/mcp")], approve=lambda _: True) as rt,
    ):
        result = await rt.call("far.echo", {})
    assert (result.error.error_class, result.error.error_code) == (ErrorClass.RESULT_TOO_LARGE, "message_too_large")
    assert "more than 16777216 bytes was refused (max_message_bytes)" in result.error.message


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_a_compressed_response_is_refused_because_it_may_expand_to_any_size(serve_app, content_type):
    async def on_call(request, message):
        assert request.headers["accept-encoding"] == "identity"
        return Response(gzip.compress(answer(message, "x").body), 200, {"Content-Encoding": "gzip"}, content_type)

    async with (
        serve_app(TinyServer(on_call).app) as url,
        Runtime.open(sources=[McpServer("far", url=f"{url}/mcp")], approve=lambda _: True) as rt,
    ):
        result = await rt.call("far.echo", {})
    assert result.error.error_code == "refused"
    assert "it answered in the encoding 'gzip', which was not requested" in result.error.message


NO_SESSION = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}


@pytest.mark.parametrize("body", [None, NO_SESSION])
async def test_an_unknown_session_is_opened_again_each_time_without_a_delay(serve_app, body):
    seen, forgotten = [], ("s1",)

    async def post(request: Request) -> Response:
        message = await request.json()
        seen.append((message["method"], request.headers.get("mcp-session-id")))
        if message["method"] == "server/discover":
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        if "id" not in message:
            return Response(status_code=202)
        if message["method"] == "tools/call":
            if request.headers["mcp-session-id"] not in forgotten:
                return answer(message, "again")
            return Response(status_code=404) if body is None else JSONResponse(body, status_code=404)
        headers = {}
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        if message["method"] == "initialize":
            headers = {"mcp-session-id": f"s{sum(method == 'initialize' for method, _ in seen)}"}
            info = {"name": "old", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    app = Starlette(routes=[Route("/mcp", post, methods=["POST"])])
    async with (
        serve_app(app) as url,
        Runtime.open(sources=[McpServer("far", url=f"{url}/mcp")], approve=lambda _: True) as rt,
    ):
        results = [await rt.call("far.echo", {})]
        for session in ("s2", "s3"):
            forgotten = (*forgotten, session)
            results.append(await rt.call("far.echo", {}))
    assert [each.text for each in results] == ["again", "again", "again"]
    sent = [session for method, session in seen if method == "tools/call"]
    assert sent == ["s1", "s2", "s2", "s3", "s3", "s4"]


async def test_a_server_that_restarts_is_used_again_without_a_restart_of_ours(serve_app, free_port):
    async def on_call(request, message):
        return answer(message, "here")

    port = free_port()
    server = McpServer("far", url=f"http://127.0.0.1:{port}/mcp")
    async with AsyncExitStack() as stack:
        async with serve_app(TinyServer(on_call).app, port):
            rt = await stack.enter_async_context(Runtime.open(sources=[server], approve=lambda _: True))
            before = await rt.call("far.echo", {})
        away = await rt.call("far.echo", {})
        async with serve_app(TinyServer(on_call).app, port):
            async with asyncio.timeout(60):
                while not (after := await rt.call("far.echo", {})).ok:
                    await asyncio.sleep(0.05)
    assert (before.text, after.text) == ("here", "here")
    assert away.error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE
    assert away.error.retry.safe is True


async def test_a_server_that_does_not_listen_and_one_at_a_private_address_are_named(free_port):
    servers = [
        McpServer("gone", url=f"http://127.0.0.1:{free_port()}/mcp"),
        McpServer("inside", url="http://127.0.0.1.nip.example/mcp", allow=()),
        McpServer("sneaky", url="http://2130706433/mcp"),
    ]
    async with Runtime.open(sources=servers) as rt:
        gone, inside, sneaky = await rt.sources.status()
    assert (gone.state, inside.state, sneaky.state) == (
        ProviderState.CONNECTING,
        ProviderState.CONNECTING,
        ProviderState.UNAVAILABLE,
    )
    assert "no connection (ConnectError)" in gone.fault
    assert "its url may not be contacted: a URL must spell an address in full" in sneaky.fault
    assert json.dumps(gone.fault).isascii()


async def test_calls_run_beside_many_subscriptions_which_share_a_stream(serve_app):
    async def listen(message):
        confirmed = {**message["params"], "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}}
        notice = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": confirmed}
        yield f"data: {json.dumps(notice)}\n\n".encode()
        await asyncio.Event().wait()

    async def on_call(request, message):
        if message["method"] == "subscriptions/listen":
            return StreamingResponse(listen(message), media_type="text/event-stream")
        return answer(message, "here")

    async with serve_app(TinyServer(on_call).app) as url:
        server = McpServer("far", url=f"{url}/mcp", timeout_s=10)
        async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
            source = rt.sources.get("far")
            subscribed = [source.subscribe(f"memo://{number}", print) for number in range(250)]
            assert None not in await asyncio.gather(*subscribed)
            results = await asyncio.gather(*(rt.call("far.echo", {}) for _ in range(20)))
    assert [each.text for each in results] == ["here"] * 20


async def test_a_call_beyond_the_limit_of_requests_is_not_sent_and_ends_no_other(serve_app, monkeypatch):
    monkeypatch.setattr("agenttool.adapters.mcp.http.MAX_REQUESTS", 1)
    monkeypatch.setattr("agenttool.adapters.mcp.http._STREAMS", 0)
    monkeypatch.setattr("agenttool.adapters.mcp.http.CONNECT_S", 0.5)
    begun, done = asyncio.Event(), asyncio.Event()

    async def on_call(request, message):
        begun.set()
        await done.wait()
        return answer(message, "here")

    async with (
        serve_app(TinyServer(on_call).app) as url,
        Runtime.open(sources=[McpServer("far", url=f"{url}/mcp")], approve=lambda _: True) as rt,
    ):
        first = asyncio.ensure_future(rt.call("far.echo", {}))
        await asyncio.wait_for(begun.wait(), 30)
        second = await rt.call("far.read_resource", {"uri": "memo://one"})
        done.set()
        assert (await first).text == "here"
    assert second.error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE
    assert second.error.message.startswith("nothing was sent: the ")
    assert "1 other requests run, which is the limit" in second.error.message


async def test_an_older_event_stream_that_is_idle_for_too_long_is_logged_in_one_line(free_port, monkeypatch, caplog):
    monkeypatch.setattr("agenttool.adapters.mcp.http.READ_S", 0.3)
    caplog.set_level("INFO")
    with served(sdk_server().sse_app(), free_port()) as url:
        server = McpServer("far", url=f"{url}/sse", transport="sse", protocol="legacy")
        async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
            log = rt.sources.get("far")
            await asyncio.to_thread(wait_until, lambda: any("ended" in line for line in log.log))
            again = await rt.call("far.echo", {"text": "hi"})
    assert again.text == "hi"
    assert [each for each in caplog.records if each.exc_info] == []
    noted = [each.getMessage() for each in caplog.records if "event stream" in each.getMessage()]
    assert noted[0] == "the event stream of the server 'far' ended: ReadTimeout"


class SessionServer:
    """A server of the revision with sessions, whose tools fail in the two ways that the protocol has."""

    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []
        self.app = Starlette(routes=[Route("/mcp", self.post, methods=["POST"])])

    async def post(self, request: Request) -> Response:
        message = await request.json()
        if "id" not in message:
            return Response(status_code=202)
        answer, headers = {}, {}
        match message["method"]:
            case "initialize":
                headers["Mcp-Session-Id"] = "session-4711"
                answer["result"] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "warehouse", "version": "1"},
                }
            case "tools/list":
                hints = {"once": {}, "often": {"annotations": {"idempotentHint": True}}}
                tools = [{"name": name, "inputSchema": {"type": "object"}, **hints[name]} for name in hints]
                answer["result"] = {"tools": tools}
            case _:
                self.calls.append(message)
                if message["params"]["arguments"].get("level") == "tool":
                    answer["result"] = {"content": [{"type": "text", "text": "out of stock"}], "isError": True}
                else:
                    answer["error"] = {"code": -32050, "message": "no such shelf", "data": {"shelf": 7}}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], **answer}, headers=headers)


@pytest.mark.requirement("AT-EXEC-15")
@pytest.mark.parametrize("level", ["protocol", "tool"])
@pytest.mark.parametrize("tool", ["once", "often"])
async def test_a_failed_remote_call_preserves_its_native_ids_its_kind_of_error_and_whether_it_may_be_repeated(
    serve_app, tool, level
):
    made = SessionServer()
    async with serve_app(made.app) as url:
        server = McpServer("far", url=f"{url}/mcp", protocol="legacy", trust=True)
        async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
            call_id = (await rt.call(f"far.{tool}", {"level": level})).invocation_id
            call, error = await rt.journal.invocation(call_id), (await rt.journal.result(call_id)).error
            profiles = [each async for each in rt.journal.export() if isinstance(each, ExecutionProfile)]
    (sent,) = made.calls
    ids = {
        "server_id": "far",
        "server_name": "warehouse",
        "mcp_session_id": "session-4711",
        "mcp_protocol_version": "2025-06-18",
        "method": "tools/call",
        "tool_name": tool,
        "jsonrpc_request_id": sent["id"],
    }
    assert call.external_mappings == (McpMapping(**ids),)
    native = {
        "tool": {"isError": True},
        "protocol": {"code": -32050, "message": "no such shelf", "data": {"shelf": 7}},
    }
    assert error.native_error_ref == {"jsonrpc_request_id": sent["id"], **native[level]}
    assert error.error_code == {"tool": "mcp_tool_error", "protocol": "-32050"}[level]
    assert error.retry.safe is (tool == "often")
    semantics = {each.execution_profile_id: each.retry_semantics for each in profiles}
    assert semantics[f"execution:tool_far.{tool}"] == {"idempotent": tool == "often"}
