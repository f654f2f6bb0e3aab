"""A runtime that listens by itself is found where it was before."""

import pytest

from agenttool.adapters.rap.callbacks import Outcome
from agenttool.adapters.rap.listen import CallbackApp, listener_of
from agenttool.stores.memory_shelf import MemoryShelf


@pytest.fixture
def app():
    return CallbackApp(None)


@pytest.mark.requirement("RAP-025")
async def test_after_a_restart_callbacks_are_received_where_they_were_before(app):
    shelf = MemoryShelf()
    first = await listener_of(app, shelf)
    url = first.url
    await first.stop()
    second = await listener_of(app, shelf)
    assert second.url == url
    await second.stop()


async def test_beside_a_process_that_listens_there_another_place_is_found_and_the_first_is_kept(app):
    shelf = MemoryShelf()
    first = await listener_of(app, shelf)
    beside = await listener_of(app, shelf)
    urls = first.url, beside.url
    await beside.stop()
    url = first.url
    await first.stop()
    again = await listener_of(app, shelf)
    assert urls[0] != urls[1]
    assert again.url == url
    await again.stop()


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
