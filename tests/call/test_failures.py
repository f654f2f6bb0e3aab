"""A runtime that answers a question or recovers a call and closes at once never cancels that call."""

import asyncio

import pytest
from starting import begin

from agenttool import Runtime, tool

BOUND_S = 60


class Till:
    """Counts payments; a payment can be held until a test releases it."""

    def __init__(self):
        self.paid, self.began, self.released = [], asyncio.Event(), asyncio.Event()
        self.released.set()

        @tool(namespace="bank", approval_required=True)
        async def pay(to: str) -> str:
            """Pay someone. Not for gifts."""
            self.began.set()
            await self.released.wait()
            self.paid.append(to)
            return f"paid {to}"

        self.tool = pay


@pytest.fixture
def till():
    return Till()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "calls.db"


async def event_of(rt, event_type, invocation_id=None):
    """Wait for an event of a call."""
    async with asyncio.timeout(BOUND_S):
        async for _, event in rt.journal.events():
            if event.event_type == event_type and invocation_id in (None, event.invocation_id):
                return


async def result_elsewhere(store, till, invocation_id):
    """Return the result of a call that another runtime finishes."""
    async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt:
        return await rt.calls.get(invocation_id).result(BOUND_S)


@pytest.mark.parametrize("is_owner", [True, False])
async def test_an_approved_call_outlives_the_runtime_that_answered(store, till, is_owner):
    async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt:
        started = await begin(rt, "pay", {"to": "ada"})
        if is_owner:
            (question,) = await rt.approvals.list()
            await rt.approvals.decide(question, "allow")
    if not is_owner:
        async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt:
            (question,) = await rt.approvals.list()
            await rt.approvals.decide(question, "allow")
    result = await result_elsewhere(store, till, started.invocation_id)
    assert (result.text, till.paid) == ("paid ada", ["ada"])


async def test_an_approved_call_that_runs_is_finished_before_the_runtime_that_recovered_it_closes(store, till):
    async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt:
        started = await begin(rt, "pay", {"to": "ada"})
    till.released.clear()
    async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt, asyncio.timeout(BOUND_S):
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question, "allow")
        await till.began.wait()
        asyncio.get_running_loop().call_later(0.1, till.released.set)
    result = await result_elsewhere(store, till, started.invocation_id)
    assert (result.text, till.paid) == ("paid ada", ["ada"])


async def test_an_approved_call_in_memory_is_finished_before_its_runtime_closes(till):
    async with Runtime.open(tools=[till.tool], approve="wait") as rt:
        calling = asyncio.ensure_future(rt.call("pay", {"to": "ada"}))
        await event_of(rt, "tool.permission.requested")
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question, "allow")
    assert ((await calling).text, till.paid) == ("paid ada", ["ada"])


async def test_an_approved_call_that_waits_for_its_turn_is_left_to_another_runtime(store, till):
    till.released.clear()
    async with Runtime.open(store=store, tools=[till.tool], approve="wait") as rt:
        first, second = [await begin(rt, "pay", {"to": to}) for to in ("ada", "bob")]
        for question in await rt.approvals.list():
            await rt.approvals.decide(question, "allow")
        await asyncio.wait_for(till.began.wait(), BOUND_S)
        await event_of(rt, "tool.invocation.queued", second.invocation_id)
        asyncio.get_running_loop().call_later(0.1, till.released.set)
    assert till.paid == ["ada"], "only the one that ran is finished"
    for started, text in ((first, "paid ada"), (second, "paid bob")):
        assert (await result_elsewhere(store, till, started.invocation_id)).text == text
    assert till.paid == ["ada", "bob"]


async def test_a_running_call_that_no_one_was_asked_about_is_canceled(till):
    till.released.clear()
    async with Runtime.open(tools=[till.tool], rules=[{"behavior": "allow", "tool": "bank.pay"}]) as rt:
        calling = asyncio.ensure_future(rt.call("pay", {"to": "ada"}))
        await asyncio.wait_for(till.began.wait(), BOUND_S)
    assert ((await calling).error.error_class, till.paid) == ("canceled", [])
