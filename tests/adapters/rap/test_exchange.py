"""An answer is read as HTTP says, whatever pieces it comes in; what is none ends its connection."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap.exchange import MOST_AROUND, Answer, Connection, spell
from agenttool.errors import RecordError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\nok"
ASK = spell("GET", "h", "/", {}, None)


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
    transport, connection = await asyncio.get_running_loop().create_connection(Connection, *place)
    try:
        async with asyncio.timeout(60):
            yield connection
    finally:
        transport.abort()
        server.close()
        await asyncio.sleep(0.01)  # both ends hear of it


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + PLAIN])
async def test_an_answer_is_whole_and_another_may_follow(answer, in_pieces):
    async with connected(answer, in_pieces=in_pieces) as connection:
        for _ in range(3):
            assert await connection.exchange(ASK, 10) == Answer(200, b"ok")
            assert connection.is_open


async def test_an_answer_without_a_length_ends_with_its_connection():
    async with connected(UNTIL_THE_END, closes=True) as connection:
        assert await connection.exchange(ASK, 10) == Answer(200, b"ok")
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
        assert await connection.exchange(ASK, 10) == Answer(200, b"ok")
        await asyncio.sleep(0)
        assert not connection.is_open
        with pytest.raises(ConnectionError):
            await connection.exchange(ASK, 10)


async def test_of_a_body_that_is_too_long_no_more_is_taken():
    async with connected(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 5000) as connection:
        status, body = await connection.exchange(ASK, 10)
        assert (status, len(body) > 10) == (200, True)
        assert not connection.is_open


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-host\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MOST_AROUND,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2 * MOST_AROUND,
        b"HTTP/1.1 103 Early\r\n\r\n" * MOST_AROUND,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"e" * 2 * MOST_AROUND,
        b"",
    ],
)
async def test_what_is_no_answer_fails_and_is_not_waited_for(answer):
    async with connected(answer, closes=True) as connection:
        with pytest.raises(ConnectionError):
            await connection.exchange(ASK, 10)
        assert not connection.is_open


async def test_what_nobody_asked_for_ends_the_connection():
    loop = asyncio.get_running_loop()
    heard = loop.create_future()

    async def push(reader, writer):
        writer.write(PLAIN)
        heard.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(push, "127.0.0.1", 0) as server:
        _, connection = await loop.create_connection(Connection, *server.sockets[0].getsockname()[:2])
        async with asyncio.timeout(60):
            assert await heard == b""
        assert not connection.is_open


@pytest.mark.parametrize("headers", [{"A": "b\r\nC: d"}, {"A\r\nC": "d"}, {"A": "b\x00"}, {"A b": "c"}, {"A": "ü"}])
def test_a_header_cannot_bring_another_along(headers):
    with pytest.raises(RecordError):
        spell("POST", "h", "/", headers, b"")


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
    b"A: " + b"b" * MOST_AROUND + b"\r\n",
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


async def heard(answer, cuts, most, *, ends):
    """Give what a connection makes of an answer that comes in these pieces."""
    connection = Connection()
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
    whole = asyncio.run(heard(answer, [], most, ends=ends))
    parts = asyncio.run(heard(answer, cuts, most, ends=ends))
    assert whole is not None or not ends
    if isinstance(whole, Answer) and isinstance(parts, Answer):
        longest = max(len(whole.body), len(parts.body))
        assert (whole.status, whole.body) == (parts.status, parts.body) or (
            whole.status == parts.status and longest > most
        )
        assert whole.status >= 200
        assert longest <= most + len(answer)
    else:
        assert (whole, parts) in ((None, None), (ConnectionError, ConnectionError))


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Expect", "TE", "Upgrade"]
)
def test_a_header_cannot_say_where_a_request_ends_or_goes(name):
    with pytest.raises(RecordError, match="leave it out"):
        spell("POST", "h", "/", {name: "1"}, b"")


def test_a_header_is_given_once():
    with pytest.raises(RecordError, match="twice"):
        spell("POST", "h", "/", {"Content-Type": "a/b", "content-type": "c/d"}, b"")
