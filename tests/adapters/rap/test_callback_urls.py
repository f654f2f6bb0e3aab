"""Processes of one store have tools call back at one address, and know it when they do not."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from agenttool.adapters.rap import callback_urls
from agenttool.adapters.rap.callback_urls import PATH, CallbackUrls, claim_address, find_claimed
from agenttool.adapters.rap.listener import CallbackApp, Listener
from agenttool.errors import ConfigError
from agenttool.stores.memory import MemoryDocuments

SECRET = b"s" * 32


class Nobody:
    """Deals with no message, and knows where it is."""

    def __init__(self, urls):
        self.urls = urls


def place(url, secret=SECRET):
    return CallbackUrls(url + PATH, secret)


ELSEWHERE = place("http://127.0.0.1:1")


@asynccontextmanager
async def serving():
    """Serve a process of the store; gives its address."""
    nobody = Nobody(None)
    listener = Listener(CallbackApp(nobody), ("127.0.0.1", 0))
    nobody.urls = place(listener.url)
    listener.start()
    try:
        yield nobody.urls
    finally:
        await listener.stop()


async def test_one_that_would_have_callbacks_come_in_elsewhere_is_refused_while_another_is_there():
    async with serving() as served:
        documents = MemoryDocuments()
        assert await claim_address(documents, served) is None
        assert await claim_address(documents, served) is None
        with pytest.raises(ConfigError, match="could run twice") as refused:
            await claim_address(documents, ELSEWHERE)
        assert served.base in str(refused.value)
        assert await claim_address(documents, served) is None


async def test_one_that_comes_after_another_is_gone_takes_its_place_and_knows_where_it_was():
    async with serving() as served:
        documents = MemoryDocuments()
        assert await claim_address(documents, ELSEWHERE) is None
        assert await claim_address(documents, served) == ELSEWHERE.base
        assert await claim_address(documents, served) is None


async def test_one_that_starts_is_waited_for():
    """It listens before it answers: meanwhile it asks servers what they offer."""
    documents, nobody = MemoryDocuments(), Nobody(None)
    listener = Listener(CallbackApp(nobody), ("127.0.0.1", 0))
    nobody.urls = place(listener.url)
    await claim_address(documents, nobody.urls)
    second = asyncio.ensure_future(claim_address(documents, ELSEWHERE))
    await asyncio.sleep(0.2)
    assert not second.done()
    listener.start()
    with pytest.raises(ConfigError, match="could run twice"):
        await second
    await listener.stop()


@pytest.mark.parametrize("stranger", ["silent", "another store"])
async def test_a_foreign_program_at_the_previous_address_is_ignored(monkeypatch, stranger):
    async with serving() as served:
        monkeypatch.setattr(callback_urls, "STARTUP_TIMEOUT_S", 0.2)
        documents = MemoryDocuments()
        with socket.create_server(("127.0.0.1", 0)) as held:
            silent = place(f"http://127.0.0.1:{held.getsockname()[1]}")
            before = silent if stranger == "silent" else served
            secret = SECRET if stranger == "silent" else b"x" * 32
            await claim_address(documents, CallbackUrls(before.base, secret))
            assert await find_claimed(documents, CallbackUrls(ELSEWHERE.base, secret)) is None
            assert await claim_address(documents, CallbackUrls(ELSEWHERE.base, secret)) == before.base


async def test_one_that_serves_nothing_itself_goes_by_where_another_is_served():
    async with serving() as served:
        documents = MemoryDocuments()
        assert await find_claimed(documents, ELSEWHERE) is None
        await claim_address(documents, served)
        assert await find_claimed(documents, ELSEWHERE) == served
        assert await find_claimed(documents, served) == served
