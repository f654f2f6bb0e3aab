"""How an invocation is sent: against its result, against its deadline, and as often as the tool allows."""

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress

import pytest

from agenttool import Runtime
from agenttool.adapters.rap import execute
from agenttool.adapters.rap.settings import RapSource
from agenttool.pipeline import recovery
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

HERE = ("127.0.0.0/8",)
ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


def tool(**annotations):
    return {"name": "read_probe", "description": "Read.", "inputSchema": {"type": "object"}, "annotations": annotations}


@pytest.fixture
def unanswered(running, tool_server):
    """Open a runtime whose server accepts invocations and never acknowledges them, until `release` is set."""

    @asynccontextmanager
    async def unanswered(on_invoke=None, tools=("read_probe",), **settings):
        server, release = tool_server(tools=tools), asyncio.Event()

        async def stall(invocation):
            if on_invoke is not None:
                await on_invoke(server, invocation)
            await release.wait()

        server.on_invoke = stall
        async with running(server, **settings) as rt, asyncio.timeout(60):
            yield rt, server
            release.set()

    return unanswered


@pytest.mark.requirement("RAP-400", "RAP-095")
async def test_a_result_ends_a_call_whose_acknowledgement_stalls_and_stops_the_send(unanswered):
    async def settle(server, invocation):
        assert await server.settle(invocation, "wet") == 200

    async with unanswered(settle, attempts=5, within_s=5) as (rt, server):
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.is_error, result.content[0].text) == (False, "wet")
        assert len(server.posts("/invoke")) == 1
        assert server.posts("/cancel_tool_call") == []


async def test_a_result_between_two_attempts_prevents_the_next_one(running, tool_server, monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 1e6)
    monkeypatch.setattr(execute, "MAX_DELAY_S", 1e6)
    server = tool_server()
    server.statuses["/invoke"] = [503]
    async with running(server, attempts=5) as rt, asyncio.timeout(60):
        calling = asyncio.ensure_future(rt.call("read_probe", {"bed": 1}, surface=await rt.surface()))
        [invocation] = await server.until(lambda: server.posts("/invoke"))
        assert await server.settle(invocation, "wet") == 200
        assert (await calling).content[0].text == "wet"
        assert len(server.posts("/invoke")) == 1


async def test_a_result_that_another_process_received_prevents_the_next_attempt(
    serve_app, tool_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(recovery, "POLL_S", 1.0)
    server, store = tool_server(), f"sqlite:{tmp_path}/calls.db"

    async def settle(invocation):
        assert await server.settle(invocation, "wet") == 200

    async def settle_and_fail(scope, receive, send):
        async def fail(event):
            is_start = scope["path"] == "/invoke" and event["type"] == "http.response.start"
            await send({**event, "status": 503} if is_start else event)

        await server(scope, receive, fail)

    server.on_invoke = settle
    async with serve_app(settle_and_fail, lifespan="off") as server.url, asyncio.timeout(60):
        sources = [RapSource(name="s0", url=server.url, allow=HERE, attempts=1000)]
        async with (
            Runtime.open(sources=sources, rules=ALLOW, store=store),  # it listens for both
            Runtime.open(sources=sources, rules=ALLOW, store=store) as rt,
        ):
            result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
            assert (result.is_error, result.content[0].text) == (False, "wet")
            assert len(server.posts("/invoke")) == 1
        await server.hang_up()


@pytest.mark.requirement("RAP-127")
@pytest.mark.parametrize("detached", [False, True])
async def test_within_s_holds_though_the_acknowledgement_stalls(unanswered, detached):
    async with unanswered(attempts=5, within_s=0.2) as (rt, server):
        surface = await rt.surface()
        if detached:
            call = await rt.start("read_probe", {"bed": 1}, surface=surface)
            result = await rt.wait(call.invocation_id)
        else:
            result = await rt.call("read_probe", {"bed": 1}, surface=surface)
        assert result.error.error_class.value == "timeout"
        assert len(server.posts("/invoke")) == 1
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id
        assert await rt.deferred.list() == ()


async def test_within_s_holds_between_attempts(running, tool_server):
    server = tool_server()
    server.statuses["/invoke"] = [503] * 100_000
    async with running(server, attempts=100_000, within_s=0.2) as rt, asyncio.timeout(60):
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert result.error.error_class.value == "timeout"


class Amnesiac:
    """A server without a memory of ids: it runs each invocation that arrives, and loses the first acknowledgements."""

    def __init__(self, lost):
        self.lost, self.ran = lost, []

    async def __call__(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = json.loads(await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1])))
                self.ran.append(body["id"])
                if len(self.ran) <= self.lost:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@pytest.fixture
