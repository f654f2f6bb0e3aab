"""A call that waits for an answer delays no other call, and its own timeout ends it."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import mcp_types as types
import pytest
from mcp_clients import OLD, Person, Silent, connected, end, text_of

from agenttool import Runtime, tool
from agenttool.adapters.mcp.settings import McpServer
from agenttool.durable import stored_approvals

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
ALLOW = [{"behavior": "allow", "tool": "fx.*"}]
BOUND_S = 150

upstreams = pytest.mark.parametrize("upstream", [(), ("modern=1",)], ids=["legacy", "modern"])


def server(*upstream, **settings):
    return McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), *upstream), **settings)


@upstreams
async def test_a_question_of_a_server_that_is_never_answered_delays_no_other_caller(mode, upstream):
    silent, honest = Silent(), Person(name="Ada")
    async with (
        Runtime.open(sources=[server(*upstream)], approve="wait", rules=ALLOW) as rt,
        AsyncExitStack() as clients,
        asyncio.timeout(BOUND_S),
    ):
        first = await clients.enter_async_context(connected(rt, mode, silent))
        others = [await clients.enter_async_context(connected(rt, mode, honest)) for _ in range(4)]
        asking = asyncio.create_task(first.call_tool("ask", {}))
        await silent.asked.wait()
        sums = await asyncio.gather(*(each.call_tool("add", {"a": 1, "b": 2}) for each in others))
        answered = await asyncio.gather(*(each.call_tool("ask", {}) for each in others[:2]))
        assert [each.structured_content for each in sums] == [{"sum": 3}] * 4
        assert ["Ada" in text_of(each) for each in answered] == [True, True]
        assert not asking.done()
        await end(asking)


@pytest.mark.slow
@upstreams
async def test_a_question_of_a_server_that_is_never_answered_ends_with_the_timeout_of_the_call(mode, upstream):
    silent = Silent()
    async with (
        Runtime.open(sources=[server(*upstream, timeout_s=4)], approve="wait", rules=ALLOW) as rt,
        connected(rt, mode, silent) as client,
        asyncio.timeout(BOUND_S),
    ):
        await client.list_tools()
        asking = asyncio.create_task(client.call_tool("ask", {}))
        await silent.asked.wait()
        (question,) = await rt.approvals.list()
        parent = (await rt.journal.invocation(question.invocation_id)).parent_invocation_id
        result = await rt.calls.get(parent).result()
        assert result.error.error_class == "timeout"
        assert f"its question {question.approval_id} was not answered in time" in result.error.message
        assert await rt.approvals.list() == ()
        await end(asking)


@tool(namespace="x")
def send(to: str) -> str:
    """Send a message. Not for letters."""
    return f"sent to {to}"


async def test_a_call_that_waits_reads_no_question_of_another_caller(mode, tmp_path, monkeypatch):
    read, checkpoint_in = [], stored_approvals.checkpoint_in

    def reading(opened):
        read.append(opened.invocation_id)
        return checkpoint_in(opened)

    async with (
        Runtime.open(tools=[send], approve="wait", store=tmp_path / "calls.db") as rt,
        connected(rt, mode, actor="eve") as eves,
        connected(rt, mode, actor="ada") as adas,
    ):
        await eves.call_tool("send", {"to": "eve"})
        monkeypatch.setattr(stored_approvals, "checkpoint_in", reading)
        result = await adas.call_tool("send", {"to": "ada"})
    assert {result.meta["agenttool/invocation"]} == set(read)


class SilentAtFirst(Silent):
    """A person who does not answer the first form, and allows what later ones ask."""

    async def __call__(self, context, params):
        if not self.asked.is_set():
            await super().__call__(context, params)
        return types.ElicitResult(action="accept", content={"decision": "allow"})


async def test_a_call_that_its_client_canceled_while_it_waited_is_not_the_result_of_the_next_same_call():
    person = SilentAtFirst()
    async with (
        Runtime.open(tools=[send], approve="wait") as rt,
        connected(rt, OLD, person) as client,
        asyncio.timeout(BOUND_S),
    ):
        asking = asyncio.create_task(client.call_tool("send", {"to": "ada"}))
        await person.asked.wait()
        (question,) = await rt.approvals.list()
        await end(asking)
        canceled = await rt.calls.get(question.invocation_id).result()
        result = await client.call_tool("send", {"to": "ada"})
    assert canceled.error.error_class == "canceled"
    assert text_of(result) == "sent to ada"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 2])
async def test_the_approver_of_the_program_is_asked_before_a_call_is_reported_as_waiting(mode, seconds):
    async def approve(question):
        await asyncio.sleep(seconds)
        return question.shown["to"] != "eve"

    async with Runtime.open(tools=[send], approve=approve) as rt, connected(rt, mode) as client:
        names = ["ada", "bob", "eve", "dan"]
        results = await asyncio.gather(*(client.call_tool("send", {"to": each}) for each in names))
    assert [text_of(each) for each in results if not each.is_error] == ["sent to ada", "sent to bob", "sent to dan"]
    assert results[2].meta["agenttool/error"]["error_class"] == "approval_rejected"
