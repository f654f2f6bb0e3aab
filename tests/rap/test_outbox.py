"""Deliveries to runtimes: order, retries and views."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace

import pytest

from agenttool.adapters.rap.credentials import Bearer
from agenttool.rap import RapCall, outbox
from agenttool.rap.limits import Limits
from agenttool.rap.outbox import IDEMPOTENCY_HEADER


@pytest.fixture
def ringing(make):
    provider = make()

    @provider.tool
    async def ring() -> str:
        """Ring."""
        return "rung"

    return provider


@pytest.mark.requirement("RAP-110", "RAP-112")
async def test_a_result_is_tried_until_it_is_taken_and_each_try_has_the_same_key(ringing, serving):
    async with serving(ringing) as client:
        client.inbox.statuses = [500, 503, 502]
        await client.invoke("ring")
        await client.result()
        assert [status for status, _ in client.inbox.taken] == [500, 503, 502, 200]
        assert len({headers[IDEMPOTENCY_HEADER.lower()] for headers in client.inbox.headers}) == 1


@pytest.mark.requirement("RAP-110")
async def test_a_runtime_that_was_down_gets_its_results_later_and_delays_no_other(ringing, serving, free_port):
    async with serving(ringing) as client:
        port = free_port()
        await client.invoke("ring", id="a", callback_url=f"http://127.0.0.1:{port}/in")
        await client.invoke("ring", id="b")
        assert (await client.result())["id"] == "b"
        taken = asyncio.get_running_loop().create_future()

        async def back(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            if not taken.done():
                taken.set_result(head)

        async with await asyncio.start_server(back, "127.0.0.1", port):
            assert (await taken).startswith(b"POST /in HTTP/1.1")


@pytest.mark.requirement("RAP-111", "RAP-409")
@pytest.mark.parametrize("status", [301, 307, 400, 404, 409, 410, 413])
async def test_a_refusal_or_a_redirect_ends_the_matter(ringing, serving, caplog, status):
    async with serving(ringing) as client:
        client.inbox.statuses = [status]
        await client.invoke("ring", id="a")
        while "was rejected" not in caplog.text:
            await asyncio.sleep(0.01)
        await client.invoke("ring", id="b")
        await client.result()
    assert [(status, each["id"]) for status, each in client.inbox.taken] == [(status, "a"), (200, "b")]


@pytest.mark.parametrize("status", [408, 425, 429, 503])
async def test_a_result_waits_as_long_as_its_runtime_asks_and_is_sent_again(ringing, serving, monkeypatch, status):
    delays = []

    async def sleep(seconds):
        delays.append(seconds)

    monkeypatch.setattr(outbox, "asyncio", SimpleNamespace(sleep=sleep, wait=asyncio.wait))
    async with serving(ringing) as client:
        client.inbox.statuses = [status, status]
        client.inbox.reply_headers = [(b"retry-after", b"120")]
        await client.invoke("ring")
        assert (await client.result())["text"] == "rung"
        assert [status for status, _ in client.inbox.taken] == [status, status, 200]
    assert delays == [120, 120]


class Tar:
    """Many places on this machine that take a connection, and whatever comes on it, and never say a word."""

    def __init__(self):
        self.urls = []
        self.now = self.most = self.tried = 0

    async def serve(self, reader, writer):
        self.tried += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.now -= 1
        writer.close()


@asynccontextmanager
async def tar_at(places):
    tar = Tar()
    async with AsyncExitStack() as stack:
        for _ in range(places):
            server = await stack.enter_async_context(await asyncio.start_server(tar.serve, "127.0.0.1", 0))
            tar.urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/in")
        yield tar


GREEDY, HONEST = "greedy-token-of-sixteen", "honest-token-of-sixteen"


@pytest.mark.slow
@pytest.mark.requirement("RAP-110")
async def test_hundreds_of_stalled_deliveries_delay_no_other_caller(make, serving):
    limits = Limits(max_deliveries=32, max_deliveries_per_caller=16, delivery_s=600)
    provider = make(limits=limits, auth=Bearer({GREEDY: "greedy", HONEST: "honest"}))

    @provider.tool(read_only=True)
    async def ring() -> str:
        """Ring."""
        return "rung"

    async with serving(provider) as client, tar_at(30) as tar, asyncio.timeout(60):
        client.headers = {"Authorization": f"Bearer {GREEDY}"}
        for each in range(300):
            url = tar.urls[each % len(tar.urls)]
            assert await client.invoke("ring", id=f"stalls-{each}", callback_url=url) == 200
        client.headers = {"Authorization": f"Bearer {HONEST}"}
        for each in range(40):
            assert await client.invoke("ring", id=f"honest-{each}") == 200
        results = await client.inbox.wait(40, "tool_result")
        assert {each["id"] for each in results} == {f"honest-{each}" for each in range(40)}
        assert len(client.inbox.taken) == 40
        assert 0 < tar.most <= 32  # one that was cut off may be seen to leave a moment later


async def test_a_result_that_is_too_large_for_its_runtime_is_replaced_by_an_error_that_says_so(make, serving):
    provider = make()

    @provider.tool
    async def dump() -> str:
        """Yield more than any reader takes."""
        return "x" * 20_000

    async with serving(provider) as client:
        client.inbox.statuses = [413]
        await client.invoke("dump", call_id="m-1")
        result = await client.result()
        assert result["text"].startswith("Error: the tool did its work, but its result of")
        assert (result["id"], result["group_id"], result["call_id"]) == ("tc-1", "thread-1", "m-1")


async def test_a_runtime_to_which_everything_is_too_large_is_left_alone(make, serving, caplog):
    provider = make()

    @provider.tool
    async def dump() -> str:
        """Yield more than any reader takes."""
        return "x" * 20_000

    async with serving(provider) as client:
        client.inbox.statuses = [413] * 9
        await client.invoke("dump", id="a")
        while caplog.text.count("was rejected") < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(client.inbox.taken) == 2


async def test_a_report_that_was_long_on_its_way_does_not_outlive_its_call(make, serving, serve_app):
    provider, reported, taken, has_result = make(), asyncio.Event(), [], asyncio.Event()

    async def runtime(scope, receive, send):
        message = json.loads((await receive())["body"])
        if message.get("content"):
            reported.set()
            await has_result.wait()
            await asyncio.sleep(0.1)  # whatever does not wait for this one is quicker
        taken.append(message.get("content", "result"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if message["type"] == "tool_result":
            has_result.set()

    @provider.tool
    async def work(call: RapCall) -> None:
        """Work."""
        call.report("half done", percent=50)
        await reported.wait()

    async with serve_app(runtime, lifespan="off") as url, serving(provider) as client:
        await client.invoke("work", callback_url=url)
        async with asyncio.timeout(60):
            while len(taken) < 3:
                await asyncio.sleep(0.01)
    assert (taken[0], taken[1]["message"], taken[2]) == ("result", "half done", {})
