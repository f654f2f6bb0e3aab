"""Surfaces, search and status over HTTP, as a program in any language uses them."""

import asyncio
import sqlite3
from contextlib import closing
from functools import partial
from http import HTTPStatus

import pytest
from starlette.testclient import TestClient
from waiting import wait_until

from agenttool import Runtime, tool
from agenttool.errors import StoreError
from agenttool.ports.identity import AccessRole
from agenttool.server import stream_routes
from agenttool.server.grants import GrantKind
from agenttool.server.stream_routes import status_of


@tool(namespace="mail", should_defer=True, search_hint="send a letter by mail")
async def send(to: str, body: str) -> str:
    """Send a letter to somebody. Not for parcels."""
    return f"sent to {to}"


@tool(namespace="math", read_only=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool(namespace="secret", lifecycle="disabled", search_hint="send secret letters by pigeon")
async def pigeon(to: str) -> str:
    """Send a letter by pigeon. Not for parcels."""
    return f"flown to {to}"


@pytest.fixture
def http(make_app):
    """A program on this machine that talks to a served runtime."""
    app = make_app(lambda: Runtime.open(tools=[send, add, pigeon], approve="wait"))
    with TestClient(app, base_url="http://127.0.0.1:8642", client=("127.0.0.1", 50_000)) as client:
        yield client


def test_a_program_makes_a_surface_searches_it_and_shows_it_to_a_model(http):
    made = http.post("/v1/surfaces", json={"scope": "session", "reason": "a first turn"})
    surface = made.json()
    assert (made.status_code, surface["record_type"], surface["surface_reason"]) == (
        201,
        "tool_surface",
        "a first turn",
    )
    assert http.get(made.headers["location"]).json() == surface
    found = http.post("/v1/search", json={"query": "letter", "surface_id": surface["surface_id"]}).json()
    assert [each["name"] for each in found["matches"]] == ["mail.send"]
    assert found["record_type"] == "tool_search_result"
    for wanted in ("openai", "openai_responses", "anthropic", "gemini"):
        response = http.get(made.headers["location"], params={"format": wanted})
        assert response.status_code == HTTPStatus.OK
        assert "Add two whole numbers" in response.text


def test_a_surface_is_for_the_caller_that_created_it(http):
    made = http.post("/v1/surfaces", json={"refs": ["caller:agent:eve"]})
    surface_id, where = made.json()["surface_id"], made.headers["location"]
    by_role = {role: key_of(http, role, subject="agent:eve") for role in AccessRole}
    requests = [
        ("/v1/calls", {"tool": "math.add", "arguments": {"a": 1}, "surface_id": surface_id}),
        ("/v1/batches", {"calls": [{"tool": "math.add", "arguments": {"a": 1}}], "surface_id": surface_id}),
        ("/v1/search", {"query": "letter", "surface_id": surface_id}),
    ]
    own = [http.post(path, json=body).status_code for path, body in requests]
    foreign = [http.post(path, json=body, headers=by_role["caller"]) for path, body in requests]
    assert (own, [each.status_code for each in foreign]) == ([200] * 3, [404] * 3)
    unknown = http.get("/v1/surfaces/surf_0", headers=by_role["caller"]).json()["detail"]
    assert foreign[0].json()["detail"] == unknown.replace("surf_0", surface_id)
    seen = {role.value: http.get(where, headers=headers).status_code for role, headers in by_role.items()}
    assert seen == {"caller": 404, "approver": 404, "operator": 200, "auditor": 200}


@pytest.mark.parametrize(
    "query", ["letter", "select:mail.send", "select:send,pigeon", "pigeon", "please help me send a letter"]
)
def test_a_search_over_http_is_the_search_of_the_library(http, query):
    async def in_the_library():
        async with Runtime.open(tools=[send, add, pigeon], approve="wait") as rt:
            return await rt.search(query, surface=await rt.surface("session"))

    by_http = http.post("/v1/search", json={"query": query}).json()
    assert "secret.pigeon" not in [each["name"] for each in by_http["matches"]], "it is not on the surface"
    wanted = http.portal.call(in_the_library)
    assert [each["name"] for each in by_http["matches"]] == [each.name for each in wanted.matches]
    assert by_http.get("missing_names", []) == list(wanted.missing_names or ())


def test_a_role_sees_on_its_surface_what_it_may_use(http):
    made = http.post("/v1/surfaces", json={"role": {"name": "clerk", "tools": ["math.*"]}}).json()
    found = http.post("/v1/search", json={"query": "letter", "surface_id": made["surface_id"]}).json()
    assert found["matches"] == []
    assert found["next_action"]


@pytest.mark.parametrize(
    ("path", "body", "status", "pointer", "message"),
    [
        ("/v1/search", {}, 400, "/query", "missing required field `query`"),
        ("/v1/search", {"query": 3}, 400, "/query", "expected `str`, got `int`"),
        ("/v1/search", {"query": "x", "limit": 0}, 400, "/limit", ">= 1"),
        ("/v1/search", {"query": "x", "limit": True}, 400, "/limit", "expected `int`, got `bool`"),
        ("/v1/search", {"query": "x", "surface_id": "srf_1"}, 404, "/surface_id", "POST /v1/surfaces"),
        ("/v1/search", {"query": "x", "surface_id": 7}, 400, "/surface_id", "expected `str"),
        ("/v1/search", {"quarry": "x"}, 400, "/quarry", "use one of limit, query, surface_id"),
        ("/v1/search", [], 400, None, "expected `object`, got `array`"),
        ("/v1/surfaces", {"scope": 3}, 400, "/scope", "expected `str`"),
        ("/v1/surfaces", {"only": "x y"}, 400, "/only", "expected `array"),
        ("/v1/surfaces", {"role": "clerk"}, 400, "/role", "role must be an object with the members name, tools"),
        ("/v1/surfaces", {"role": {"tools": ["*"]}}, 400, "/role", "role must be an object"),
        (
            "/v1/surfaces",
            {"model": {"eyes": 2}},
            400,
            "/model/eyes",
            "model must be an object with the members strict_schemas",
        ),
    ],
)
def test_an_invalid_request_gets_a_problem_with_a_pointer(http, path, body, status, pointer, message):
    answer = http.post(path, json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (problem["status"], problem.get("pointer")) == (status, pointer)
    assert message in problem["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "reported"),
    [
        ("GET", "/v1/surfaces", 405, "'/v1/surfaces' does not accept GET; use POST"),
        ("GET", "/v1/nothing", 404, "no route for the path '/v1/nothing'; correct it, or read /openapi.json"),
    ],
)
def test_an_unknown_path_or_method_is_reported_as_a_problem(http, method, path, status, reported):
    answer = http.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["detail"]) == (status, reported)
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {"content-type": "application/json"}, 400),
        (b"\xff", {"content-type": "application/json"}, 400),
        (b"[" * 100_000, {"content-type": "application/json"}, 400),
        (b'{"query": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", {"content-type": "application/json"}, 400),
        (b'{"query": "x"}', {"content-type": "text/plain"}, 415),
        (b'{"query": "x"}', {}, 415),
        (b'{"query": "' + b"x" * 1_000_000 + b'"}', {"content-type": "application/json"}, 413),
    ],
)
def test_invalid_requests_are_rejected_and_the_server_continues(http, content, headers, status):
    assert http.post("/v1/search", content=content, headers=headers).status_code == status
    assert http.post("/v1/search", json={"query": "letter"}).json()["matches"]


