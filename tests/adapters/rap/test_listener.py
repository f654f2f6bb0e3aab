"""The callback listener: ports that survive a restart, and limits on incomplete requests."""

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from agenttool import RapServer, Runtime
from agenttool.adapters.rap import listener
from agenttool.adapters.rap.callback_urls import PATH, CallbackUrls, is_served
from agenttool.adapters.rap.listener import CallbackApp, Listener, open_listener
from agenttool.durable import recovery
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.stores.memory import MemoryDocuments

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
SECRET = b"s" * 32
BOUND_S = 60


class Nobody:
    """Deals with no message, and knows where it is."""

    urls = None


@pytest.fixture
def app():
    return CallbackApp(Nobody())


async def listening(app, documents, secret=SECRET):
    listener, fault = await open_listener(app, documents, secret)
    app._callbacks.urls = app._callbacks.urls or CallbackUrls(listener.url + PATH, secret)
    listener.start()
    return listener, fault


@pytest.mark.requirement("RAP-025")
async def test_after_a_restart_callbacks_are_received_where_they_were_before(app):
    documents = MemoryDocuments()
    first, _ = await listening(app, documents)
    url = first.url
    await first.stop()
    second, fault = await listening(app, documents)
    assert (second.url, fault) == (url, None)
    await second.stop()


@pytest.mark.requirement("RAP-025")
async def test_processes_of_a_store_have_one_address_and_who_stands_by_takes_over(app, caplog, monkeypatch):
    monkeypatch.setattr(listener, "TAKEOVER_POLL_S", 0.01)
    documents = MemoryDocuments()
    first, _ = await listening(app, documents)
    url = first.url
    here = CallbackUrls(url + PATH, SECRET)
    heirs = [await listening(app, documents) for _ in range(2)]
    assert [(successor.url, fault) for successor, fault in heirs] == [(url, None)] * 2
    assert caplog.text == ""
    for gone in (first, heirs[0][0]):
        assert await is_served(here, 2.0)
        await gone.stop()
        async with asyncio.timeout(BOUND_S):
            while not await is_served(here, 2.0):  # noqa: ASYNC110 -- there is nothing to wait on
                await asyncio.sleep(0.01)
    await heirs[1][0].stop()
    again, _ = await listening(app, documents)
    assert again.url == url
    await again.stop()


async def test_two_that_listen_for_the_first_time_at_once_have_one_address(app):
    documents = MemoryDocuments()
    both = await asyncio.gather(*(listening(app, documents) for _ in range(2)))
    assert both[0][0].url == both[1][0].url
    for each, _ in both:
        await each.stop()


@pytest.mark.requirement("RAP-025")
@pytest.mark.parametrize("stranger", ["silent", "another store", "a relay"])
async def test_a_foreign_program_on_the_port_of_the_store_is_a_fault(app, caplog, monkeypatch, stranger):
    monkeypatch.setattr(listener, "_PROBE_TIMEOUT_S", 0.2)
    documents = MemoryDocuments()
    first, _ = await listening(app, documents)
    port = first.port
    await first.stop()
    if stranger == "silent":
        held = socket.create_server(("127.0.0.1", port))
    else:
        app._callbacks.urls = CallbackUrls(
            f"http://127.0.0.1:{port if stranger == 'another store' else 1}{PATH}",
            b"x" * 32 if stranger == "another store" else SECRET,
        )
        held = listener.Listener(app, ("127.0.0.1", port))
        held.start()
    second, fault = await listening(app, documents)
    assert second.port != port
    assert f"port {port} is in use by another program" in fault
    assert fault in caplog.text
    await second.stop()
    if stranger == "silent":
        held.close()
    else:
        await held.stop()


async def test_what_comes_to_a_forged_url_is_not_read():
    class Strict:
        def verify_token(self, token):
            raise HTTPException(404, "no such callback URL")

    async def receive():
        raise AssertionError("the message of a stranger was read")

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/rap/callbacks/forged", "headers": []}
    await CallbackApp(Strict())(scope, receive, send)
    assert sent[0]["status"] == 404


