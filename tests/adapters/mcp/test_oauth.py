"""OAuth: a runtime uses stored tokens, and says who must log in; a login stores them."""

import asyncio
import json
import stat

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agenttool import ConfigError, McpServer, OAuthSettings, Runtime


class GuardedServer:
    """A server of the newest revision and its authorization server, in a few lines."""

    def __init__(self) -> None:
        self.url = ""
        self.issuer = ""
        self.accepted = "the-access-token"
        self.seen = []
        self.tokens: list[dict[str, str]] = []
        self.has_long_call, self.may_end = asyncio.Event(), asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/mcp", self.mcp, methods=["POST"]),
                Route("/.well-known/oauth-protected-resource/mcp", self.resource),
                Route("/.well-known/oauth-authorization-server", self.metadata),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
            ]
        )

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.issuer or self.url]})

    async def metadata(self, request: Request) -> Response:
        ends = {
            f"{name}_endpoint": f"{self.url}/{path}"
            for name, path in (("authorization", "authorize"), ("token", "token"), ("registration", "register"))
        }
        methods = {"code_challenge_methods_supported": ["S256"], "response_types_supported": ["code"]}
        return JSONResponse({"issuer": self.url, **ends, **methods})

    async def register(self, request: Request) -> Response:
        return JSONResponse({**await request.json(), "client_id": "made-client"}, 201)

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        return RedirectResponse(f"{query['redirect_uri']}?code=c1&state={query['state']}&iss={self.url}")

    async def token(self, request: Request) -> Response:
        self.seen.append(request.headers)
        form = dict(await request.form())
        self.tokens.append(form)
        answer = {"access_token": self.accepted, "token_type": "Bearer", "refresh_token": "the-refresh-token"}
        return JSONResponse({**answer, "expires_in": 3600})

    async def mcp(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.accepted}":
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            return Response(status_code=401, headers={"WWW-Authenticate": where})
        self.seen.append(request.headers)
        message = await request.json()
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if message["method"] == "server/discover":
            result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif message["method"] == "tools/list":
            result |= {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        else:
            if message["params"]["arguments"]:
                self.has_long_call.set()
                await self.may_end.wait()
            result = {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})


@pytest.fixture(autouse=True)
def user_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "agenttool"


async def test_a_login_stores_tokens_for_this_user_alone_and_later_runtimes_use_them(
    serve_app, free_port, tmp_path, user_folder
):
    guarded, shown = GuardedServer(), []
    store, redirect = str(tmp_path / "calls.db"), f"http://127.0.0.1:{free_port()}/callback"
    async with serve_app(guarded.app) as guarded.url:
        server = McpServer("far", url=f"{guarded.url}/mcp", oauth=OAuthSettings(redirect_url=redirect))
        options = {"sources": [server], "store": store, "approve": lambda _: True}
        async with Runtime.open(**options) as rt:
            (refused,) = await rt.sources.status()
        rt = Runtime.open(**options)
        source = rt.sources.get("far")
        source.use_login(lambda url: shown.append(follow(url)))
        async with rt:
            await source.check()
        async with Runtime.open(**options) as rt:
            result = await rt.call("far.echo", {})
        await shown[0]
    assert "a user must log in: run `agenttool sources login far`" in refused.fault
    assert result.text == "hello"
    (file,) = (user_folder / "mcp-tokens").iterdir()
    assert json.loads(file.read_bytes())["tokens"]["access_token"] == "the-access-token"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file.parent, file)] == [0o700, 0o600]
    assert not any(b"the-access-token" in each.read_bytes() for each in tmp_path.glob("calls.db*") if each.is_file())
    assert len(guarded.tokens) == 1
    assert guarded.tokens[0]["resource"] == f"{guarded.url}/mcp"
    assert guarded.tokens[0]["code_verifier"]


@pytest.mark.parametrize("client", [{}, {"client_id": "mine", "client_secret": "s"}], ids=["registered", "settings"])
async def test_a_later_runtime_renews_a_token_that_is_refused_but_only_where_it_was_issued(
    serve_app, free_port, tmp_path, client
):
    guarded, other, shown = GuardedServer(), GuardedServer(), []
    redirect = f"http://127.0.0.1:{free_port()}/callback"
    async with serve_app(guarded.app) as guarded.url, serve_app(other.app) as other.url:
        oauth = OAuthSettings(redirect_url=redirect, **client)
        server = McpServer("far", url=f"{guarded.url}/mcp", oauth=oauth)
        options = {"sources": [server], "store": str(tmp_path / "calls.db"), "approve": lambda _: True}
        rt = Runtime.open(**options)
        source = rt.sources.get("far")
        source.use_login(lambda url: shown.append(follow(url)))
        async with rt:
            await source.check()
        await shown[0]
        guarded.accepted = "the-second-token"
        async with Runtime.open(**options) as rt:
            renewed = await rt.call("far.echo", {})
        guarded.accepted, guarded.issuer = "the-third-token", other.url
        async with Runtime.open(**options) as rt:
            refused = await rt.call("far.echo", {})
    assert renewed.text == "hello"
    assert [each["grant_type"] for each in guarded.tokens] == ["authorization_code", "refresh_token"]
    assert "a user must log in" in refused.text
    assert other.tokens == []


