"""The client of the HTTP API against a server on loopback: both classes, failures, approvals and events."""

import asyncio
import inspect
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from served_runtime import SCAN, Served

from agenttool.client import AsyncClient, Client, client, json_value, repeats, result_of
from agenttool.errors import ConfigError, GatewayError

BOUND_S = 60


@pytest.fixture(scope="module")
def served(serve_app):
    with Served(serve_app) as found:
        yield found


@contextmanager
def answering(*replies):
    """Serve fixed replies, one for each request: a status and a body, or none to close the connection."""
    seen, left = [], list(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.command, self.headers["idempotency-key"]))
            self.rfile.read(int(self.headers["content-length"] or 0))
            if (reply := left.pop(0)) is None:
                return
            self.send_response(reply[0])
            body = json.dumps(reply[1]).encode()
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 -- the name that the server looks for

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def quick(monkeypatch):
    """Repeat requests without a delay."""
    monkeypatch.setattr(repeats, "FIRST_DELAY_S", 0.0)


def public(kind):
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    found = {name: inspect.signature(each) for name, each in public(Client).items()}
    assert found == {name: inspect.signature(each) for name, each in public(AsyncClient).items()}


def test_a_call_returns_the_result_and_is_recorded_once(served):
    with Client(served.url, key=served.key("agent:one", "caller")) as gateway:
        assert gateway.call("math.add", {"a": 19, "b": 23}).structured_content == 42
        failed = gateway.call("math.add", {"a": "x"})
        listed = gateway.calls(limit=10)
        assert (failed.is_error, [each.status for each in listed.items]) == (True, ["schema_parse_failed", "succeeded"])
        assert result_of(gateway.get(listed.items[1].invocation_id)).structured_content == 42


async def test_the_asynchronous_client_does_the_same(served):
    async with AsyncClient(served.url, key=served.key("agent:two", "caller")) as gateway:
        started = await gateway.start("math.add", {"a": 1}, idempotency_key="two")
        assert (await gateway.wait(started.invocation_id)).structured_content == 2
        again = await gateway.call("math.add", {"a": 1}, idempotency_key="two")
        assert again.invocation_id == started.invocation_id
        results = await gateway.batch([{"tool": "math.add", "arguments": {"a": number}} for number in range(3)])
        assert [each.structured_content for each in results] == [1, 2, 3]
        with pytest.raises(GatewayError) as refused:
            await gateway.call("math.add", {"a": 2}, idempotency_key="two")
        assert (refused.value.status, refused.value.reason) == (409, "idempotency_conflict")


def test_tools_sources_and_the_own_identity_are_typed(served):
    with Client(served.url) as gateway:
        assert {each.name for each in gateway.tools().items} >= {"math.add", "mail.send"}
        assert gateway.tool("math.add").read_only
        assert gateway.search("add two numbers").matches[0].name == "math.add"
        local = {each.name: each.tools for each in gateway.sources().items if each.kind == "local"}
        assert local["math"] >= 1
        me = gateway.me()
        assert (me.subject, me.roles, me.server.is_demo) == ("local", ["caller"], False)
        assert gateway.status() == {"is_healthy": True, "open_calls": 0, "approvals": 0}


def test_an_approval_is_answered_as_it_was_shown(served):
    approver = served.key("user:bob", "approver")
    with Client(served.url) as caller, Client(served.url, key=approver) as gateway:
        started = caller.start("mail.send", {"to": "ada"})
        with pytest.raises(TimeoutError, match=started.invocation_id):
            caller.wait(started.invocation_id, timeout_s=0)
        (approval,) = [each for each in gateway.approvals().items if each.invocation_id == started.invocation_id]
        assert json_value(approval.input) == {"to": "ada"}
        with pytest.raises(GatewayError) as refused:
            gateway.decide(approval, "allow", input={"to": 3})
        assert (refused.value.status, refused.value.pointer, refused.value.reason) == (422, "/input/to", "bad_input")
        assert gateway.decide(approval, "allow", input={"to": "grace"}).by == "user:bob"
        assert caller.wait(started.invocation_id).text == "sent to grace"
        with pytest.raises(GatewayError) as forbidden:
            caller.approvals()
        assert forbidden.value.status == 403


