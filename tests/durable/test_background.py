"""Waits for calls that were started and left."""

import asyncio
from datetime import timedelta

import pytest
from starting import begin

from agenttool import ConfigError, Context, Runtime, StoreError, tool
from agenttool.durable import background
from agenttool.durable.background import BackgroundCalls

BOUND_S = 60


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool(namespace="night", read_only=True)
async def sleep() -> None:
    """Sleep."""
    await asyncio.Event().wait()


async def test_a_wait_for_an_open_call_of_this_process_reads_the_journal_at_its_end_only(monkeypatch):
    reads, read = [], BackgroundCalls._stored_result

    async def counted(self, invocation_id):
        reads.append(invocation_id)
        return await read(self, invocation_id)

    monkeypatch.setattr(BackgroundCalls, "_stored_result", counted)
    monkeypatch.setattr(background, "POLL_S", 0.0)
    monkeypatch.setattr(background, "OWN_POLL_S", 3600.0)
    async with asyncio.timeout(BOUND_S), Runtime.open(tools=[send, add], approve="wait") as rt:
        first, second = [(await begin(rt, "send", {"to": name})).invocation_id for name in ("ada", "bob")]
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(rt.calls.get(each).result(BOUND_S)) for each in (first, second)]
            for number in range(20):
                await rt.call("add", {"a": number, "b": 1})
            await rt.cancel(first)
            await waits[0]
            before = sorted(reads)
            await rt.cancel(second)
    assert (before.count(first), before.count(second), reads.count(second)) == (1, 0, 1)


async def test_a_started_call_is_known_by_its_id_tool_and_status_and_a_key_finds_it_again():
    async with Runtime.open(tools=[send, add], approve="wait") as rt:
        for name, arguments in (("add", {"a": 1, "b": 2}), ("send", {"to": "ada"})):
            first = await (await rt.start(name, arguments, idempotency_key=name)).idle()
            invocation = await rt.journal.invocation(first.id)
            again = await rt.start(name, arguments, idempotency_key=name)
            for each in (first, again, rt.calls.get(first.id)):
                assert (each.id, each.tool_id, each.status) == (first.id, invocation.tool_id, invocation.status)
                assert repr(each) == f"<call {first.id}: {invocation.status.value}>"


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_handle_of_a_call_reports_its_progress_and_its_result_also_after_its_end(tmp_path, store):
    may_end = asyncio.Event()

    @tool(read_only=True)
    async def grow(context: Context, beds: int) -> str:
        """Grow."""
        for bed in range(beds):
            context.progress(f"bed {bed}")
        await may_end.wait()
        context.progress("ripe")
        return "done"

    async with (
        asyncio.timeout(BOUND_S),
        Runtime.open(store=tmp_path / "calls.db" if store == "sqlite" else store, tools=[grow]) as rt,
    ):
        call = await rt.start("grow", {"beds": 2})
        assert await call.result(within_s=0.01) is None
        seen = []
        async for each in call.progress():
            seen.append(each.message)
            if each.message == "bed 1":
                may_end.set()
        assert seen == ["bed 0", "bed 1", "ripe"]
        assert (await call.result()).value == "done"
        again = rt.calls.get(call.id)
        assert [each.message async for each in again.progress()] == seen
        assert (again.status, (await again.result()).text, await again.cancel()) == ("succeeded", "done", False)


async def test_a_handle_cancels_its_call():
    async with Runtime.open(tools=[send], approve="wait") as rt:
        call = await (await rt.start("send", {"to": "ada"})).idle()
        assert call.status == "awaiting_approval"
        assert await call.cancel()
        assert (await call.result()).status == "canceled"
        assert call.status == "canceled"


async def test_a_key_finds_its_call_after_the_first_caller_stopped_waiting_for_it(tmp_path):
    async with Runtime.open(store=tmp_path / "calls.db", tools=[add]) as rt:
        for turns in range(15):  # it stops at each step of the start
            key = f"key {turns}"
            first = asyncio.create_task(begin(rt, "add", {"a": 1, "b": 2}, idempotency_key=key))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            async with asyncio.timeout(60):
                again = await begin(rt, "add", {"a": 1, "b": 2}, idempotency_key=key)
                result = await rt.calls.get(again.invocation_id).result()
            assert result.value == 3


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_wait_gets_the_result_of_a_call_that_the_close_of_its_runtime_cancels(tmp_path, store):
    place = tmp_path / "calls.db" if store == "sqlite" else store
    async with asyncio.timeout(BOUND_S), Runtime.open(store=place, tools=[send, sleep], approve="wait") as rt:
        running, waiting = await rt.start("sleep", {}), await (await rt.start("send", {"to": "ada"})).idle()
        results = [asyncio.create_task(each.result()) for each in (running, waiting)]
        await asyncio.sleep(0)
    ended, left = await asyncio.gather(*results, return_exceptions=True)
    assert ended.error.abort_reason == "runtime_shutdown"
    assert isinstance(left, ConfigError) if store == "sqlite" else left.error.abort_reason == "runtime_shutdown"


async def test_a_handle_names_the_closed_runtime_as_the_reason_why_it_cannot_be_read(tmp_path):
    async with asyncio.timeout(BOUND_S), Runtime.open(store=tmp_path / "calls.db", tools=[send]) as rt:
        call = await (await rt.start("send", {"to": "ada"})).idle()
    assert repr(call) == f"<call {call.id}: unknown status>"
    with pytest.raises(ConfigError, match="the runtime was closed"):
        await call.result()
    for read in (lambda: call.status, lambda: rt.calls.get(call.id)):
        with pytest.raises(StoreError, match="was closed with its runtime; open another one"):
            read()


async def test_a_handle_of_a_call_that_retention_deleted_does_not_wait_for_it(tmp_path):
    async with asyncio.timeout(BOUND_S), Runtime.open(store=tmp_path / "calls.db", tools=[add]) as rt:
        call = await rt.start("add", {"a": 1, "b": 2})
        await call.result()
        found = rt.calls.get(call.id)
        await rt.journal.retain(journal=timedelta(0))
        for each in (call, found):
            with pytest.raises(ConfigError, match="it was deleted"):
                await each.result()
        with pytest.raises(ConfigError, match="it was deleted"):
            _ = found.status


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_handle_is_idle_at_each_question_of_its_call_and_not_between_them(tmp_path, store):
    @tool(namespace="mail", read_only=True)
    async def send_to_all(context: Context, names: list[str]) -> list[str]:
        """Send a letter to each."""
        return [(await context.call("send", {"to": name})).text for name in names]

    place = tmp_path / "calls.db" if store == "sqlite" else store
    async with asyncio.timeout(BOUND_S), Runtime.open(store=place, tools=[send, send_to_all], approve="wait") as rt:
        call, asked = await rt.start("send_to_all", {"names": ["ada", "bob"]}), []
        while (await call.idle()).status != "succeeded":
            (question,) = await rt.approvals.list()
            asked.append(question.shown["to"])
            await rt.approvals.decide(question, "allow")
            await asyncio.sleep(0)
    assert asked == ["ada", "bob"]