@pytest.mark.parametrize("made", [OAuthSettings, dict])
async def test_a_program_is_its_own_client_with_client_credentials(serve_app, made):
    guarded = GuardedServer()
    async with serve_app(guarded.app) as guarded.url:
        client = {"client_id": "me", "client_secret": "${credentials.far}", "issuer": guarded.url}
        server = McpServer("far", url=f"{guarded.url}/mcp", oauth=made(grant="client_credentials", **client))
        credentials = {"far": "the-client-secret"}
        async with Runtime.open(sources=[server], credentials=credentials, approve=lambda _: True) as rt:
            result = await rt.call("far.echo", {})
    assert result.text == "hello"
    assert guarded.tokens[0]["grant_type"] == "client_credentials"


async def logged_in(options, shown):
    rt = Runtime.open(**options)
    source = rt.sources.get("far")
    source.use_login(lambda url: shown.append(follow(url)))
    async with rt:
        await source.check()
    await shown[0]


@pytest.mark.parametrize("grant", ["client_credentials", "authorization_code"])
async def test_a_call_that_a_server_does_not_answer_delays_no_other_call_with_the_same_token(
    serve_app, free_port, tmp_path, grant
):
    guarded = GuardedServer()
    async with serve_app(guarded.app) as guarded.url, asyncio.timeout(60):
        client = {"client_id": "me", "client_secret": "${credentials.far}", "issuer": guarded.url}
        login = {"redirect_url": f"http://127.0.0.1:{free_port()}/callback"}
        oauth = OAuthSettings(grant=grant, **(client if grant == "client_credentials" else login))
        server = McpServer("far", url=f"{guarded.url}/mcp", oauth=oauth, parallel=True)
        options = {"sources": [server], "store": str(tmp_path / "calls.db"), "approve": lambda _: True}
        options["credentials"] = {"far": "the-client-secret"}
        if grant == "authorization_code":
            await logged_in(options, [])
        async with Runtime.open(**options) as rt:
            long = asyncio.create_task(rt.call("far.echo", {"is_long": True}))
            await guarded.has_long_call.wait()
            other = await rt.call("far.echo", {})
            is_open = not long.done()
            guarded.may_end.set()
            assert (await long).text == "hello"
    assert other.text == "hello"
    assert is_open


async def test_headers_of_the_settings_go_to_the_server_and_not_to_its_authorization_server(serve_app):
    guarded, login = GuardedServer(), GuardedServer()
    async with serve_app(guarded.app) as guarded.url, serve_app(login.app) as login.url:
        guarded.issuer = login.url
        client = {"client_id": "me", "client_secret": "s", "issuer": login.url}
        oauth = OAuthSettings(grant="client_credentials", **client)
        server = McpServer("far", url=f"{guarded.url}/mcp", oauth=oauth, headers={"X-Api-Key": "k1"})
        async with Runtime.open(sources=[server], approve=lambda _: True) as rt:
            result = await rt.call("far.echo", {})
    assert result.text == "hello"
    assert {each.get("x-api-key") for each in guarded.seen} == {"k1"}
    assert [each.get("x-api-key") for each in login.seen] == [None]


@pytest.mark.parametrize("settings", [{"oauth": {"client": "me"}}, {"oauth": "me"}, {"timeout_s": "60"}])
def test_settings_of_a_program_are_checked_as_those_of_a_table(settings):
    with pytest.raises(ConfigError, match=f"the source 'far' is invalid: {next(iter(settings))} must be"):
        McpServer("far", url="https://mcp.example/mcp", **settings)


async def test_a_login_needs_settings():
    rt = Runtime.open(sources=[McpServer("far", url="https://mcp.example/mcp")])
    with pytest.raises(ConfigError, match=r"has no oauth in its settings; write oauth = \{\}"):
        rt.sources.get("far").use_login(print)


def follow(url: str):
    """Open a page as a browser does."""

    async def opened() -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            await client.get(url)

    return asyncio.ensure_future(opened())
