"""A call of which the log has facts, though nothing of it was held: it had not started, or it only read."""

import asyncio
import sqlite3
from contextlib import closing
from math import inf

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.durable import recovery
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import LeaseLost
from agenttool.ports.world import Moment
from agenttool.stores.sqlite.store import SqliteStore

BOUND_S = 60


async def test_a_call_that_only_read_ends_as_one_whose_process_died(dies, survivor, ended, sound):
    dies("look", 4)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert (result.error.error_class, result.error.error_code) == ("canceled", "process_died")
        assert result.error.retry.safe is True
        assert (await rt.journal.invocation(result.invocation_id)).status == "canceled"
        await sound(rt)


@pytest.mark.requirement("AT-INV-13")
async def test_a_call_that_stood_in_line_ends_and_was_never_run(dies, survivor, ended, sound, living, tmp_path):
    dies("line", 4)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "process_died"
        assert living.ledger_of(tmp_path) == []
        exported = await sound(rt)
        assert "queued" in {
            move.status for each in exported for move in getattr(each, "status_transitions", None) or ()
        }


async def test_a_call_that_ends_with_its_process_is_not_confirmed_as_one_that_continues(
    dies, survivor, ended, monkeypatch
):
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", inf)  # only `recover` looks for calls
    dies("line", 4)
    async with survivor() as rt:
        (waiting,) = await rt._core.durability.checkpoints.page(limit=9)
        with pytest.raises(LeaseLost, match="before the call started"):
            await rt.journal.checkpoint([waiting.invocation_id])
        while not await rt.calls.recover():
            await asyncio.sleep(0.02)
        assert [each.error.error_code for each in await ended(rt)] == ["process_died"]
        await rt.journal.checkpoint([waiting.invocation_id])


async def test_a_process_without_any_tool_ends_such_calls_too(dies, survivor, ended):
    dies("look", 4)
    async with survivor(tools=[]) as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "process_died"


async def test_a_call_that_is_under_way_in_a_process_that_lives_is_left_alone(survivor, living):
    entered, proceed = asyncio.Event(), asyncio.Event()

    async def wait(number: int) -> int:
        """Wait."""
        entered.set()
        await proceed.wait()
        return number

    longer = living.LONG_LEASE_S
    async with survivor(tools=[wait], lease_s=longer) as one, survivor(tools=[wait], lease_s=longer) as two:
        calling = asyncio.ensure_future(one.call("wait", {"number": 3}, surface=await one.surface()))
        await entered.wait()
        await one._core.journal.log.settle()
        assert await two.calls.recover() == 0
        proceed.set()
        result = await calling
        assert result.error is None
        assert await two.journal.result(result.invocation_id) == result
        assert await two._core.durability.checkpoints.page(limit=10) == []


async def test_a_call_that_the_log_cannot_read_any_more_holds_up_no_other(survivor, tmp_path):
    calls = [invocation_number(number) for number in (1, 2, 3)]
    store = SqliteStore.open(tmp_path / "state.db", steps=STEPS)
    await store.open_calls.renew_lease(Moment(now_ns=2**62, steady_ns=2**62, since="here"))
    for number in (1, 2, 3):
        for fact in facts_of_call(number)[:2]:
            store.log.append(fact)
        await store.log.settle()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        spoiled = (
            """UPDATE facts SET lines = replace(CAST(lines AS TEXT), '["', '["un')"""
            " WHERE last IN (SELECT last FROM facts_of_call WHERE invocation_id = ?)"
        )
        assert file.execute(spoiled, calls[1:2]).rowcount == 1
    async with survivor() as rt:
        async with asyncio.timeout(BOUND_S):
            while await rt.journal.result(calls[2]) is None or await rt.journal.result(calls[0]) is None:
                await asyncio.sleep(0.02)
        assert await rt.calls.recover() == 0
        assert [each.invocation_id for each in await rt._core.durability.checkpoints.page(limit=10)] == calls[1:2]
        assert {flaw.what for flaw in rt._core.journal.log.verify()} >= {"hash", "fact"}
