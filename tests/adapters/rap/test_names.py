"""A name service that stalls holds up the names that stall, and nothing else."""

import asyncio
import socket
import threading

import pytest

from agenttool.adapters.rap import names
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.forgery import Reach


@pytest.fixture
def stalling(monkeypatch):
    """Let every name below `stalls.test` stall until the test ends; give what was asked for."""
    asked, may_answer, real = [], threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *rest, **options):
        asked.append(host)
        if str(host).endswith("stalls.test"):
            may_answer.wait(30)
            raise socket.gaierror("no such name")
        return real(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    may_answer.set()


async def takes(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_names_that_stall_hold_up_neither_other_names_nor_other_work(stalling, serve_app):
    courier = Courier(Reach.of(["127.0.0.0/8", "localhost"]), timeout_s=5)
    stalled = [asyncio.ensure_future(courier.post(f"http://h{each}.stalls.test/", b"{}")) for each in range(60)]
    await asyncio.sleep(0)
    async with serve_app(takes, lifespan="off") as place, asyncio.timeout(4):
        assert (await courier.post(f"http://localhost:{place.rpartition(':')[2]}/", b"{}")).is_accepted
        assert await asyncio.to_thread(lambda: "done") == "done"
    for each in stalled:
        each.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)
    await courier.close()


async def test_a_name_that_is_not_found_in_time_may_be_found_later(stalling, monkeypatch):
    monkeypatch.setattr(names, "LIMIT_S", 0.05)
    courier = Courier(Reach())
    replies = await asyncio.gather(*(courier.post("http://a.stalls.test/", b"{}") for _ in range(10)))
    assert [(each.status, each.is_worth_retrying) for each in replies] == [(None, True)] * 10
    assert stalling.count("a.stalls.test") == 1
    await courier.close()


async def test_there_are_only_so_many_lookups_at_a_time_and_fewer_in_one_domain(stalling, monkeypatch):
    monkeypatch.setattr(names, "MOST", 3)
    monkeypatch.setattr(names, "MOST_ALIKE", 2)
    monkeypatch.setattr(names, "LIMIT_S", 0.05)
    found = names.Names()
    hosts = ["a.x.stalls.test", "b.stalls.test", "c.stalls.test", "xstalls.test", "localhost"]
    for host, told in zip(hosts, ["^$", "^$", "too many", "^$", "too many"], strict=True):
        with pytest.raises(OSError, match=told):
            await found.addresses_of(host)
    assert stalling == ["a.x.stalls.test", "b.stalls.test", "xstalls.test"]
