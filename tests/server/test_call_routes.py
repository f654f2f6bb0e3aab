"""Batches over HTTP: their calls have ids at once, and may wait for an approval longer than a request does."""

import asyncio

import pytest
from starlette.testclient import TestClient

from agenttool import Runtime, tool
from agenttool.client import AsyncClient
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
        allow(http, key_of(http, "approver"))
        ended = [http.get(f"/v1/calls/{each['invocation_id']}?wait=30").json() for each in made.json()["items"]]
        assert [each["status"] for each in ended] == ["succeeded"] * 3
        assert ended[2]["result"]["structured_content"] == 6


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


def test_a_server_that_stops_leaves_what_waits_to_the_next_one_and_records_what_did_not_start(open_app):
    with open_app() as http:
        items = http.post("/v1/batches", json={"calls": CALLS}, params={"wait": 1}).json()["items"]
    with open_app() as http:
        assert http.get(f"/v1/calls/{items[2]['invocation_id']}").json()["status"] == "canceled"
        allow(http, key_of(http, "approver"))
        ended = http.get(f"/v1/calls/{items[1]['invocation_id']}?wait=30").json()
        assert ended["result"]["content"][0]["text"] == "sent to ada"


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
