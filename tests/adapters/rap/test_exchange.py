"""An answer is read as HTTP says, whatever pieces it comes in; what is none ends its connection."""

import asyncio
from contextlib import asynccontextmanager

import pytest

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
        async with asyncio.timeout(10):
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
        async with asyncio.timeout(10):
            assert await heard == b""
        assert not connection.is_open


@pytest.mark.parametrize("headers", [{"A": "b\r\nC: d"}, {"A\r\nC": "d"}, {"A": "b\x00"}, {"A b": "c"}, {"A": "ü"}])
def test_a_header_cannot_bring_another_along(headers):
    with pytest.raises(RecordError):
        spell("POST", "h", "/", headers, b"")
