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
    courier = Courier(Reach.of(["127.0.0.0/8", "localhost"]), timeout_s=60)
    stalled = [asyncio.ensure_future(courier.post(f"http://h{each}.stalls.test/", b"{}")) for each in range(60)]
    await asyncio.sleep(0)
    async with serve_app(takes, lifespan="off") as place, asyncio.timeout(50):
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


async def looked_up(found, hosts, caller=""):
    """Ask for names, and tell which of them nobody looks up now."""
    told = await asyncio.gather(*(found.addresses_of(each, caller) for each in hosts), return_exceptions=True)
    return [host for host, each in zip(hosts, told, strict=True) if "too many" in str(each)]


async def test_there_are_only_so_many_lookups_of_names_in_one_domain(stalling, monkeypatch):
    monkeypatch.setattr(names, "LIMIT_S", 0.05)
    hosts = ["a.x.stalls.test", "b.stalls.test", "c.stalls.test", "xstalls.test"]
    assert await looked_up(names.Names(), hosts) == ["c.stalls.test"]
    assert stalling == ["a.x.stalls.test", "b.stalls.test", "xstalls.test"]


async def test_one_caller_has_only_so_many_lookups_and_takes_no_others(stalling, monkeypatch):
    monkeypatch.setattr(names, "LIMIT_S", 0.05)
    found = names.Names()
    hosts = [f"{each}-stalls.test" for each in range(12)]
    assert await looked_up(found, hosts, "greedy") == hosts[names.MOST_EACH :]
    assert await looked_up(found, ["other-stalls.test"], "another") == []


async def test_domains_that_stall_leave_room_for_new_ones_and_for_those_that_answer(stalling, monkeypatch):
    found = names.Names()
    answers = await found.addresses_of("localhost")
    with monkeypatch.context() as hurry:
        hurry.setattr(names, "LIMIT_S", 0.001)
        hurry.setattr(names, "SLOW_S", 0)
        for each in range(names.Standing.NEW.most):
            assert await looked_up(found, [f"{each}-stalls.test"]) == []
        assert await looked_up(found, ["new-stalls.test"]) == ["new-stalls.test"]
    assert await found.addresses_of("localhost") == answers


async def test_a_domain_that_let_a_name_stall_is_asked_for_one_name_at_a_time(monkeypatch):
    monkeypatch.setattr(names, "SLOW_S", -1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("192.0.2.1", 0))])
    found = names.Names()
    await found.addresses_of("a.slow.test")
    assert await looked_up(found, ["b.slow.test", "c.slow.test"]) == ["c.slow.test"]
