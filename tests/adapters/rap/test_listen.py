"""A runtime that listens by itself is found where it was before."""

import socket

import pytest

from agenttool.adapters.rap import listen
from agenttool.adapters.rap.addresses import PATH, Addresses
from agenttool.adapters.rap.callbacks import Outcome
from agenttool.adapters.rap.listen import CallbackApp, listener_of
from agenttool.stores.memory_shelf import MemoryShelf

SECRET = b"s" * 32


class Nobody:
    """Deals with no message, and knows where it is."""

    addresses = None


@pytest.fixture
def app():
    return CallbackApp(Nobody())


async def listening(app, shelf, secret=SECRET):
    listener, fault = await listener_of(app, shelf, secret)
    app._callbacks.addresses = app._callbacks.addresses or Addresses(listener.url + PATH, secret)
    listener.start()
    return listener, fault


@pytest.mark.requirement("RAP-025")
async def test_after_a_restart_callbacks_are_received_where_they_were_before(app):
    shelf = MemoryShelf()
    first, _ = await listening(app, shelf)
    url = first.url
    await first.stop()
    second, fault = await listening(app, shelf)
    assert (second.url, fault) == (url, None)
    await second.stop()


async def test_beside_a_process_that_listens_there_another_place_is_found_and_the_first_is_kept(app, caplog):
    shelf = MemoryShelf()
    first, _ = await listening(app, shelf)
    beside, fault = await listening(app, shelf)
    assert (first.url != beside.url, fault, caplog.text) == (True, None, "")
    await beside.stop()
    url = first.url
    await first.stop()
    again, _ = await listening(app, shelf)
    assert again.url == url
    await again.stop()


@pytest.mark.requirement("RAP-025")
@pytest.mark.parametrize("stranger", ["silent", "another store", "a relay"])
async def test_a_stranger_where_callbacks_were_received_is_told_of(app, caplog, monkeypatch, stranger):
    monkeypatch.setattr(listen, "_ASKED_S", 0.2)
    shelf = MemoryShelf()
    first, _ = await listening(app, shelf)
    port = first.port
    await first.stop()
    if stranger == "silent":
        held = socket.create_server(("127.0.0.1", port))
    else:
        app._callbacks.addresses = Addresses(
            f"http://127.0.0.1:{port if stranger == 'another store' else 1}{PATH}",
            b"x" * 32 if stranger == "another store" else SECRET,
        )
        held = listen.Listener(app, ("127.0.0.1", port))
        held.start()
    second, fault = await listening(app, shelf)
    assert second.port != port
    assert f"port {port} is held by another program" in fault
    assert fault in caplog.text
    await second.stop()
    if stranger == "silent":
        held.close()
    else:
        await held.stop()


async def test_what_comes_to_a_forged_url_is_not_read():
    class Strict:
        def call_of(self, token):
            return Outcome(404, "no such callback URL")

    async def receive():
        raise AssertionError("the message of a stranger was read")

    told = []

    async def send(message):
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/rap/callbacks/forged", "headers": []}
    await CallbackApp(Strict())(scope, receive, send)
    assert told[0]["status"] == 404
