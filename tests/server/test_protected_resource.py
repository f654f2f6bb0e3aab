"""The server as a protected resource of OAuth: clients find where to log in, and no place is named where there is none."""

import asyncio
import time
from contextlib import asynccontextmanager

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from mcp_clients import text_of
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from agenttool import McpServer, Runtime, tool
from agenttool.adapters.mcp.settings import OAuthSettings
from agenttool.cli.serve import server_options
from agenttool.config import ServerSetting
from agenttool.mcp.http import McpOptions, serve_http
from agenttool.server.app import serve_runtime

KEY = rsa.generate_private_key(65_537, 2048)
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


class LoginServer:
    """An authorization server that lets every client log in as Ada, for the resource that it requests."""

    def __init__(self):
        self.url, self.scope = "", None
        routes = {"/.well-known/oauth-authorization-server": self.metadata, "/keys": self.keys}
        self.app = Starlette(
            routes=[
                *(Route(path, handler) for path, handler in routes.items()),
                Route("/register", self.register, methods=["POST"]),
                Route("/token", self.token, methods=["POST"]),
            ]
        )

    async def metadata(self, request):
        ends = {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token")}
        more = {"code_challenge_methods_supported": ["S256"], "response_types_supported": ["code"]}
        return JSONResponse({"issuer": self.url, "registration_endpoint": f"{self.url}/register", **ends, **more})

    async def keys(self, request):
        return JSONResponse({"keys": [{**RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "use": "sig"}]})

    async def register(self, request):
        return JSONResponse({**await request.json(), "client_id": "made-client"}, 201)

    async def token(self, request):
        form = await request.form()
        token = self.sign(aud=form["resource"])
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": 600})

    def sign(self, **claims):
        given = {"iss": self.url, "sub": "user:ada", "exp": int(time.time()) + 600, **claims}
        return jwt.encode(given, KEY, "RS256")


class Memory:
    """Stores the tokens of a client."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


@asynccontextmanager
async def guarded(serve_app, port, **jwt_setting):
    """Yield an authorization server, and the URL of a server that accepts its tokens alone."""
    login, url = LoginServer(), f"http://127.0.0.1:{port}"
    async with serve_app(login.app) as login.url, Runtime.open(tools=[add]) as rt:
        table = {"issuer": login.url, "audience": [url, f"{url}/mcp"], "jwks_url": f"{login.url}/keys", **jwt_setting}
        options = server_options(ServerSetting(requires_key=True, jwt=table), url)
        async with (
            serve_http(rt, {"": McpOptions()}) as mcp,
            serve_runtime(rt, options, mcp=mcp) as app,
            serve_app(app, port, lifespan="off"),
        ):
            yield login, url


async def test_the_oauth_client_of_the_sdk_finds_where_to_log_in_and_calls_a_tool(serve_app, free_port):
    pages = []

    async def show(page):
        pages.append(httpx2.URL(page))

    async def returned():
        return AuthorizationCodeResult(code="c1", state=pages[-1].params["state"])

    redirect = "http://127.0.0.1:9/callback"
    metadata = OAuthClientMetadata(client_name="test", redirect_uris=[redirect], grant_types=["authorization_code"])
    async with guarded(serve_app, free_port()) as (login, url):
        auth = OAuthClientProvider(f"{url}/mcp", metadata, Memory(), show, returned)
        async with (
            httpx2.AsyncClient(auth=auth) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("add", {"a": 1, "b": 2})
    assert text_of(result) == "3"
    assert [(str(each.copy_with(query=None)), each.params["resource"]) for each in pages] == [
        (f"{login.url}/authorization", f"{url}/mcp")
    ]


async def test_our_own_client_logs_in_at_a_server_of_ours(serve_app, free_port, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    redirect, answers = f"http://127.0.0.1:{free_port()}/callback", []

    async def answer(page):
        state = httpx2.URL(page).params["state"]
        async with httpx2.AsyncClient() as browser:
            await browser.get(redirect, params={"code": "c1", "state": state})

    async with guarded(serve_app, free_port()) as (_, url):
        far = McpServer("far", url=f"{url}/mcp", oauth=OAuthSettings(redirect_url=redirect))
        rt = Runtime.open(sources=[far], approve=lambda _: True)
        rt.sources.get("far").use_login(lambda page: answers.append(asyncio.ensure_future(answer(page))))
        async with rt:
            await rt.sources.get("far").check()
            result = await rt.call("far.add", {"a": 1, "b": 2})
            await asyncio.gather(*answers)
    assert result.text == "3"


@pytest.fixture
def http_of(make_app):
    """Open a server; keywords are members of `[server.jwt]`."""
    opened = []

    def open_http(**members):
        table = {"audience": "agenttool", "jwks_url": "https://login.example/keys", **members} if members else None
        setting = ServerSetting(requires_key=True, jwt=table)
        made = server_options(setting, "https://tools.example")
        options = {"verify_jwt": made.verify_jwt, "login": made.login, "url": made.url, "requires_key": True}
        client = TestClient(make_app(Runtime.open, **options), base_url="https://tools.example")
        opened.append(client)
        return client.__enter__()

    yield open_http
    for each in opened:
        each.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("path", "of"),
    [("/mcp", "/mcp"), ("/mcp/support", "/mcp/support"), ("/v1/status", ""), ("/mcp/a%0d%22b", "/mcp/a%0D%22b")],
)
def test_a_refused_request_leads_to_the_metadata_of_its_resource(http_of, path, of):
    http, where = http_of(issuer="https://login.example"), f"{WELL_KNOWN}{of}"
    refused, wrong = http.get(path), http.get(path, headers={"authorization": "Bearer at_wrong"})
    challenge = f'resource_metadata="https://tools.example{where}"'
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, f"Bearer {challenge}")
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, f'Bearer error="invalid_token", {challenge}')
    assert http.get(where).json() == {
        "resource": f"https://tools.example{of}",
        "authorization_servers": ["https://login.example"],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize("members", [{}, {"issuer": "our-own-issuer"}])
def test_without_an_authorization_server_no_place_to_log_in_is_named(http_of, members):
    http = http_of(**members)
    refused = http.get("/mcp")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "agenttool keys add" in refused.json()["detail"]
    assert http.get(f"{WELL_KNOWN}/mcp").status_code == 404
    assert http.get(WELL_KNOWN).status_code == 404


async def test_a_token_without_the_role_is_asked_to_request_the_scope(serve_app, free_port):
    async with guarded(serve_app, free_port(), roles_claim="scope") as (login, url), httpx2.AsyncClient() as http:
        token = login.sign(aud=url, scope="auditor")
        refused = await http.post(f"{url}/mcp", headers={"authorization": f"Bearer {token}"})
        described = (await http.get(f"{url}{WELL_KNOWN}/mcp")).json()
    where = f'resource_metadata="{url}{WELL_KNOWN}/mcp"'
    challenge = f'Bearer error="insufficient_scope", scope="caller", {where}'
    assert (refused.status_code, refused.headers["www-authenticate"]) == (403, challenge)
    assert described["scopes_supported"] == ["caller", "approver", "operator", "auditor"]