CALLER = """
import asyncio, sys
from agenttool import RapServer, Runtime
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

async def main(store, url):
    source = RapServer(name="s0", url=url, allow=("127.0.0.0/8",))
    rule = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
    async with Runtime.open(sources=[source], rules=[rule], store=store, lease_s=1.0) as rt:
        await rt.call("read_probe", {"bed": 3}, surface=await rt.surface())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def bequeathed(running, tmp_path, monkeypatch):
    """Give a runtime whose store has a call that its server took, when the process that made it was killed."""

    @asynccontextmanager
    async def bequeathed(server, attempts=5):
        monkeypatch.setattr(recovery, "RECOVER_EVERY_S", 0.1)
        store, first_one = f"sqlite:{tmp_path}/state.db", asyncio.Event()

        async def never(_):
            first_one.set()
            await asyncio.Event().wait()

        server.on_invoke = never
        nowhere = {"callback_url": "http://127.0.0.1:9"}
        async with running(server, options=nowhere):  # to be served; its runtime is not used
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", CALLER, store, server.url)
            async with asyncio.timeout(BOUND_S):
                await first_one.wait()
                server.on_invoke = None
                source = RapServer(name="s0", url=server.url, allow=("127.0.0.0/8",), attempts=attempts)
                async with Runtime.open(sources=[source], rules=ALL, store=store, lease_s=1.0) as rt:
                    child.kill()
                    await child.wait()
                    yield rt

    return bequeathed


@pytest.mark.slow
@pytest.mark.requirement("RAP-025")
async def test_a_call_is_sent_again_word_for_word_by_a_process_that_stood_by_when_its_own_was_killed(
    bequeathed, tool_server
):
    server = tool_server()
    async with bequeathed(server) as rt:
        again = await server.invoked(2)
        assert again == server.invocations[0]
        while await server.settle(again) != 200:  # noqa: ASYNC110 -- there is nothing to wait on
            await asyncio.sleep(0.05)
        assert (await rt.calls.get(again["id"]).result()).content[0].text == "done"


@pytest.mark.slow
async def test_a_call_that_may_not_arrive_twice_is_not_sent_again_after_a_crash(bequeathed, tool_server):
    server = tool_server()
    async with bequeathed(server, attempts=None) as rt:
        (taken,) = server.invocations
        result = await rt.calls.get(taken["id"]).result()
        assert (result.error.error_code, result.error.retry.safe) == ("unknown_after_crash", False)
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == taken["id"]
        assert server.invocations == [taken]


@pytest.mark.slow
@pytest.mark.requirement("RAP-031")
async def test_a_call_that_is_refused_when_it_is_sent_again_may_have_been_taken_before(bequeathed, tool_server):
    server = tool_server()
    async with bequeathed(server) as rt:
        server.statuses["/invoke"] = [403]
        (taken,) = server.invocations
        result = await rt.calls.get(taken["id"]).result()
        assert (result.error.error_code, result.error.retry.safe) == ("not_accepted", False)
        assert "may have taken effect" in result.model_facing_content[0].text
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == taken["id"]


POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"


async def echo(scope, receive, send):
    body = b""
    while scope["path"] == "/late":
        if (await receive())["type"] == "http.disconnect":
            return
    while scope["path"] != "/early":
        event = await receive()
        if event["type"] != "http.request":
            return
        body += event["body"]
        if not event.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def echo_server():
    listener = Listener(echo, ("127.0.0.1", 0))
    listener.start()
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writers.append(writer)
        return reader, writer

    try:
        async with asyncio.timeout(60):
            yield connect
    finally:
        for each in writers:
            each.close()
        await listener.stop()


async def is_hung_up(reader):
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@pytest.fixture
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(listener, "HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(listener, "REQUEST_TIMEOUT_S", 0.4)


@pytest.mark.usefixtures("_in_a_hurry")
@pytest.mark.parametrize("sent", [b"", b"P", POST[:-2], POST, POST + b"ab", POST.replace(b"/ ", b"/early ") + b"a"])
async def test_half_a_request_is_not_waited_for(sent):
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(sent)
        if b"early" in sent:
            await reader.readuntil(b"\r\n\r\n")
        assert await is_hung_up(reader)


@pytest.mark.usefixtures("_in_a_hurry")
@pytest.mark.parametrize(("begun", "drop"), [(b"GET / HTTP/1.1\r\nA: ", b"x"), (b"", b"\r\n"), (POST, b"")])
async def test_a_drop_now_and_then_buys_no_time(begun, drop):
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(POST + b"abcd")
        assert (await reader.readuntil(b"abcd")).startswith(b"HTTP/1.1 200")
        writer.write(begun)
        hung_up = asyncio.ensure_future(is_hung_up(reader))
        while not hung_up.done():
            writer.write(drop)
            await asyncio.sleep(0.01)
        assert await hung_up


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"what is this\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * listener.MAX_OVERHEAD_BYTES, 431),
        (b"GET / HTTP/1.1\r\n" + b"A: x\r\n" * 12_000, 431),
    ],
)
async def test_a_request_that_cannot_be_parsed_gets_a_problem_document(head, status):
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(head)
        async with asyncio.timeout(60):
            lines, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        assert lines.startswith(b"HTTP/1.1 %d " % status)
        assert b"application/problem+json" in lines
        assert json.loads(body)["status"] == status


async def test_a_head_without_end_is_not_read_to_its_end():
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 20 * listener.MAX_OVERHEAD_BYTES)
        with suppress(ConnectionResetError):
            assert (await reader.read(-1)).startswith(b"HTTP/1.1 431 ")


async def test_requests_are_served_one_after_the_other_in_pieces_and_at_once():
    async with echo_server() as connect:
        reader, writer = await connect()
        for pieces in ([POST + b"abcd"], [POST[:20], POST[20:] + b"ab", b"cd"], [POST + b"abcd" + POST + b"efgh"]):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.readuntil(b"abcd")
        await reader.readuntil(b"efgh")


async def test_those_who_say_nothing_make_room_for_those_who_do(monkeypatch):
    monkeypatch.setattr(listener.TimedHttpProtocol, "max_connections", 3)
    async with echo_server() as connect:
        first, _ = await connect()
        silent = [await connect() for _ in range(2)]
        reader, writer = await connect()
        assert await is_hung_up(first)
        writer.write(POST + b"abcd")
        await reader.readuntil(b"abcd")
        assert [reader.at_eof() for reader, _ in silent] == [False, False]


async def test_those_who_have_had_their_answer_make_room_for_newcomers(monkeypatch):
    monkeypatch.setattr(listener.TimedHttpProtocol, "max_connections", 2)
    async with echo_server() as connect:
        for _ in range(5):
            reader, writer = await connect()
            writer.write(POST + b"abcd")
            await reader.readuntil(b"abcd")


CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n"
TRAILER = b"T: " + b"x" * 1000 + b"\r\n"


@pytest.mark.parametrize(
    ("begun", "drop"),
    [
        (CHUNKED, TRAILER),
        (CHUNKED.replace(b"/ ", b"/early ", 1), TRAILER),
        (b"GET /late HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n", TRAILER),
        (b"GET / HTTP/1.1\r\nA: ", b"x" * 1000),
        (CHUNKED.partition(b"4\r\n")[0].replace(b"/ ", b"/early ", 1), b"1000\r\n" + b"y" * 4096 + b"\r\n"),
    ],
    ids=[
        "trailers",
        "trailers of what is answered",
        "a head behind another request",
        "one long header",
        "the body of what is answered",
    ],
)
async def test_what_is_sent_without_end_and_in_vain_is_not_read(begun, drop):
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(begun)
        hung_up = asyncio.ensure_future(is_hung_up(reader)) if b"early" not in begun else None
        sent = 0
        while not writer.is_closing() and sent < 4 * listener.MAX_DISCARDED_BYTES:
            writer.write(drop)
            sent += len(drop)
            await asyncio.sleep(0)
        assert writer.is_closing()
        if hung_up is not None:
            assert await hung_up


async def test_a_long_body_in_pieces_is_taken():
    async with echo_server() as connect:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(60):
                writer.write(b"1000\r\n" + b"y" * 4096 + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: 245760" in head
            await reader.readexactly(245_760)


HEAD = b"POST /a HTTP/1.1\r\nHost: h\r\n"
BEHIND = b"GET /behind HTTP/1.1\r\nHost: h\r\n\r\n"
AMBIGUOUS = {
    "a length and pieces": HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "pieces and a length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 38\r\n\r\n",
    "a length twice": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "a list of lengths": HEAD + b"Content-Length: 2, 2\r\n\r\nok",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\nok",
    "a length without end": HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nok",
    "a coding that looks like pieces": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "pieces twice": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "pieces before their time": b"POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before a colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded length": HEAD + b"Content-Length:\r\n 38\r\n\r\n",
    "a folded header": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "bare line feeds": b"POST /a HTTP/1.1\nHost: h\nContent-Length: 2\n\nok",
    "a bare return": HEAD + b"X: a\rContent-Length: 38\r\n\r\n",
    "a negative piece": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
    "a piece without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\nok\r\n",
    "no host": b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nok",
    "two hosts": HEAD + b"Host: i\r\nContent-Length: 2\r\n\r\nok",
    "a host with a path": b"GET /a HTTP/1.1\r\nHost: h/i\r\n\r\n",
    "a host with a fragment": b"GET /a HTTP/1.1\r\nHost: h#.i\r\n\r\n",
    "a host with a user": b"GET /a HTTP/1.1\r\nHost: i@h\r\n\r\n",
    "a list of hosts": b"GET /a HTTP/1.1\r\nHost: i, h\r\n\r\n",
    "a target of another host": b"GET http://i/a HTTP/1.1\r\nHost: h\r\n\r\n",
}


@pytest.mark.parametrize("what", AMBIGUOUS)
async def test_a_request_that_two_servers_may_take_in_two_ways_is_refused_with_all_behind_it(what):
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(AMBIGUOUS[what] + BEHIND)
        response = await reader.read()
        assert response.startswith(b"HTTP/1.1 400 ")
        assert response.count(b"HTTP/1.1") == 1


async def test_a_target_may_repeat_the_host():
    async with echo_server() as connect:
        reader, writer = await connect()
        writer.write(b"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


FOREIGN = {
    "a browser": {"Host": "127.0.0.1", "Sec-Fetch-Site": "cross-site"},
    "a page": {"Host": "127.0.0.1", "Origin": "https://evil.example"},
    "a page of the same origin": {"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}"},
    "a script of the same origin": {
        "Host": "127.0.0.1:{port}",
        "Origin": "http://127.0.0.1:{port}",
        "Sec-Fetch-Site": "same-origin",
    },
    "a rebound name": {"Host": "evil.example"},
}


@pytest.mark.parametrize("sent", FOREIGN.values(), ids=FOREIGN)
async def test_the_callback_port_of_a_runtime_that_is_not_served_answers_no_browser(
    running, tool_server, started, sent
):
    server = tool_server()
    async with running(server) as rt:
        _, call = await started(rt, server)
        url = urlsplit(call["callback_url"])
        result = json.dumps({"type": "tool_result", "id": call["id"], "group_id": call["group_id"], "text": "forged"})

        async def ask(method, path, headers, body=""):
            reader, writer = await asyncio.open_connection(url.hostname, url.port)
            lines = {**headers, "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).format(port=url.port)
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n{body}".encode())
            answer = await reader.read()
            writer.close()
            return int(answer.split()[1])

        assert await ask("GET", f"{PATH}/{'a' * 32}", sent) == 403
        assert await ask("POST", url.path, sent, result) == 403
        assert await ask("POST", url.path, {"Host": f"localhost:{url.port}"}, result) == 200


PIECES = [
    *(raw for raw in AMBIGUOUS.values()),
    BEHIND,
    HEAD,
    b"GET / HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"Content-Length: 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: close\r\n",
    b"\r\n",
    b"ok",
    b"2\r\nok\r\n",
    b"0\r\n\r\n",
    b"X: " + b"y" * 70_000 + b"\r\n",
]


@pytest.mark.soak
def test_whatever_comes_is_answered_or_hung_up_on_and_the_next_is_served(monkeypatch):
    monkeypatch.setattr(listener, "HEAD_TIMEOUT_S", 3600)  # a loaded machine may stop this process for a while

    async def served(connect, pieces):
        reader, writer = await connect()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            response = await reader.read()
        except ConnectionError:
            response = b""
        assert response == b"" or response.startswith(b"HTTP/1.1 ")
        reader, writer = await connect()
        writer.write(BEHIND)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()

    with asyncio.Runner() as runner:
        context = echo_server()
        connect = runner.run(context.__aenter__())

        @settings(max_examples=150, deadline=None)
        @given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=9)), max_size=7))
        def fuzz(pieces):
            runner.run(served(connect, pieces))

        try:
            fuzz()
        finally:
            runner.run(context.__aexit__(None, None, None))
