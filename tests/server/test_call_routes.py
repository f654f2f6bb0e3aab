"""Calls over HTTP: batches, which may wait for an approval longer than a request does, and calls of several callers."""

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from agenttool import Runtime, tool
from agenttool.adapters.openapi.settings import read_service
from agenttool.client import AsyncClient
from agenttool.pipeline.journal_view import JournalView
from agenttool.ports.identity import AccessRole
from agenttool.server.grants import GrantKind

HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}
CALLS = [
    {"tool": "math.double", "arguments": {"number": 2}},
    {"tool": "mail.send", "arguments": {"to": "ada"}},
    {"tool": "math.double", "arguments": {"number": 3}, "depends_on": [1]},
]


@tool(namespace="math", read_only=True, open_world=False)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@pytest.fixture
def open_app(make_app, tmp_path):
    def open_app():
        file = tmp_path / "calls.db"
        return TestClient(
            make_app(lambda: Runtime.open(store=f"sqlite:{file}", tools=[double, send], approve="wait"), file=file),
            **HERE,
        )

    return open_app


def key_of(http, *roles):
    async def add_key():
        granted = [AccessRole(each) for each in roles]
        return await http.app.state.served.grants.add(GrantKind.KEY, subject="bob", roles=granted, created_by="test")

    return {"authorization": f"Bearer {http.portal.call(add_key)[0]}"}


def allow(http, headers):
    (approval,) = http.get("/v1/approvals", headers=headers).json()["items"]
    body = {"answer": "allow", "shown_digest": approval["shown_digest"]}
    assert http.post(f"/v1/approvals/{approval['approval_id']}", json=body, headers=headers).status_code == 200


def states(items):
    return [(each["tool"], each["status"], each["result"] and each["result"]["structured_content"]) for each in items]


def test_a_batch_that_waits_for_an_approval_is_answered_with_the_state_of_each_call(open_app):
    with open_app() as http:
        made = http.post("/v1/batches", json={"calls": CALLS}, params={"wait": 1})
        first, asked, dependent = made.json()["items"]
        assert made.status_code == 202
        assert states([first]) == [("math.double", "succeeded", 4)]
        assert (asked["status"], asked["result"], dependent["status"]) == ("awaiting_approval", None, "planned")
        planned = http.get(f"/v1/calls/{dependent['invocation_id']}").json()
        assert (planned["status"], planned["actor"], planned["is_open"]) == ("planned", "local", True)
        approver = key_of(http, "approver")
        now = http.get("/v1/stats", headers=approver).json()["now"]
        assert now == {"running": 0, "planned": 1, "waiting": 1, "deferred": 0}
        allow(http, approver)
        ended = [http.get(f"/v1/calls/{each['invocation_id']}?wait=30").json() for each in made.json()["items"]]
        assert [each["status"] for each in ended] == ["succeeded"] * 3
        assert ended[2]["result"]["structured_content"] == 6


def test_a_call_that_waits_for_an_approval_shows_when_that_expires(open_app):
    with open_app() as http:
        made = http.post("/v1/calls", json=CALLS[1]).json()
        (approval,) = http.get("/v1/approvals", headers=key_of(http, "approver")).json()["items"]
        read = http.get(f"/v1/calls/{made['invocation_id']}").json()
        assert made["expires_at"] == read["expires_at"] == approval["expires_at"]
        allow(http, key_of(http, "approver"))
        ended = http.get(f"/v1/calls/{made['invocation_id']}?wait=30").json()
        assert (ended["approval_id"], ended["expires_at"]) == (None, None)


def test_a_batch_with_an_idempotency_key_is_refused(open_app):
    with open_app() as http:
        made = http.post("/v1/batches", json={"calls": CALLS}, headers={"idempotency-key": "k1"})
        assert (made.status_code, made.json()["pointer"]) == (400, "header:idempotency-key")
        assert http.get("/v1/calls").json()["items"] == []


def test_a_batch_without_a_wait_is_answered_once_nothing_continues_without_an_approver(open_app, monkeypatch):
    monkeypatch.setattr("agenttool.server.call_routes.DEFAULT_WAIT_S", 3600.0)
    with open_app() as http:
        made = http.post("/v1/batches", json={"calls": [*CALLS, CALLS[0]]})
        assert made.status_code == 202
        statuses = [each["status"] for each in made.json()["items"]]
        assert statuses == ["succeeded", "awaiting_approval", "planned", "succeeded"]


