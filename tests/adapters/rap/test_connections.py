"""Connections are kept between requests, replaced when they are gone, and never more than allowed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agenttool.adapters.rap.connections import Connections, Place, Terms
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.exchange import Connection, spell
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.names import Names
from agenttool.adapters.rap.turns import Shares

HERE = Reach.of(["127.0.0.0/8"])


def shares(most):
    return Shares(most=most, each=most, alike=most, within_s=10, wait_s=10)


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
def courier():
    @asynccontextmanager
    async def courier(most=100):
        made = Courier(HERE, shares=shares(most))
        yield made
        await made.close()
        await asyncio.sleep(0.02)  # the other side hears of it

    return courier


async def test_requests_one_after_the_other_share_a_connection(courier):
    async with hosted(Host()) as (host,), courier() as carrying:
        assert [(await carrying.get(host.url)).status for _ in range(5)] == [200] * 5
        assert host.connections == 1


async def test_a_connection_that_the_other_side_closed_is_replaced(courier):
    async with hosted(Host(answers=1)) as (host,), courier() as carrying:
        for _ in range(3):
            assert (await carrying.get(host.url)).status == 200
            await asyncio.sleep(0.02)  # the end of the connection arrives
        assert host.connections == 3


async def test_no_more_are_at_work_than_allowed_and_all_of_them_rest(courier):
    async with hosted(Host()) as (host,), courier(most=4) as carrying:
        host.gate.clear()
        asking = [asyncio.ensure_future(carrying.get(host.url)) for _ in range(12)]
        await host.until(4)
        host.gate.set()
        assert {(await each).status for each in asking} == {200}
        assert host.most_at_work == 4
        assert host.connections == len(carrying._connections._at_rest) == 4


async def test_a_connection_that_has_rested_for_long_is_closed():
    async with hosted(Host()) as (host,):
        place = Place("127.0.0.1", int(host.url.rpartition(":")[2].rstrip("/")), is_tls=False)
        connections = Connections(HERE, Names(), shares(4), rest_s=0.05)
        request = spell("GET", "h", "/", {}, None)
        assert (await connections.exchange(place, request, 10)).status == 200
        async with asyncio.timeout(60):
            while connections._at_rest:  # noqa: ASYNC110 -- nobody is told of it
                await asyncio.sleep(0.02)
        assert (await connections.exchange(place, request, 10)).status == 200
        assert host.connections == 2
        await connections.close()
        await asyncio.sleep(0.02)  # the other side hears of it


async def test_a_connection_serves_only_the_place_it_leads_to(courier):
    async with hosted(Host(), Host()) as (one, other), courier() as carrying:
        for host in (one, other, one, other):
            assert (await carrying.get(host.url)).status == 200
        assert (one.connections, other.connections) == (1, 1)


async def test_a_request_that_is_given_up_leaves_no_connection_behind(courier):
    async with hosted(Host()) as (host,), courier() as carrying:
        host.gate.clear()
        asking = asyncio.ensure_future(carrying.get(host.url))
        await host.until(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert carrying._connections._at_rest == []
        host.gate.set()
        assert (await carrying.get(host.url)).status == 200


async def test_every_address_of_a_name_is_tried(monkeypatch):
    async def addresses_of(_, host, caller):
        assert host == "twofold.test"
        return ["127.0.0.9", "127.0.0.1"]

    monkeypatch.setattr(Names, "addresses_of", addresses_of)
    async with hosted(Host()) as (host,):
        place = Place("twofold.test", int(host.url.rpartition(":")[2].rstrip("/")), is_tls=False)
        connections = Connections(HERE, Names(), shares(4), rest_s=1)
        assert (await connections.exchange(place, spell("GET", "h", "/", {}, None), 10)).status == 200
        await connections.close()
        await asyncio.sleep(0.02)  # the other side hears of it


async def test_who_leaves_in_the_moment_of_the_answer_leaves_no_connection_behind(monkeypatch):
    made, exchange = [], Connection.exchange

    async def answered_and_left(self, request, most):
        made.append(self)
        await exchange(self, request, most)
        raise asyncio.CancelledError

    async with hosted(Host()) as (host,):
        place = Place("127.0.0.1", int(host.url.rpartition(":")[2].rstrip("/")), is_tls=False)
        connections = Connections(HERE, Names(), shares(4), rest_s=1)
        monkeypatch.setattr(Connection, "exchange", answered_and_left)
        with pytest.raises(asyncio.CancelledError):
            await connections.exchange(place, spell("GET", "h", "/", {}, None), 10)
        assert [each.is_open for each in made] == [False]
        await connections.close()
        await asyncio.sleep(0.02)  # the other side hears of it


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


async def test_what_goes_out_on_a_kept_connection_that_closes_is_sent_anew_on_another(courier):
    async with hosted(Fickle()) as (host,), courier() as carrying:
        replies = [await carrying.get(f"{host.url}{each}") for each in range(3)]
        assert [each.status for each in replies] == [200] * 3
        assert host.got == ["/0", "/1", "/1", "/2", "/2"]


async def test_what_must_not_be_sent_twice_is_not_sent_anew(courier):
    async with hosted(Fickle()) as (host,), courier() as carrying:
        terms = Terms(only_once=True)
        replies = [await carrying.get(f"{host.url}{each}", terms=terms) for each in range(2)]
        assert [each.status for each in replies] == [200, None]
        assert host.got == ["/0", "/1"]


async def test_what_fails_on_a_new_connection_is_not_sent_anew(courier):
    got = []

    async def closes(reader, writer):
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(closes, "127.0.0.1", 0) as server, courier() as carrying:
        reply = await carrying.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert (reply.status, reply.is_worth_retrying, len(got)) == (None, True, 1)