def test_a_surface_is_immutable_and_links_to_its_replacement(http):
    made = http.post("/v1/surfaces", json={"scope": "session"})
    assert "link" not in http.get(made.headers["location"]).headers
    for gates in (["beta"], []):  # two changes: the newest is named, whichever came between
        http.portal.call(partial(http.app.state.runtime.surfaces.change, gates=gates))
    for wanted in (None, "openai"):
        reported = http.get(made.headers["location"], params=wanted and {"format": wanted})
        assert wanted or reported.json() == made.json()
        newest = http.get(reported.links["latest-version"]["url"])
        assert "link" not in newest.headers
        assert newest.url.path != made.headers["location"]


def test_unknown_formats_and_surfaces_are_reported(http):
    surface_id = http.post("/v1/surfaces", json={}).json()["surface_id"]
    unknown = http.get(f"/v1/surfaces/{surface_id}", params={"format": "morse"})
    assert unknown.status_code == HTTPStatus.BAD_REQUEST
    assert unknown.json()["pointer"] == "?format"
    nowhere = http.get("/v1/surfaces/srf_nowhere")
    assert nowhere.status_code == HTTPStatus.NOT_FOUND
    assert "POST /v1/surfaces" in nowhere.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "203.0.113.9"},
        {"via": "1.1 proxy"},
        {"host": "rebound.example"},
        {"host": "[bad"},
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/surfaces"])
def test_neither_a_proxy_nor_a_web_page_may_ask(http, path, headers):
    answer = http.post(path, json={"query": "letter"} if path == "/v1/search" else {}, headers=headers)
    assert answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    assert "mail.send" not in answer.text


