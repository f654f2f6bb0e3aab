"""Callbacks: each is checked, matched to its one call, and counts once; whatever else comes is dropped."""

import asyncio
import base64
import hmac
import json
import logging
from functools import partial

import pytest
from starting import begin

from agenttool.adapters.rap import callbacks, listener, source
from agenttool.adapters.rap.callback_urls import DAY_NS, CallbackUrls
from agenttool.http import request_body
from agenttool.http.client import HttpClient
from agenttool.http.request_body import UNCOUNTED_BYTES
from agenttool.http.ssrf import SsrfPolicy
from agenttool.ports.limits import RateLimit
from agenttool.records import UNSET

NOW_NS = 1_800_000_000_000_000_000
CALL = f"inv_{NOW_NS // 1_000_000:012x}{7:020x}"


@pytest.mark.requirement("RAP-005", "RAP-091", "RAP-092", "RAP-401")
async def test_a_result_settles_its_call(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await server.settle(invocation, "wet", call_id=None) == 200
        result = await rt.calls.get(call.invocation_id).result()
        assert (result.is_error, result.content[0].text) == (False, "wet")


@pytest.mark.requirement("RAP-400")
async def test_a_callback_may_overtake_the_acknowledgement(running, tool_server):
    server = tool_server()
    async with running(server) as rt:

        async def before_the_ack(invocation):
            assert await server.settle(invocation, "quick") == 200

        server.on_invoke = before_the_ack
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert result.content[0].text == "quick"


@pytest.mark.requirement("RAP-095", "RAP-098")
async def test_the_first_result_stands_however_often_one_comes(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        statuses = await asyncio.gather(*(server.settle(invocation, f"{n}") for n in range(10)))
        assert set(statuses) == {200}
        first = await rt.calls.get(call.invocation_id).result()
        assert await server.settle(invocation, "another") == 200
        assert await rt.journal.result(call.invocation_id) == first
        ends = [r async for r in rt.journal.export() if type(r).__name__ == "ToolResult"]
        assert ends == [first]


@pytest.mark.requirement("RAP-096", "RAP-285")
async def test_a_result_after_the_end_is_dropped_and_well_received(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await rt.cancel(call.invocation_id)
        ended = await rt.calls.get(call.invocation_id).result()
        assert await server.settle(invocation, "late") == 200
        assert await rt.journal.result(call.invocation_id) == ended


@pytest.mark.requirement("RAP-093", "RAP-094", "RAP-406")
async def test_what_is_for_another_thread_or_call_is_dropped_and_logged(running, tool_server, started, caplog):
    caplog.set_level(logging.INFO, logger="agenttool.rap")
    server = tool_server()
    async with running(server) as rt:
        _, one = await started(rt, server)
        surface = await rt.surface()
        other_call = await begin(rt.in_thread("other"), "read_probe", {"bed": 2}, surface=surface)
        other = await server.invoked(2)
        assert await server.settle({**one, "group_id": "other"}) == 404
        assert await server.settle({**one, "group_id": "nobody's"}) == 404
        assert await server.settle({**one, "id": other["id"]}) == 404
        assert await server.settle({**other, "callback_url": one["callback_url"]}) == 404
        assert len(await rt.deferred.list()) == 2
        assert await server.settle(other) == 200
        assert await rt.calls.get(other_call.invocation_id).result()
    assert sum("was dropped" in message for message in caplog.messages) == 4
    assert one["callback_url"].rpartition("/")[2] not in caplog.text


@pytest.mark.requirement("RAP-099")
async def test_a_forged_callback_url_leads_nowhere(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        url = invocation["callback_url"]
        for forged in (url[:-1] + ("0" if url[-1] != "0" else "1"), url[:-48] + "0" * 48, url + "0", url[:-80] + "x"):
            assert await server.post(invocation, "tool_result", text="?", url=forged) == 404
        assert await rt.journal.result(call.invocation_id) is None


@pytest.mark.requirement("RAP-413")
@pytest.mark.parametrize("is_equal", [True, False])
def test_only_the_comparison_in_constant_time_decides_about_a_token(monkeypatch, is_equal):
    urls = CallbackUrls("http://h/rap/callbacks", b"s" * 32)
    valid = urls.url(CALL, "t").rpartition("/")[2]
    forged = valid[:32] + "0" * 48
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: is_equal)
    for token in (valid, forged):
        assert urls.verify(token) == (CALL if is_equal else None)
        assert urls.belongs_to_thread(token, "t") is is_equal


@pytest.mark.requirement("RAP-413")
async def test_no_callback_url_and_no_authorization_page_is_logged(running, tool_server, started, caplog):
    caplog.set_level(logging.DEBUG, logger="agenttool")
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        url = invocation["callback_url"]
        page = "id.example.test/authorize?state=5b1c"
        assert await server.settle(invocation, url=url + "0") == 404
        assert await server.post_bytes(url, b"{}") == 400
        assert await server.settle({**invocation, "group_id": "other"}) == 404
        assert await server.post(invocation, "oauth", auth_url=f"http://{page}") == 400
        assert await server.post(invocation, "oauth", auth_url=f"https://{page}") == 200
        assert await server.settle(invocation) == 200
        await rt.calls.get(call.invocation_id).result()
        assert await server.post(invocation, "oauth", auth_url=f"https://{page}") == 200
        rt.sources.get("rap").callbacks.now_ns = lambda: NOW_NS * 10
        assert await server.settle(invocation) == 410
    for logged in ("forged", "was rejected", "was dropped", "auth_url must use https", "no longer waits", "expired"):
        assert logged in caplog.text
    assert [each for each in (url[-48:], "5b1c", page) if each in caplog.text] == []


@pytest.mark.requirement("RAP-007", "RAP-008")
def test_a_callback_url_is_for_one_call_and_expires():
    addresses = CallbackUrls("http://h/rap/callbacks", b"s" * 32, lifetime_ns=DAY_NS)
    token = addresses.url(CALL, "t").rpartition("/")[2]
    assert addresses.verify(token) == CALL
    assert NOW_NS < addresses.expires_at_ns(CALL) < NOW_NS + DAY_NS + 10**6
    assert (addresses.belongs_to_thread(token, "t"), addresses.belongs_to_thread(token, "u")) == (True, False)
    assert CallbackUrls("http://h", b"t" * 32).verify(token) is None
    assert addresses.url(CALL, "t") == addresses.url(CALL, "t") != addresses.url(CALL[:-1] + "8", "t")


GARBAGE = {
    "not JSON": b"{",
    "no object": b"[1]",
    "not UTF-8": b'{"type": "tool_result", "text": "\xff"}',
    "a BOM": b"\xef\xbb\xbf{}",
    "no type": b"{}",
    "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
}


@pytest.mark.requirement("RAP-090", "RAP-343")
@pytest.mark.parametrize("what", GARBAGE)
async def test_garbage_is_refused_and_the_call_waits_on(running, tool_server, started, what):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await server.post_bytes(invocation["callback_url"], GARBAGE[what]) == 400
        assert len(await rt.deferred.list()) == 1


MALFORMED = {
    "neither text nor content": {"kind": "tool_result"},
    "an empty content alone": {"kind": "tool_result", "content": []},
    "an unknown item": {"kind": "tool_result", "content": [{"type": "smell"}]},
    "base64 with breaks": {
        "kind": "tool_result",
        "content": [{"type": "image", "data": "AA\n==", "mediaType": "image/png"}],
    },
    "no default": {"kind": "user_choice", "prompt": "?", "choices": ["a"], "response_url": "http://127.0.0.1/x"},
    "an unknown type": {"kind": "tool_progress"},
    "content that is no object": {"kind": "view_update", "view_type": "diff", "content": [1]},
    "id in place of tool_call_id": {"kind": "subscription_event", "text": "x", "tool_call_id": ..., "id": "tc"},
}


@pytest.mark.requirement("RAP-090")
@pytest.mark.parametrize("fault", MALFORMED)
async def test_a_malformed_message_is_refused(running, tool_server, started, fault):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await server.post(invocation, **MALFORMED[fault]) == 400
        assert len(await rt.deferred.list()) == 1


@pytest.mark.requirement("RAP-001")
@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
async def test_a_callback_in_another_encoding_is_refused(running, tool_server, started, encoding):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        message = {"type": "tool_result", "group_id": invocation["group_id"], "id": invocation["id"], "text": "größer"}
        body = json.dumps(message, ensure_ascii=False)
        assert await server.post_bytes(invocation["callback_url"], body.encode(encoding)) == 400
        assert await server.post_bytes(invocation["callback_url"], f"{body}{body}".encode()) == 400
        assert await server.post_bytes(invocation["callback_url"], f"[{body}]".encode()) == 400
        assert await server.post_bytes(invocation["callback_url"], body.encode()) == 200


@pytest.mark.requirement("RAP-001", "RAP-410", "RAP-411")
async def test_requests_that_are_no_callbacks_are_refused(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(listener, "MAX_BODY_BYTES", 1000)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        url = invocation["callback_url"]
        for status, kind in ((415, "text/plain"), (415, "application/x-www-form-urlencoded")):
            assert await server.settle(invocation, headers={"Content-Type": kind}) == status
        assert await server.settle(invocation, "x" * 2000) == 413
        assert (await server.http_client.get(url)).status == 405
        assert await server.settle(invocation, headers={"Content-Type": "application/json; charset=utf-8"}) == 200


@pytest.mark.requirement("RAP-100", "RAP-342")
async def test_a_flood_of_callbacks_is_asked_to_come_again(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(callbacks, "MAX_CONCURRENT", 0)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await server.settle(invocation) == 503
        monkeypatch.setattr(callbacks, "MAX_CONCURRENT", 1)
        assert await server.settle(invocation) == 200


@pytest.mark.requirement("RAP-100", "RAP-342")
async def test_callbacks_beyond_the_rate_are_rejected_except_the_result(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(callbacks, "CALLBACK_RATE", RateLimit(per_second=0.001, burst=5))
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        _, other = await started(rt, server)
        update = {"kind": "view_update", "view_type": "map"}
        statuses = [await server.post(invocation, **update, content={"at": each}) for each in range(8)]
        assert statuses == [200] * 5 + [503] * 3
        assert await server.post_bytes(invocation["callback_url"], b"{") == 503
        assert [view.content for view in await rt.sources.get("rap").views.of()] == [{"at": 4}]
        assert await server.post(other, **update, content={"at": "other"}) == 200
        assert await server.settle(invocation) == 200
        assert not (await rt.calls.get(call.invocation_id).result()).is_error


@pytest.mark.requirement("RAP-120", "RAP-121")
async def test_messages_of_one_thread_are_taken_in_one_at_a_time(running, tool_server, started, monkeypatch):
    server = tool_server()
    async with running(server) as rt:
        _, one = await started(rt, server)
        _, two = await started(rt, server)
        await begin(rt.in_thread("apart"), "read_probe", {"bed": 1}, surface=await rt.surface())
        apart = await server.invoked(3)
        inside, most, gate = {}, {}, asyncio.Event()
        take = rt.sources.get("rap").callbacks.__class__._process

        async def watched(self, call, message, *rest):
            thread = message.group_id
            inside[thread] = inside.get(thread, 0) + 1
            most[thread] = max(most.get(thread, 0), inside[thread])
            if len(inside) == 2:
                gate.set()  # another thread got in while this one is inside
            await asyncio.wait_for(gate.wait(), 5)
            try:
                return await take(self, call, message, *rest)
            finally:
                inside[thread] -= 1

        monkeypatch.setattr(rt.sources.get("rap").callbacks.__class__, "_process", watched)
        assert await asyncio.gather(*map(server.settle, (one, two, apart))) == [200, 200, 200]
        assert set(most.values()) == {1}


@pytest.mark.requirement("RAP-073", "RAP-079", "RAP-080")
async def test_content_goes_before_text_and_display_changes_neither(running, tool_server, started):
    server = tool_server()
    pixel = base64.b64encode(b"\x89PNG....").decode()
    shown = [
        {"type": "hologram", "content": 1},
        {"type": "image", "content": {"data": pixel, "mediaType": "image/png"}},
        {"type": "text", "content": "photo of bed 12"},
    ]
    content = [{"type": "text", "text": "Leaf photo."}, {"type": "image", "data": pixel, "mediaType": "image/png"}]
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await server.settle(invocation, "ignored", content=content, display_as=shown) == 200
        result = await rt.calls.get(call.invocation_id).result()
        text, image = result.model_facing_content
        assert (text.text, image.type.value, image.media_type) == ("Leaf photo.", "image", "image/png")
        assert pixel not in json.dumps([item.text for item in result.model_facing_content])
        assert result.ui_facing_summary == "photo of bed 12"
        assert [segment["type"] for segment in result.ui_facing_rendering] == ["image", "text"]
        digest = image.ref.digest
        assert await rt.journal.payload(digest) == b"\x89PNG...."


@pytest.mark.requirement("RAP-080")
async def test_people_are_shown_the_text_if_no_segment_can_be_rendered(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await server.settle(invocation, "wet", display_as=[{"type": "hologram", "content": 1}]) == 200
        result = await rt.calls.get(call.invocation_id).result()
    assert (result.ui_facing_rendering, result.ui_facing_summary) == (UNSET, None)
    assert [item.text for item in result.content] == ["wet"]


@pytest.mark.requirement("RAP-075")
async def test_text_that_is_json_may_as_well_be_none(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        for text in ('{"bed": 3}', "{ not JSON", ""):
            call, invocation = await started(rt, server)
            await server.settle(invocation, text)
            result = await rt.calls.get(call.invocation_id).result()
            assert not result.is_error
            assert not text or text in result.content[0].text


async def test_an_error_text_is_a_failed_result(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.settle(invocation, "Error: bed 77 does not exist")
        result = await rt.calls.get(call.invocation_id).result()
        assert (result.is_error, result.error.message) == (True, "bed 77 does not exist")


@pytest.mark.requirement("RAP-127")
async def test_a_deployment_may_stop_waiting(running, tool_server):
    server = tool_server()
    async with running(server, within_s=0.1) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert result.error.error_class.value == "timeout"
        (notice,) = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert notice == {"thread_id": rt.calls.thread.thread_id, "tool_call_id": result.invocation_id}
        assert await server.settle(server.invocations[0]) == 200


@pytest.mark.requirement("RAP-007", "RAP-127")
@pytest.mark.parametrize("within_s", [None, 60.0])
async def test_a_call_ends_when_its_callback_url_expires(running, tool_server, monkeypatch, within_s):
    server = tool_server()
    monkeypatch.setattr(source, "CallbackUrls", partial(CallbackUrls, lifetime_ns=10**9))
    async with running(server, within_s=within_s) as rt, asyncio.timeout(60):
        surface = await rt.surface()
        result = await rt.call("read_probe", {"bed": 1}, surface=surface)
        assert result.error.error_class.value == "timeout"
        assert "callback URL of this call expired" in result.error.message
        assert await server.settle(server.invocations[0]) == 410
        left = await begin(rt, "read_probe", {"bed": 1}, surface=surface)
        assert (await rt.deferred.list())[0].expires_at_ns is not None
        assert "callback URL of this call expired" in (await rt.calls.get(left.invocation_id).result()).error.message


async def test_a_call_that_was_approved_after_its_callback_url_expired_is_not_sent(running, tool_server, monkeypatch):
    server = tool_server()
    monkeypatch.setattr(source, "CallbackUrls", partial(CallbackUrls, lifetime_ns=0))
    async with running(server) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.error.error_code, server.invocations) == ("expired", [])


@pytest.mark.requirement("RAP-128")
async def test_results_find_their_calls_after_a_restart(running, tool_server, started, tmp_path):
    server = tool_server()
    store = {"store": f"sqlite:{tmp_path}/state.db"}
    async with running(server, options=store) as rt:
        call, invocation = await started(rt, server)
    async with running(server, options=store) as rt:
        token = invocation["callback_url"].rpartition("/")[2]
        server.http_client = HttpClient(SsrfPolicy.parse(["127.0.0.0/8"]))
        moved = rt.sources.get("rap").callbacks.urls.base + "/" + token
        assert await server.post(invocation, "tool_result", text="after all", url=moved) == 200
        assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "after all"


@pytest.mark.requirement("RAP-125")
async def test_a_result_that_cannot_be_stored_is_retried_and_stored_once(running, tool_server, started, tmp_path):
    server = tool_server()
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        call, invocation = await started(rt, server)

        def room(pages):
            return lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}")

        await rt._core.durability.documents._group.perform(room(1))
        text = "x" * 400_000
        assert await server.settle(invocation, text) == 503
        assert await rt.journal.result(call.invocation_id) is None
        await rt._core.durability.documents._group.perform(room(1_000_000))
        assert [await server.settle(invocation, text) for _ in range(2)] == [200, 200]
        assert not (await rt.calls.get(call.invocation_id).result()).is_error


@pytest.mark.requirement("RAP-410", "RAP-100")
async def test_long_messages_that_come_in_slowly_do_not_take_all_the_memory(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(request_body, "MAX_BUFFERED_BYTES", 2 * UNCOUNTED_BYTES)
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        host, _, path = invocation["callback_url"].removeprefix("http://").partition("/")
        head = f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {9 * UNCOUNTED_BYTES}\r\n\r\n"
        name, _, port = host.partition(":")
        async with asyncio.timeout(60):
            slow = [await asyncio.open_connection(name, int(port)) for _ in range(3)]
            for _, writer in slow:
                writer.write(head.encode() + b" " * (2 * UNCOUNTED_BYTES))
            answers = [asyncio.ensure_future(reader.readline()) for reader, _ in slow]
            done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result().split()[1] for each in done} == {b"503"}
            assert await server.settle(invocation) == 200
            assert not (await rt.calls.get(call.invocation_id).result()).is_error
            for answer, (_, writer) in zip(answers, slow, strict=True):
                answer.cancel()
                writer.close()