def test_a_call_that_is_approved_after_a_restart_continues_in_its_conversation(open_app):
    def read_result(http, digest, **thread):
        arguments = {"payload_id": f"payload:{digest}"}
        body = {"tool": "agenttool.read_result", "arguments": arguments, **thread}
        return http.post("/v1/calls", json=body).json()["status"]

    with open_app() as http:
        body = {"tool": "mail.send", "arguments": {"to": "ada" * 60_000}, "thread": "letters"}
        made = http.post("/v1/calls", json=body).json()
        assert made["status"] == "awaiting_approval"
    with open_app() as http:
        allow(http, key_of(http, "approver"))
        (payload,) = http.get(f"/v1/calls/{made['invocation_id']}?wait=30").json()["payloads"]
        assert read_result(http, payload["digest"], thread="letters") == "succeeded"
        assert read_result(http, payload["digest"]) == "failed"


def test_a_call_does_not_run_if_a_call_that_it_depends_on_failed(open_app):
    calls = [{"tool": "math.halve"}, CALLS[0] | {"depends_on": [0]}]
    with open_app() as http:
        items = http.post("/v1/batches", json={"calls": calls}).json()["items"]
    assert [each["status"] for each in items] == ["failed", "canceled"]


def test_a_batch_whose_calls_end_is_answered_with_their_results(open_app):
    with open_app() as http:
        made = http.post("/v1/batches", json={"calls": [CALLS[0], {"tool": "math.halve"}]})
        assert made.status_code == 200
        first, second = made.json()["items"]
        assert states([first]) == [("math.double", "succeeded", 4)]
        assert (second["tool"], second["result"]["is_error"]) == ("math.halve", True)


def test_another_caller_does_not_see_the_planned_calls_of_a_batch(open_app):
    with open_app() as http:
        planned = http.post("/v1/batches", json={"calls": CALLS}, params={"wait": 0}).json()["items"][2]
        other = key_of(http, "caller")
        assert http.get(f"/v1/calls/{planned['invocation_id']}", headers=other).status_code == 404
        assert http.post(f"/v1/calls/{planned['invocation_id']}/cancel", headers=other).status_code == 404


@pytest.mark.parametrize("path", ["/v1/calls", "/v1/batches"])
def test_a_call_that_ends_while_its_state_is_read_is_not_answered_with_an_end_and_no_result(
    make_app, monkeypatch, path
):
    may_end = asyncio.Event()

    @tool(namespace="math", read_only=True, open_world=False)
    async def ponder() -> str:
        """Think until it is allowed to end."""
        await may_end.wait()
        return "done"

    def ending_after(read):
        async def read_and_end(journal, invocation_id):
            found = await read(journal, invocation_id)
            with journal._core.registry.waiter() as ended:
                may_end.set()
                if journal._core.registry.calls:
                    await ended.wait()
            return found

        return read_and_end

    for name in ("invocation", "result"):
        monkeypatch.setattr(JournalView, name, ending_after(getattr(JournalView, name)))
    call = {"tool": "math.ponder", "arguments": {}}
    with TestClient(make_app(lambda: Runtime.open(tools=[ponder])), **HERE) as http:
        reply = http.post(path, json=call if path == "/v1/calls" else {"calls": [call]}, params={"wait": 0}).json()
        state = reply if path == "/v1/calls" else reply["items"][0]
        assert (state["status"], state["result"]) == ("running", None)


async def test_a_request_that_waits_ends_when_its_key_is_revoked(make_app, serve_app, tmp_path, monkeypatch):
    monkeypatch.setattr("agenttool.server.state.CHECK_S", 0.01)
    app = make_app(lambda: Runtime.open(store=f"sqlite:{tmp_path}/calls.db", tools=[send], approve="wait"))
    async with serve_app(app) as url:
        grants = app.state.served.grants
        key, grant = await grants.add(GrantKind.KEY, subject="bob", roles=[AccessRole.CALLER], created_by="test")
        async with AsyncClient(url, key=key) as client:
            made = await client.start("mail.send", {"to": "ada"})
            waits = [
                asyncio.create_task(client.get(made.invocation_id, wait_s=60)),
                asyncio.create_task(client.start("mail.send", {"to": "eve"}, wait_s=60)),
            ]
            async for _ in app.state.runtime.journal.events():
                if len(await app.state.runtime.approvals.list()) == len(waits):
                    break
            await grants.revoke(GrantKind.KEY, grant.grant_id)
            ended = await asyncio.gather(*waits, return_exceptions=True)
    assert [each.status for each in ended] == [401, 401]


DOCUMENT = """
openapi: 3.0.0
info: {title: bank, version: "1"}
paths:
  /payments: {post: {operationId: pay, responses: {"200": {description: paid}}}}
"""


