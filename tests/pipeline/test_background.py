"""Waits for calls that were started and left."""

import asyncio

from agenttool import Runtime, tool
from agenttool.pipeline import background
from agenttool.pipeline.background import BackgroundCalls

BOUND_S = 60


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


async def test_a_wait_for_a_call_of_this_process_reads_the_journal_at_its_start_and_end_only(monkeypatch):
    reads, read = [], BackgroundCalls._stored_result

    async def counted(self, invocation_id):
        reads.append(invocation_id)
        return await read(self, invocation_id)

    monkeypatch.setattr(BackgroundCalls, "_stored_result", counted)
    monkeypatch.setattr(background, "POLL_S", 0.0)
    monkeypatch.setattr(background, "OWN_POLL_S", 3600.0)
    async with asyncio.timeout(BOUND_S), Runtime.open(tools=[send, add], approve="wait") as rt:
        first, second = [(await rt.start("send", {"to": name})).invocation_id for name in ("ada", "bob")]
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(rt.wait(each, BOUND_S)) for each in (first, second)]
            for number in range(20):
                await rt.call("add", {"a": number, "b": 1})
            await rt.cancel(first)
            await waits[0]
            before = sorted(reads)
            await rt.cancel(second)
    assert (before.count(first), before.count(second), reads.count(second)) == (2, 1, 2)


async def test_a_submitted_call_is_known_by_its_id_tool_and_status_and_a_key_finds_it_again():
    async with Runtime.open(tools=[send, add], approve="wait") as rt:
        for name, arguments in (("add", {"a": 1, "b": 2}), ("send", {"to": "ada"})):
            first = await rt.submit(name, arguments, idempotency_key=name)
            invocation = await rt.journal.invocation(first.invocation_id)
            assert first == (invocation.invocation_id, invocation.tool_id, invocation.status)
            assert await rt.submit(name, arguments, idempotency_key=name) == first


async def test_a_key_finds_its_call_after_the_first_caller_stopped_waiting_for_it(tmp_path):
    async with Runtime.open(store=tmp_path / "calls.db", tools=[add]) as rt:
        for turns in range(15):  # it stops at each step of the start
            key = f"key {turns}"
            first = asyncio.create_task(rt.start("add", {"a": 1, "b": 2}, idempotency_key=key))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            async with asyncio.timeout(60):
                again = await rt.start("add", {"a": 1, "b": 2}, idempotency_key=key)
                result = await rt.wait(again.invocation_id)
            assert result.value == 3