def test_stored_bytes_of_a_result_are_fetched_whole_and_in_part(served):
    with Client(served.url) as gateway:
        detail = gateway.get(gateway.call("files.scan").invocation_id)
        (stored,) = [each for each in detail.payloads if each.media_type == "image/png"]
        assert gateway.payload(detail.invocation_id, stored.digest) == SCAN
        assert gateway.payload(detail.invocation_id, stored.digest, start=8, length=4) == SCAN[8:12]
        assert gateway.payload(detail.invocation_id, stored.digest, start=8) == SCAN[8:]
        with pytest.raises(GatewayError, match="has no stored output"):
            gateway.payload(detail.invocation_id, "sha256:0")
        for start, length in ((0, 0), (-5, 3)):
            with pytest.raises(ValueError, match="no such range"):
                gateway.payload(detail.invocation_id, stored.digest, start=start, length=length)


def test_all_pages_are_read(served, monkeypatch):
    monkeypatch.setattr(client, "MAX_PAGE", 2)
    with Client(served.url, key=served.key("agent:pages", "caller")) as gateway:
        made = [gateway.call("math.add", {"a": number}).invocation_id for number in range(5)]
        assert [each.invocation_id for each in gateway.iter_calls(tool="math.*")] == made[::-1]
        assert {each.name for each in gateway.iter_tools()} >= {"math.add", "mail.send", "files.scan"}
        waiting = [gateway.start("mail.send", {"to": name}) for name in "abc"]
        with Client(served.url, key=served.key("user:bob", "approver")) as approver:
            asked = [each.invocation_id for each in approver.iter_approvals(tool="mail.*")]
        assert [each for each in asked if each in {one.invocation_id for one in waiting}] == [
            each.invocation_id for each in waiting
        ]
        assert all(gateway.cancel(each.invocation_id).accepted for each in waiting)


def test_a_reply_is_printed_with_its_json(served):
    with Client(served.url) as gateway:
        shown = repr(gateway.start("math.add", {"a": 41}, wait_s=BOUND_S))
    assert "msgspec" not in shown
    assert '"structured_content":42' in shown


def test_a_call_that_no_server_received_was_not_made(free_port):
    with (
        Client(f"http://127.0.0.1:{free_port()}", retries=1) as gateway,
        pytest.raises(GatewayError, match=r"did not answer.*; the call was not made") as unsent,
    ):
        gateway.call("a.b")
    assert "may run" not in str(unsent.value)


def test_a_waiting_call_is_canceled(served):
    with Client(served.url) as gateway:
        started = gateway.start("mail.send", {"to": "eve"})
        assert gateway.cancel(started.invocation_id).accepted
        assert gateway.wait(started.invocation_id).status == "canceled"


async def test_events_are_followed_and_continued_after_a_position(served):
    async with asyncio.timeout(BOUND_S), AsyncClient(served.url, key=served.key("user:aud", "auditor")) as gateway:
        events = gateway.events()
        ready = await anext(events)
        assert ready.event == "ready"
        async with AsyncClient(served.url) as caller:
            made = await caller.call("math.add", {"a": 5})
        seen = await anext(each async for each in events if each.data.get("invocation_id") == made.invocation_id)
        await events.aclose()
        later = gateway.events(after=ready.position)
        again = await anext(each async for each in later if each.data.get("invocation_id") == made.invocation_id)
        assert again.position <= seen.position
        await later.aclose()


def test_events_are_refused_without_valid_credentials(served):
    with Client(served.url, key="atk_unknown_key") as gateway, pytest.raises(GatewayError) as refused:
        next(iter(gateway.events()))
    assert refused.value.status == 401


ME = {
    "subject": "local",
    "tenant": "default",
    "roles": [],
    "kind": "local",
    "key_id": None,
    "expires_at": None,
    "server": {
        "version": "1",
        "is_demo": False,
        "is_durable": False,
        "approves_own_calls": False,
        "url": "",
        "mcp_url": None,
    },
}
BUSY = (503, {"detail": "draining"})
STATE = {
    "invocation_id": "inv_1",
    "status": "running",
    "tool": "a.b",
    "approval_id": None,
    "expires_at": None,
    "notice": None,
}


@pytest.mark.usefixtures("quick")
def test_a_request_that_changes_nothing_is_repeated():
    with answering(None, BUSY, (200, ME)) as (url, seen), Client(url) as gateway:
        assert gateway.me().subject == "local"
        assert len(seen) == 3


