"""Calls over HTTP: batches, which may wait for an approval longer than a request does, and calls of several callers."""

import asyncio
import sqlite3
import time
from contextlib import asynccontextmanager, closing

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from agenttool import Runtime, tool
from agenttool.adapters.openapi.settings import read_service
from agenttool.adapters.python.threads import FunctionHook
from agenttool.agent.journal_view import JournalView
from agenttool.client import AsyncClient
from agenttool.codec import to_json
from agenttool.errors import StoreError
from agenttool.hooks.definition import Hook
from agenttool.ports.identity import AccessRole
from agenttool.records import HookEvent
from agenttool.server.grants import GrantKind
from agenttool.stores.sqlite.writer import Writer

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


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_page_of_calls_has_at_most_its_limit_and_its_cursor_continues_over_open_and_ended_calls(
    make_app, tmp_path, store
):
    file = tmp_path / "calls.db" if store == "sqlite" else None
    named = "memory:" if file is None else f"sqlite:{file}"
    app = make_app(lambda: Runtime.open(store=named, tools=[double, send], approve="wait"), file=file)
    with TestClient(app, **HERE) as http:
        bodies = [CALLS[0], CALLS[1], CALLS[1], CALLS[0], CALLS[1], CALLS[0], CALLS[1]]
        made = [http.post("/v1/calls", json=each).json() for each in bodies]
        waiting, ended = ([each for each in made if bool(each["result"]) is has] for has in (False, True))
        pages, cursor = [], ""
        while cursor is not None:
            page = http.get("/v1/calls", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
            pages.append([each["invocation_id"] for each in page["items"]])
            cursor = page["next_cursor"]
        assert max(map(len, pages)) == 2
        assert [each for page in pages for each in page] == [
            each["invocation_id"] for each in (*waiting[::-1], *ended[::-1])
        ]
        assert len(http.get("/v1/calls", params={"open": True, "limit": 1}).json()["items"]) == 1
        assert http.get("/v1/calls", params={"cursor": "two"}).status_code == 400


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
        assert (state["status"], state["result"]["content"][0]["text"]) == ("succeeded", "done")


@pytest.fixture
def slow_disk(monkeypatch):
    """Let each commit wait for the disk, longer than a request without a wait does."""

    def slowed(write):
        def write_slowly(*arguments, **options):
            time.sleep(0.12)
            return write(*arguments, **options)

        return write_slowly

    def slow_disk():
        monkeypatch.setattr(Writer, "commit", slowed(Writer.commit))

    return slow_disk


@pytest.mark.parametrize("key", [None, "k1"])
def test_a_call_without_a_wait_is_accepted_once_it_is_recorded_however_slow_the_disk_is(open_app, slow_disk, key):
    with open_app() as http:
        slow_disk()
        headers = {} if key is None else {"idempotency-key": key}
        made = http.post("/v1/calls", json=CALLS[1], params={"wait": 0}, headers=headers)
        assert made.status_code == 202, made.text
        assert http.get(made.headers["location"]).json()["status"] == "awaiting_approval"


def test_a_batch_without_a_wait_is_accepted_once_it_is_recorded_however_slow_the_disk_is(open_app, slow_disk):
    with open_app() as http:
        slow_disk()
        made = http.post("/v1/batches", json={"calls": CALLS}, params={"wait": 0})
        assert made.status_code == 202, made.text
        found = [http.get(f"/v1/calls/{each['invocation_id']}").status_code for each in made.json()["items"]]
        assert found == [200, 200, 200]


@pytest.mark.parametrize("path", ["/v1/calls", "/v1/batches"])
def test_a_call_whose_end_cannot_be_stored_is_open_with_the_fault_until_the_disk_works(
    make_app, tmp_path, monkeypatch, path
):
    def refuse(*_, **__):
        raise StoreError("the disk fails")

    with monkeypatch.context() as disk:

        @tool(namespace="mail", approval_required=False)
        def send_and_break() -> str:
            """Send a letter, after which the disk fails."""
            disk.setattr(Writer, "commit", refuse)
            return "sent"

        file = tmp_path / "calls.db"
        rules = [{"behavior": "allow", "tool": "mail.*"}]
        app = make_app(lambda: Runtime.open(store=f"sqlite:{file}", tools=[send_and_break], rules=rules), file=file)
        with TestClient(app, **HERE) as http:
            call = {"tool": "mail.send_and_break", "arguments": {}}
            made = http.post(path, json=call if path == "/v1/calls" else {"calls": [call]})
            state = made.json() if path == "/v1/calls" else made.json()["items"][0]
            assert (made.status_code, state["status"], state["result"]) == (202, "running", None)
            assert "the disk fails" in state["notice"]
            read = http.get(f"/v1/calls/{state['invocation_id']}")
            assert (read.status_code, read.json()["status"], read.json()["result"]) == (200, "running", None)
            disk.undo()
            ended = http.get(f"/v1/calls/{state['invocation_id']}", params={"wait": 60}).json()
            assert (ended["status"], ended["result"]["error"]["error_code"]) == ("failed", "result_not_stored")
            assert ended["notice"] is None


def stop_process(rt, file):
    """Let a runtime renew nothing any more, and end its lease, as if its process was stopped for long."""
    rt._agent.recovery._task.cancel()
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("DELETE FROM processes WHERE owner = ?", [rt._core.durability.checkpoints.owner])


async def test_a_batch_whose_call_another_process_ends_is_answered_with_the_result_in_the_journal(
    make_app, serve_app, tmp_path
):
    file = tmp_path / "calls.db"

    def open_runtime():
        return Runtime.open(store=f"sqlite:{file}", tools=[send], approve="wait")

    app = make_app(open_runtime, file=file)
    async with serve_app(app) as url, open_runtime() as other, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        first = app.state.runtime
        making = asyncio.create_task(client.post("/v1/batches", json={"calls": CALLS[1:2]}, params={"wait": 50}))
        async for _ in other.journal.events():
            if questions := await other.approvals.list():
                break
        stop_process(first, file)
        await other.approvals.decide(questions[0], "allow")
        await other.calls.get(questions[0].invocation_id).result()
        first._agent.recovery._lease._renewed_at = 0.0
        await first._agent.recovery._lease.keep()
        made = await making
    (item,) = made.json()["items"]
    assert (made.status_code, item["status"]) == (200, "succeeded")
    assert item["result"]["content"][0]["text"] == "sent to ada"


async def test_a_call_that_ends_after_its_process_lost_its_lease_is_answered_with_the_state_in_the_journal(
    make_app, serve_app, tmp_path
):
    file, may_end = tmp_path / "calls.db", asyncio.Event()

    @tool(namespace="mail", concurrency_safe=True)
    async def post(to: str) -> str:
        """Send a letter, once that is possible."""
        await may_end.wait()
        return f"sent to {to}"

    def open_runtime():
        rules = [{"behavior": "allow", "tool": "mail.post"}]
        return Runtime.open(store=f"sqlite:{file}", tools=[post], rules=rules)

    app = make_app(open_runtime, file=file)
    async with serve_app(app) as url, open_runtime() as other, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        call = {"tool": "mail.post", "arguments": {"to": "ada"}}
        making = asyncio.create_task(client.post("/v1/calls", json=call, params={"wait": 50}))
        async for _, event in other.journal.events():
            if event.event_type == "tool.invocation.started":
                break
        stop_process(app.state.runtime, file)
        await other.calls.recover()
        ended = await other.calls.get(event.invocation_id).result()
        may_end.set()
        made = await making
    assert ended.error.error_code == "unknown_after_crash"
    assert made.json().get("result") in (None, to_json(ended))


async def test_a_batch_call_that_begins_to_wait_while_its_batch_is_answered_continues_in_the_next_server(
    make_app, serve_app, tmp_path, monkeypatch
):
    file, may_end, may_wait = tmp_path / "calls.db", asyncio.Event(), asyncio.Event()

    @tool(namespace="mail")
    async def post(to: str) -> str:
        """Send a letter, once that is possible."""
        await may_end.wait()
        return f"sent to {to}"

    async def delay(question):
        if question.input["to"] == "eve":
            await may_wait.wait()

    async def checkpoint(self, invocation_ids):
        await store(self, invocation_ids)
        may_wait.set()
        async for _, event in self.events():
            if (event.invocation_id, event.event_type) == (invocation_ids[1], "tool.invocation.queued"):
                return

    store = JournalView.checkpoint
    monkeypatch.setattr(JournalView, "checkpoint", checkpoint)
    rules = [{"behavior": "allow", "tool": "mail.*"}]
    hooks = [Hook(name="delay", event=HookEvent.PRE_TOOL_USE, runner=FunctionHook(delay))]
    options = {"store": f"sqlite:{file}", "tools": [post], "rules": rules, "hooks": hooks}
    app = make_app(lambda: Runtime.open(**options), file=file)
    async with serve_app(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        calls = [{"tool": "mail.post", "arguments": {"to": to}} for to in ("ada", "eve")]
        made = await client.post("/v1/batches", json={"calls": calls}, params={"wait": 0})
        with closing(sqlite3.connect(file)) as stored:
            kinds = dict(stored.execute("SELECT invocation_id, kind FROM open_calls").fetchall())
        may_end.set()
    assert [each["status"] for each in made.json()["items"]] == ["running", "queued"]
    assert kinds.get(made.json()["items"][1]["invocation_id"]) == "approved"


async def test_a_batch_call_that_another_process_ends_while_its_batch_is_answered_is_returned_with_its_end(
    make_app, serve_app, tmp_path, monkeypatch
):
    file, store = tmp_path / "calls.db", JournalView.checkpoint

    @tool(namespace="mail")
    async def post(to: str) -> str:
        """Send a letter, which takes forever."""
        await asyncio.Event().wait()
        return f"sent to {to}"

    def open_runtime():
        rules = [{"behavior": "allow", "tool": "mail.post"}]
        return Runtime.open(store=f"sqlite:{file}", tools=[post], rules=rules)

    async def checkpoint(self, invocation_ids):
        await other.calls.recover()
        for each in invocation_ids:
            await other.calls.get(each).result()
        await store(self, invocation_ids)

    app = make_app(open_runtime, file=file)
    async with serve_app(app) as url, open_runtime() as other, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        first, count = app.state.runtime, 0
        calls = [{"tool": "mail.post", "arguments": {"to": to}} for to in ("ada", "eve")]
        making = asyncio.create_task(client.post("/v1/batches", json={"calls": calls}, params={"wait": 50}))
        async for _, event in other.journal.events():
            count += event.event_type == "tool.invocation.queued"
            if count == len(calls):
                break
        monkeypatch.setattr(JournalView, "checkpoint", checkpoint)
        stop_process(first, file)
        first._agent.recovery._lease._renewed_at = 0.0
        await first._agent.recovery._lease.keep()
        made = await making
    errors = [each["result"]["error"]["error_code"] for each in made.json()["items"]]
    assert (made.status_code, errors) == (200, ["unknown_after_crash", "process_died"])


async def test_calls_are_read_from_a_server_that_lost_its_lease_as_they_are_stored(make_app, serve_app, tmp_path):
    file, may_end = tmp_path / "calls.db", asyncio.Event()

    @tool(namespace="mail", concurrency_safe=True)
    async def post(to: str) -> str:
        """Send a letter, once that is possible."""
        await may_end.wait()
        return f"sent to {to}"

    rules = [{"behavior": "allow", "tool": "mail.*"}]
    app = make_app(lambda: Runtime.open(store=f"sqlite:{file}", tools=[send, post], rules=rules), file=file)
    async with serve_app(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        ended = await client.post("/v1/calls", json=CALLS[1])
        call = {"tool": "mail.post", "arguments": {"to": "ada"}}
        started = await client.post("/v1/calls", json=call, params={"wait": 0})
        stop_process(app.state.runtime, file)
        may_end.set()
        lost = await client.post("/v1/calls", json=CALLS[1])
        made = [ended.json(), started.json()]
        read = [await client.get(f"/v1/calls/{each['invocation_id']}") for each in made]
    assert (ended.status_code, started.status_code, lost.status_code) == (200, 202, 503)
    assert [each.status_code for each in read] == [200, 200]
    assert [each.json()["status"] for each in read] == ["succeeded", "running"]


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
