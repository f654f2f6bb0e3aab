"""The HTTP client: requests, pooled connections and responses within limits."""

import asyncio
import socket
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import RecordError
from agenttool.http import client as http_client
from agenttool.http.client import (
    MAX_OVERHEAD_BYTES,
    HttpClient,
    HttpConnection,
    HttpReply,
    RequestOptions,
    encode_request,
)
from agenttool.http.limiter import ConcurrencyLimits
from agenttool.http.ssrf import Resolver, SsrfPolicy

ONLY_LOOPBACK = SsrfPolicy.parse(["127.0.0.1"])


class ScriptedHost:
    """A real listener on this machine that answers each request with the same bytes."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.writers = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader, writer):
        self.writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        self.requests.append((head.decode(), await reader.readexactly(length)))
        if self.answer is not None:
            writer.write(self.answer)
            await writer.drain()
            writer.close()


def answer(status, *headers, body=b""):
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def carried(host_answer, *, reach=ONLY_LOOPBACK, path="/in?k=w%208", host="127.0.0.1", **options):
    async def carry():
        async with ScriptedHost(host_answer) as listener:
            sender = HttpClient(reach, **options)
            reply = await sender.post(f"http://{host}:{listener.port}{path}", b'{"a":1}', {"X-Key": "v"})
            await sender.close()
            return reply, listener.requests

    return asyncio.run(carry())


def test_what_stands_behind_a_semicolon_is_part_of_the_url():
    _, requests = carried(answer(200), path="/in;v=1/9d3e;k=w8?x=1")
    assert requests[0][0].startswith("POST /in;v=1/9d3e;k=w8?x=1 HTTP/1.1")


@pytest.mark.requirement("RAP-003", "RAP-006")
def test_a_message_is_posted_as_json_to_exactly_that_url():
    reply, [(head, body)] = carried(answer(200))
    assert head.startswith("POST /in?k=w%208 HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\n" in head
    assert "X-Key: v\r\n" in head
    assert (body, reply.is_accepted, reply.is_retryable) == (b'{"a":1}', True, False)


@pytest.mark.parametrize(
    ("status", "worth"),
    [(200, False), (204, False), (302, False), (404, False), (413, False), (500, True), (503, True)],
)
def test_only_the_other_sides_faults_are_worth_another_try(status, worth):
    reply, _ = carried(answer(status))
    assert (reply.status, reply.is_accepted, reply.is_retryable) == (status, status == 200, worth)


@pytest.mark.requirement("RAP-409")
def test_a_redirect_is_not_followed():
    reply, requests = carried(answer(307, "Location: /elsewhere"))
    assert (reply.status, len(requests)) == (307, 1)


def test_an_unresponsive_server_times_out():
    reply, _ = carried(None, timeout_s=0.2)
    assert (reply.status, reply.fault, reply.is_retryable) == (None, "no answer within 0.2 seconds", True)


@pytest.mark.parametrize("garbage", [b"", b"not http at all\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\n1"])
def test_a_broken_answer_is_a_failed_connection(garbage):
    reply, _ = carried(garbage)
    assert (reply.status, reply.is_retryable) == (None, True)


def test_a_url_that_leads_inside_is_never_contacted():
    reply, requests = carried(answer(200), reach=SsrfPolicy())
    assert (reply.is_refused, reply.is_retryable, requests) == (True, False, [])


def test_a_name_that_leads_inside_is_never_contacted():
    reply, requests = carried(answer(200), host="localhost", reach=SsrfPolicy())
    assert (reply.is_refused, requests) == (True, [])


def test_a_name_that_changes_its_mind_is_connected_where_it_was_judged(monkeypatch):
    async def judged_once():
        async with ScriptedHost(answer(200)) as listener:
            answers = iter(["127.0.0.1", "127.0.0.2"])

            def getaddrinfo(host, port, **options):
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

            monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
            sender = HttpClient(ONLY_LOOPBACK)
            url = f"http://rebinding.test:{listener.port}/"
            replies = [await sender.post(url, b"{}"), await sender.post(url, b"{}")]
            await sender.close()
            return replies, len(listener.requests)

    [first, second], contacted = asyncio.run(judged_once())
    assert (first.is_accepted, second.is_refused, contacted) == (True, True, 1)


def test_an_endless_document_is_given_up():
    async def fetch():
        async with ScriptedHost(answer(200, body=b"x" * 5000)) as listener:
            sender = HttpClient(ONLY_LOOPBACK)
            url = f"http://127.0.0.1:{listener.port}/"
            replies = await sender.get(url, max_bytes=4999), await sender.get(url, max_bytes=5000)
            await sender.close()
            return replies

    long, fits = asyncio.run(fetch())
    assert (long.is_refused, long.fault) == (True, "the response has more than 4999 bytes")
    assert fits.body == b"x" * 5000


@pytest.mark.parametrize(
    ("header", "least_s", "most_s"),
    [
        ("7", 7, 7),
        ("999999999999", 3600, 3600),
        ("Wed, 01 Jan 2200 00:00:00 GMT", 3600, 3600),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0.5),
        ("-3", 0, 0.5),
        ("soon", 0, 0.5),
        ("", 0, 0.5),
        ("90\r\nRetry-After: 7", 90, 90),
        ("7\r\nRetry-After: 999999", 3600, 3600),
    ],
)
def test_a_delay_is_never_shorter_than_the_retry_after_of_the_reply(header, least_s, most_s):
    reply, _ = carried(answer(503, f"Retry-After: {header}"))
    assert least_s <= reply.delay_s(1, first_s=0.5, max_s=30.0) <= most_s


def test_a_request_that_never_left_is_distinguished_from_one_without_a_reply():
    refused, _ = carried(answer(200), reach=SsrfPolicy.parse(["127.0.0.9"]), host="127.0.0.9")
    silent, requests = carried(b"")
    assert (refused.is_retryable, refused.is_sent) == (True, False)
    assert (silent.is_retryable, silent.is_sent, len(requests)) == (True, True, 1)


HERE = SsrfPolicy.parse(["127.0.0.0/8"])


def shares(most):
    return ConcurrencyLimits(total=most, per_owner=most, per_key=most, timeout_s=10, queue_timeout_s=10)


class Host:
    """Answers each request on a connection, so many times; counts connections, and requests at work."""

    def __init__(self, answers=1000):
        self.answers = answers
        self.connections = self.at_work = self.most_at_work = 0
        self.gate, self.news = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.url = ""

    async def until(self, count):
        """Wait until so many requests are at work."""
        while self.at_work < count:
            self.news.clear()
            await self.news.wait()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            for _ in range(self.answers):
                await reader.readuntil(b"\r\n\r\n")
                self.at_work += 1
                self.most_at_work = max(self.most_at_work, self.at_work)
                self.news.set()
                await self.gate.wait()
                self.at_work -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def hosted(*hosts):
    servers = [await asyncio.start_server(host.serve, "127.0.0.1", 0) for host in hosts]
    for host, server in zip(hosts, servers, strict=True):
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield hosts
    for server in servers:
        server.close()


@pytest.fixture
def sender():
    @asynccontextmanager
    async def sender(most=100):
        made = HttpClient(HERE, limits=shares(most))
        yield made
        await made.close()
        await asyncio.sleep(0.02)  # the other side notices it

    return sender


async def test_requests_one_after_the_other_share_a_connection(sender):
    async with hosted(Host()) as (host,), sender() as carrying:
        assert [(await carrying.get(host.url)).status for _ in range(5)] == [200] * 5
        assert host.connections == 1


async def test_a_connection_that_the_other_side_closed_is_replaced(sender):
    async with hosted(Host(answers=1)) as (host,), sender() as carrying:
        for _ in range(3):
            assert (await carrying.get(host.url)).status == 200
            await asyncio.sleep(0.02)  # the end of the connection arrives
        assert host.connections == 3


async def test_no_more_are_at_work_than_allowed_and_all_of_them_rest(sender):
    async with hosted(Host()) as (host,), sender(most=4) as carrying:
        host.gate.clear()
        asking = [asyncio.ensure_future(carrying.get(host.url)) for _ in range(12)]
        await host.until(4)
        host.gate.set()
        assert {(await each).status for each in asking} == {200}
        assert host.most_at_work == 4
        assert host.connections == len(carrying._idle) == 4


async def test_a_connection_that_has_rested_for_long_is_closed(monkeypatch):
    monkeypatch.setattr(http_client, "IDLE_S", 0.05)
    async with hosted(Host()) as (host,):
        connections = HttpClient(HERE, limits=shares(4))
        assert (await connections.get(host.url)).status == 200
        async with asyncio.timeout(60):
            while connections._idle:  # noqa: ASYNC110 -- it has no event
                await asyncio.sleep(0.02)
        assert (await connections.get(host.url)).status == 200
        assert host.connections == 2
        await connections.close()
        await asyncio.sleep(0.02)  # the other side notices it


async def test_a_connection_serves_only_the_place_it_leads_to(sender):
    async with hosted(Host(), Host()) as (one, other), sender() as carrying:
        for host in (one, other, one, other):
            assert (await carrying.get(host.url)).status == 200
        assert (one.connections, other.connections) == (1, 1)


async def test_a_request_that_is_given_up_leaves_no_connection_behind(sender):
    async with hosted(Host()) as (host,), sender() as carrying:
        host.gate.clear()
        asking = asyncio.ensure_future(carrying.get(host.url))
        await host.until(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not carrying._idle
        host.gate.set()
        assert (await carrying.get(host.url)).status == 200


async def test_every_address_of_a_name_is_tried(monkeypatch):
    async def addresses_of(_, host, caller):
        assert host == "twofold.test"
        return ["127.0.0.9", "127.0.0.1"]

    monkeypatch.setattr(Resolver, "addresses_of", addresses_of)
    async with hosted(Host()) as (host,):
        connections = HttpClient(HERE, limits=shares(4))
        assert (await connections.get(host.url.replace("127.0.0.1", "twofold.test"))).status == 200
        await connections.close()
        await asyncio.sleep(0.02)  # the other side notices it


class Fickle:
    """Answers the first request of a connection, and closes it when the second has come; keeps all it got."""

    def __init__(self):
        self.got = []
        self.url = ""

    async def serve(self, reader, writer):
        for number in range(2):
            try:
                self.got.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
            except asyncio.IncompleteReadError:
                break
            if number == 0:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()


async def test_a_request_on_a_closed_idle_connection_is_sent_on_a_new_one(sender):
    async with hosted(Fickle()) as (host,), sender() as carrying:
        replies = [await carrying.get(f"{host.url}{each}") for each in range(3)]
        assert [each.status for each in replies] == [200] * 3
        assert host.got == ["/0", "/1", "/1", "/2", "/2"]


async def test_a_single_use_request_is_not_sent_twice(sender):
    async with hosted(Fickle()) as (host,), sender() as carrying:
        options = RequestOptions(send_once=True)
        replies = [await carrying.get(f"{host.url}{each}", options=options) for each in range(2)]
        assert [each.status for each in replies] == [200, None]
        assert host.got == ["/0", "/1"]


async def test_a_failure_on_a_new_connection_is_not_retried(sender):
    got = []

    async def closes(reader, writer):
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(closes, "127.0.0.1", 0) as server, sender() as carrying:
        reply = await carrying.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert (reply.status, reply.is_retryable, len(got)) == (None, True, 1)


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\nok"
_, ASK = encode_request("GET", "http://h/", {}, None)


@asynccontextmanager
async def connected(answer, *, in_pieces=False, closes=False):
    """Connect to a host that gives the same bytes whenever something is asked."""

    async def serve(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                for piece in [answer[place : place + 1] for place in range(len(answer))] if in_pieces else [answer]:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    place = server.sockets[0].getsockname()[:2]
    transport, connection = await asyncio.get_running_loop().create_connection(HttpConnection, *place)
    try:
        async with asyncio.timeout(60):
            yield connection
    finally:
        transport.abort()
        server.close()
        await asyncio.sleep(0.01)  # both ends notice it


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + PLAIN])
async def test_an_answer_is_whole_and_another_may_follow(answer, in_pieces):
    async with connected(answer, in_pieces=in_pieces) as connection:
        for _ in range(3):
            assert await connection.exchange(ASK, 10) == HttpReply(status=200, body=b"ok")
            assert connection.is_open


async def test_an_answer_without_a_length_ends_with_its_connection():
    async with connected(UNTIL_THE_END, closes=True) as connection:
        assert await connection.exchange(ASK, 10) == HttpReply(status=200, body=b"ok")
        assert not connection.is_open


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        PLAIN + PLAIN,
        PLAIN + b"?",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_nothing_follows_where_the_other_side_says_so_or_says_too_much(answer):
    async with connected(answer) as connection:
        assert await connection.exchange(ASK, 10) == HttpReply(status=200, body=b"ok")
        await asyncio.sleep(0)
        assert not connection.is_open
        with pytest.raises(ConnectionError):
            await connection.exchange(ASK, 10)


async def test_of_a_body_that_is_too_long_no_more_is_taken():
    async with connected(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 5000) as connection:
        assert await connection.exchange(ASK, 10) == HttpReply(status=200, is_truncated=True)
        assert not connection.is_open


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-host\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MAX_OVERHEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2 * MAX_OVERHEAD_BYTES,
        b"HTTP/1.1 103 Early\r\n\r\n" * MAX_OVERHEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"e" * 2 * MAX_OVERHEAD_BYTES,
        b"",
    ],
)
async def test_what_is_no_answer_fails_and_is_not_waited_for(answer):
    async with connected(answer, closes=True) as connection:
        with pytest.raises(ConnectionError):
            await connection.exchange(ASK, 10)
        assert not connection.is_open


async def test_unexpected_bytes_close_the_connection():
    loop = asyncio.get_running_loop()
    received = loop.create_future()

    async def push(reader, writer):
        writer.write(PLAIN)
        received.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(push, "127.0.0.1", 0) as server:
        _, connection = await loop.create_connection(HttpConnection, *server.sockets[0].getsockname()[:2])
        async with asyncio.timeout(60):
            assert await received == b""
        assert not connection.is_open


@pytest.mark.parametrize("headers", [{"A": "b\r\nC: d"}, {"A\r\nC": "d"}, {"A": "b\x00"}, {"A b": "c"}, {"A": "ü"}])
def test_a_header_cannot_bring_another_along(headers):
    with pytest.raises(RecordError):
        encode_request("POST", "http://h/", headers, b"")


PIECES = [
    *(b"HTTP/1.1 %d x\r\n" % status for status in (100, 101, 103, 200, 204, 304, 500, 999)),
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/2 200\r\n",
    *(b"Content-Length: %s\r\n" % length for length in (b"2", b"3", b"-1", b"+2", b"0x2", b"2, 2", b"9" * 30)),
    *(b"Transfer-Encoding: %s\r\n" % coding for coding in (b"chunked", b"gzip, chunked", b"x")),
    b" folded\r\n",
    b"X : y\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"\r\n",
    b"\n",
    b"ok",
    b"2\r\nok\r\n",
    b"0\r\n\r\n",
    b"f" * 20 + b"\r\n",
    b"\x00",
    b"A: " + b"b" * MAX_OVERHEAD_BYTES + b"\r\n",
    b"x" * 3000,
]


class Pipe(asyncio.Transport):
    """Takes a request, and can be closed; what comes back is up to the test."""

    is_closed = False

    def write(self, data):
        pass

    def abort(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    def get_write_buffer_size(self):
        return 0


async def received(answer, cuts, most, *, ends):
    """Give what a connection makes of an answer that comes in these pieces."""
    connection = HttpConnection()
    connection.connection_made(Pipe())
    asked = asyncio.ensure_future(connection.exchange(ASK, most))
    await asyncio.sleep(0)
    places = sorted({0, *(cut for cut in cuts if cut < len(answer)), len(answer)})
    for begin, end in pairwise(places):
        connection.data_received(answer[begin:end])
        await asyncio.sleep(0)
    if ends:
        connection.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    if not asked.done():
        asked.cancel()
        await asyncio.wait([asked])
        assert not connection.is_open
        return None
    return type(asked.exception()) if asked.exception() else asked.result()


@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=9)), max_size=9).map(b"".join),
    st.lists(st.integers(0, 300), max_size=8),
    st.sampled_from([0, 2, 100_000]),
    st.booleans(),
)
def test_whatever_comes_ends_alike_in_whatever_pieces_it_comes(answer, cuts, most, ends):
    whole = asyncio.run(received(answer, [], most, ends=ends))
    parts = asyncio.run(received(answer, cuts, most, ends=ends))
    assert whole is not None or not ends
    if isinstance(whole, HttpReply) and isinstance(parts, HttpReply):
        assert (whole.status, whole.body) == (parts.status, parts.body)
        assert whole.status >= 200
        assert len(whole.body) <= most
    else:
        assert (whole, parts) in ((None, None), (ConnectionError, ConnectionError))


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Expect", "TE", "Upgrade"]
)
def test_a_header_cannot_say_where_a_request_ends_or_goes(name):
    with pytest.raises(RecordError, match="leave it out"):
        encode_request("POST", "http://h/", {name: "1"}, b"")


def test_a_header_is_given_once():
    with pytest.raises(RecordError, match="twice"):
        encode_request("POST", "http://h/", {"Content-Type": "a/b", "content-type": "c/d"}, b"")