class Bank:
    """A service whose requests end when a test says so."""

    def __init__(self):
        self.open = asyncio.Event()
        self.running = 0
        self.most = 0
        self.app = Starlette(routes=[Route("/payments", self.pay, methods=["POST"])])

    async def pay(self, _):
        self.running += 1
        self.most = max(self.most, self.running)
        await self.open.wait()
        self.running -= 1
        return JSONResponse({"paid": True})


class Caller:
    """A caller with a key of its own."""

    def __init__(self, client, key):
        self._client, self._headers = client, {"authorization": f"Bearer {key}"}

    async def call(self, name, wait=0, **body):
        """Make a call, and give its id and its status after so many seconds, or earlier if it has ended."""
        sent = {"tool": name, "arguments": {}, **body}
        reply = await self._client.post("/v1/calls", json=sent, params={"wait": wait}, headers=self._headers)
        return reply.json()["invocation_id"], reply.json()["status"]

    async def status(self, invocation_id, wait=0):
        reply = await self._client.get(f"/v1/calls/{invocation_id}", params={"wait": wait}, headers=self._headers)
        return reply.json()["status"]

    async def cancel(self, invocation_id):
        assert (await self._client.post(f"/v1/calls/{invocation_id}/cancel", headers=self._headers)).status_code == 202


@pytest.fixture
def opened(make_app, serve_app, tmp_path):
    """Open a server with a service and Python functions; gives the service, and the callers ann and bob."""

    @asynccontextmanager
    async def opened(*tools):
        bank, document = Bank(), tmp_path / "bank.yaml"
        document.write_text(DOCUMENT)

        def open_runtime():
            source = read_service("bank", {"document": str(document), "server": url})
            return Runtime.open(sources=[source], tools=tools, rules=[{"behavior": "allow", "tool": "*"}])

        async with serve_app(bank.app) as url:
            app = make_app(open_runtime)
            async with serve_app(app) as base, httpx2.AsyncClient(base_url=base, timeout=60) as client:
                add, roles = app.state.served.grants.add, [AccessRole.CALLER]
                keys = [(await add(GrantKind.KEY, subject=each, roles=roles, created_by="t"))[0] for each in "ab"]
                try:
                    yield bank, *(Caller(client, key) for key in keys)
                finally:
                    bank.open.set()

    return opened


async def test_a_hanging_request_of_one_caller_delays_no_call_of_another(opened):
    @tool(namespace="notes")
    def write() -> str:
        """Write a note."""
        return "written"

    async with opened(write) as (bank, ann, bob):
        hanging = await ann.call("bank.pay")
        assert hanging[1] == "running"
        assert (await bob.call("notes.write", wait=60))[1] == "succeeded"
        beside = await bob.call("bank.pay")
        elsewhere = await ann.call("bank.pay", thread="another")
        assert (beside[1], elsewhere[1]) == ("running", "running")
        again = await ann.call("notes.write")
        assert again[1] == "queued"
        bank.open.set()
        assert await ann.status(again[0], wait=60) == "succeeded"
        assert bank.most == 3


async def test_exclusive_requests_of_one_conversation_do_not_overlap(opened):
    async with opened() as (bank, ann, _):
        made = [await ann.call("bank.pay") for _ in range(2)]
        assert [status for _, status in made] == ["running", "queued"]
        bank.open.set()
        assert [await ann.status(each, wait=60) for each, _ in made] == ["succeeded", "succeeded"]
        assert bank.most == 1


async def test_a_hanging_function_delays_the_functions_of_all_callers_and_nothing_else(opened):
    end = asyncio.Event()

    @tool(namespace="notes")
    async def write() -> str:
        """Write a note."""
        await end.wait()
        return "written"

    @tool(namespace="notes", read_only=True, concurrency_safe=True, open_world=False)
    def read() -> str:
        """Read a note."""
        return "a note"

    async with opened(write, read) as (bank, ann, bob):
        bank.open.set()
        hanging = await ann.call("notes.write")
        assert hanging[1] == "running"
        assert (await bob.call("bank.pay", wait=60))[1] == "succeeded"
        writing, behind = await bob.call("notes.write"), await bob.call("bank.pay")
        assert (writing[1], behind[1]) == ("queued", "queued")
        await bob.cancel(writing[0])
        assert await bob.status(behind[0], wait=60) == "succeeded"
        assert await bob.status(writing[0], wait=60) == "canceled"
        reading = await bob.call("notes.read")
        assert reading[1] == "queued"
        end.set()
        assert await bob.status(reading[0], wait=60) == "succeeded"
        assert await ann.status(hanging[0], wait=60) == "succeeded"
