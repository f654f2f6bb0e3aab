"""A runtime that listens by itself is found where it was before."""

import asyncio
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from agenttool import RapSource, Runtime
from agenttool.adapters.rap import listen
from agenttool.adapters.rap.addresses import PATH, Addresses
from agenttool.adapters.rap.callbacks import Outcome
from agenttool.adapters.rap.claims import is_served
from agenttool.adapters.rap.listen import CallbackApp, listener_of
from agenttool.pipeline import recovery
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.stores.memory import MemoryDocuments

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
SECRET = b"s" * 32
BOUND_S = 60


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
    shelf = MemoryDocuments()
    first, _ = await listening(app, shelf)
    url = first.url
    await first.stop()
    second, fault = await listening(app, shelf)
    assert (second.url, fault) == (url, None)
    await second.stop()


@pytest.mark.requirement("RAP-025")
async def test_processes_of_a_store_have_one_address_and_who_stands_by_takes_over(app, caplog, monkeypatch):
    monkeypatch.setattr(listen, "TAKES_OVER_S", 0.01)
    shelf = MemoryDocuments()
    first, _ = await listening(app, shelf)
    url = first.url
    here = Addresses(url + PATH, SECRET)
    heirs = [await listening(app, shelf) for _ in range(2)]
    assert [(heir.url, fault) for heir, fault in heirs] == [(url, None)] * 2
    assert caplog.text == ""
    for gone in (first, heirs[0][0]):
        assert await is_served(here, 2.0)
        await gone.stop()
        async with asyncio.timeout(BOUND_S):
            while not await is_served(here, 2.0):  # noqa: ASYNC110 -- there is nothing to wait on
                await asyncio.sleep(0.01)
    await heirs[1][0].stop()
    again, _ = await listening(app, shelf)
    assert again.url == url
    await again.stop()


async def test_two_that_listen_for_the_first_time_at_once_have_one_address(app):
    shelf = MemoryDocuments()
    both = await asyncio.gather(*(listening(app, shelf) for _ in range(2)))
    assert both[0][0].url == both[1][0].url
    for each, _ in both:
        await each.stop()


@pytest.mark.requirement("RAP-025")
@pytest.mark.parametrize("stranger", ["silent", "another store", "a relay"])
async def test_a_stranger_where_callbacks_were_received_is_told_of(app, caplog, monkeypatch, stranger):
    monkeypatch.setattr(listen, "_ASKED_S", 0.2)
    shelf = MemoryDocuments()
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


CALLER = """
import asyncio, sys
from agenttool import RapSource, Runtime
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

async def main(store, url):
    source = RapSource(name="s0", url=url, allow=("127.0.0.0/8",))
    rule = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
    async with Runtime.open(sources=[source], rules=[rule], store=store, lease_s=1.0) as rt:
        await rt.call("read_probe", {"bed": 3}, surface=await rt.surface())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def bequeathed(running, tmp_path, monkeypatch):
    """Give a runtime whose store has a call that its server took, when the process that made it was killed."""

    @asynccontextmanager
    async def bequeathed(server):
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
                source = RapSource(name="s0", url=server.url, allow=("127.0.0.0/8",))
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
        assert (await rt.wait(again["id"])).content[0].text == "done"


@pytest.mark.slow
@pytest.mark.requirement("RAP-031", "RAP-402")
async def test_a_call_that_is_refused_when_it_is_sent_again_may_have_been_taken_before(bequeathed, tool_server):
    server = tool_server()
    async with bequeathed(server) as rt:
        server.statuses["/invoke"] = [403]
        (taken,) = server.invocations
        result = await rt.wait(taken["id"])
        assert (result.error.error_code, result.error.retry.safe) == ("not_accepted", False)
        assert "may have taken effect" in result.model_facing_content[0].text
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == taken["id"]