@pytest.mark.usefixtures("quick")
def test_a_call_is_repeated_with_the_same_idempotency_key():
    with answering(BUSY, None, (202, {**STATE, "result": None})) as (url, seen), Client(url) as gateway:
        assert gateway.start("a.b").status == "running"
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][1]


def test_a_call_that_waits_for_an_approval_outlasts_a_restart_of_the_server(serve_app, free_port, tmp_path):
    file, port = tmp_path / "calls.db", free_port()
    with ThreadPoolExecutor() as threads, Client(f"http://127.0.0.1:{port}") as caller:
        with Served(serve_app, file, port=port) as served, Client(served.url, key=served.key("bob", "approver")) as bob:
            made = threads.submit(caller.call, "mail.send", {"to": "ada"})
            asked = next(found for found in iter(lambda: bob.approvals().items, None) if found)
        with Served(serve_app, file, port=port) as served, Client(served.url, key=served.key("bob", "approver")) as bob:
            assert [each.approval_id for each in bob.approvals().items] == [asked[0].approval_id]
            bob.decide(asked[0], "allow")
            assert made.result(BOUND_S).text == "sent to ada"
            assert len(caller.calls().items) == 1


@pytest.mark.usefixtures("quick")
def test_the_error_of_a_lost_call_has_what_continues_it():
    running = (202, {**STATE, "result": None})
    with answering(None, None, running, None, None) as (url, seen), Client(url, retries=1) as gateway:
        with pytest.raises(GatewayError, match="idempotency key") as unknown:
            gateway.call("a.b")
        assert (unknown.value.invocation_id, unknown.value.idempotency_key) == (None, seen[1][1])
        with pytest.raises(GatewayError, match="wait for 'inv_1'") as known:
            gateway.call("a.b", idempotency_key="mine")
        assert (known.value.invocation_id, known.value.idempotency_key) == ("inv_1", "mine")
        assert len(seen) == 5


def test_a_call_is_not_repeated_after_its_timeout():
    with answering(None) as (url, _), Client(url) as gateway, pytest.raises(GatewayError, match="did not answer"):
        gateway.call("a.b", timeout_s=0)


def test_a_batch_waits_for_its_approvals(served):
    calls = [{"tool": "mail.send", "arguments": {"to": "eve"}}, {"tool": "math.add", "arguments": {"a": 1}}]
    calls[1]["depends_on"] = [0]
    with Client(served.url) as caller, Client(served.url, key=served.key("user:bob", "approver")) as gateway:
        started = caller.start_batch(calls)
        assert [(each.tool, result_of(each)) for each in started] == [("mail.send", None), ("math.add", None)]
        with pytest.raises(TimeoutError):
            caller.wait(started[1].invocation_id, timeout_s=0)
        (approval,) = [each for each in gateway.approvals().items if each.invocation_id == started[0].invocation_id]
        gateway.decide(approval, "allow")
        assert [caller.wait(each.invocation_id).text for each in started] == ["sent to eve", "2"]


@pytest.mark.usefixtures("quick")
def test_a_batch_is_sent_once():
    with answering(BUSY, BUSY) as (url, seen), Client(url) as gateway:
        with pytest.raises(GatewayError) as failed:
            gateway.batch([{"tool": "a.b"}])
        assert (failed.value.status, failed.value.detail, len(seen)) == (503, "draining", 1)


@pytest.mark.usefixtures("quick")
def test_requests_are_not_repeated_for_ever_and_not_after_a_refusal():
    with answering(BUSY, BUSY, BUSY, (400, {"detail": "bad", "pointer": "?limit"})) as (url, seen):
        with Client(url, retries=2) as gateway:
            with pytest.raises(GatewayError, match="draining"):
                gateway.me()
            with pytest.raises(GatewayError) as refused:
                gateway.me()
        assert (refused.value.status, refused.value.pointer, len(seen)) == (400, "?limit", 4)


def test_an_address_without_a_server_is_named_with_its_remedy(free_port):
    with Client(f"http://127.0.0.1:{free_port()}", retries=0) as gateway, pytest.raises(GatewayError, match="runs"):
        gateway.me()
    with pytest.raises(ConfigError, match="not the address of a server"):
        Client("ftp://127.0.0.1")