def test_a_program_on_another_machine_may_not_ask(make_app):
    app = make_app(lambda: Runtime.open(tools=[send], approve="wait"))
    with TestClient(app, base_url="http://127.0.0.1:8642", client=("203.0.113.9", 50_000)) as client:
        assert client.post("/v1/search", json={"query": "letter"}).status_code == HTTPStatus.UNAUTHORIZED
        assert client.get("/healthz").status_code == HTTPStatus.OK


def test_a_store_failure_is_a_server_error(http, monkeypatch):
    async def fail(**_):
        raise StoreError("the disk is gone")

    assert http.get("/healthz").text == "ok"
    monkeypatch.setattr(http.app.state.runtime.deferred, "list", fail)
    for path, is_for_anybody in (("/healthz", True), ("/v1/status", False)):
        reported = http.get(path, headers=key_of(http, AccessRole.AUDITOR))
        assert (reported.status_code, "the disk is gone" in reported.text) == (503, not is_for_anybody)


def key_of(client, role, subject="aud"):
    """Return the header of a key."""
    add = partial(client.app.state.served.grants.add, GrantKind.KEY, subject=subject, roles=[role])
    return {"authorization": f"Bearer {client.portal.call(partial(add, created_by='test'))[0]}"}


def _health(client, wanted):
    """Return the text of the page once it has the wanted status; that takes until the next heartbeat."""
    return wait_until(lambda: client.get("/healthz"), lambda reply: reply.status_code == wanted, pause_s=0).text


@pytest.mark.slow
def test_a_store_fault_is_reported_and_logged_until_it_is_resolved(make_app, tmp_path, caplog):
    app = make_app(lambda: Runtime.open(store=f"sqlite:{tmp_path}/calls.db", tools=[send], approve="wait"))
    with (
        TestClient(app, base_url="http://127.0.0.1:8642", client=("127.0.0.1", 50_000)) as client,
        closing(sqlite3.connect(tmp_path / "calls.db", isolation_level=None)) as other,
    ):
        _health(client, HTTPStatus.OK)
        auditor = key_of(client, AccessRole.AUDITOR)  # a key that is added later may share a commit that fails
        refusing = "BEGIN SELECT RAISE(FAIL, 'a disk that fails'); END"
        other.execute(f"CREATE TRIGGER failing BEFORE INSERT ON processes {refusing}")
        assert _health(client, HTTPStatus.SERVICE_UNAVAILABLE) == "the store cannot be used; /v1/status says why"
        assert "a disk that fails" in client.get("/v1/status", headers=auditor).json()["store_fault"]
        other.execute("DROP TRIGGER failing")
        _health(client, HTTPStatus.OK)
        assert client.get("/v1/status", headers=auditor).json()["store_fault"] is None
        logged = [each for each in caplog.messages if each.startswith("the store can")]
        assert ("a disk that fails" in logged[0], logged[1:]) == (True, ["the store can be used again"])


TIMEOUT_S = 60


@tool(read_only=False)
def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


@pytest.mark.parametrize(("asked", "more"), [(2, []), (3, ["approvals"])])
async def test_the_status_page_names_a_list_that_it_truncates(monkeypatch, asked, more):
    monkeypatch.setattr(stream_routes, "MAX_LISTED", 2)
    async with Runtime.open(tools=[pay], approve="wait") as rt:
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call("pay", {"amount": amount}, surface=surface)) for amount in range(asked)]
        async with asyncio.timeout(TIMEOUT_S):
            while len(await rt.approvals.list()) < asked:  # noqa: ASYNC110 -- there is nothing to wait on
                await asyncio.sleep(0.01)
        page = await status_of(rt)
        for question in await rt.approvals.list():
            await rt.approvals.decide(question.approval_id, "deny")
        await asyncio.gather(*calls)
    assert (page["approvals"], page["more"]) == (2, more)