def amnesiac(running, tool_server):
    """Open a runtime on a server whose invocations go to an `Amnesiac`."""

    @asynccontextmanager
    async def amnesiac(lost=1, *, hints=None, **settings):
        server, ran = tool_server(tools=[tool(**(hints or {}))]), Amnesiac(lost)
        async with await asyncio.start_server(ran, "127.0.0.1", 0) as listening, asyncio.timeout(60):
            server.manifest["endpoint"] = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/invoke"
            async with running(server, **settings) as rt:
                yield rt, server, ran

    return amnesiac


async def test_a_tool_that_is_not_idempotent_is_not_sent_again_after_a_lost_acknowledgement(amnesiac):
    async with amnesiac() as (rt, server, ran):
        result = await rt.call("read_probe", {}, surface=await rt.surface())
        assert ran.ran == [result.invocation_id]
        error = result.error
        assert (error.error_class.value, error.error_code) == ("dependency_unavailable", "not_acknowledged")
        assert error.retry.safe is False
        assert "may have accepted it" in error.message
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id


@pytest.mark.parametrize("hints", [{"idempotent": True}, {"idempotent": True, "readOnly": True}, {"readOnly": True}])
async def test_a_trusted_tool_that_may_run_twice_is_sent_again(amnesiac, hints):
    async with amnesiac(hints=hints, trusts_annotations=True) as (rt, _, ran):
        call = await rt.start("read_probe", {}, surface=await rt.surface())
        assert ran.ran == [call.invocation_id] * 2
        assert [each.is_sent for each in await rt.deferred.list()] == [True]


@pytest.mark.parametrize(("trusts", "attempts", "sent"), [(False, None, 1), (True, 1, 1), (False, 3, 3), (False, 2, 2)])
async def test_the_settings_say_how_often_a_call_is_sent(amnesiac, trusts, attempts, sent):
    async with amnesiac(9, hints={"idempotent": True}, trusts_annotations=trusts, attempts=attempts) as (rt, _, ran):
        result = await rt.call("read_probe", {}, surface=await rt.surface())
        assert ran.ran == [result.invocation_id] * sent


async def test_a_reused_connection_that_closes_does_not_send_a_call_twice(amnesiac):
    async with amnesiac(lost=0) as (rt, _, ran):
        surface = await rt.surface()
        await rt.start("read_probe", {}, surface=surface)
        ran.lost = 2
        result = await rt.call("read_probe", {}, surface=surface)
        assert ran.ran[1:] == [result.invocation_id]


@pytest.mark.requirement("RAP-032")
async def test_a_call_that_could_not_be_sent_is_tried_again_and_arrives_once(
    running, tool_server, free_port, monkeypatch
):
    server, ran, port = tool_server(), Amnesiac(0), free_port()
    server.manifest["endpoint"] = f"http://127.0.0.1:{port}/invoke"
    async with running(server) as rt, asyncio.timeout(60):
        surface = await rt.surface()
        error = (await rt.call("read_probe", {"bed": 1}, surface=surface)).error
        assert (error.error_code, error.retry.safe) == ("not_acknowledged", True)
        assert error.message.startswith("nothing was sent")
        assert server.posts("/cancel_tool_call") == []
        monkeypatch.setattr(execute, "DEFAULT_ATTEMPTS", 1_000_000)
        starting = asyncio.ensure_future(rt.start("read_probe", {"bed": 1}, surface=surface))
        async with await asyncio.start_server(ran, "127.0.0.1", port):
            call = await starting
            assert ran.ran == [call.invocation_id]
