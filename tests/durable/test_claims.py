"""A process that has claimed a call of a dead one resumes it, or releases it for every process, whatever happens then."""

import asyncio
from math import inf

import pytest

from agenttool.durable import recovery
from agenttool.errors import StoreError
from agenttool.policy.approvals import Answered
from agenttool.stores.sqlite.open_calls import SqliteOpenCalls


@pytest.fixture
def after_claim(monkeypatch):
    """Do something after each claim, before the process that made it knows about it."""

    def after_claim(act):
        claim_one = SqliteOpenCalls.claim_one

        async def claim(self, invocation_id, **options):
            opened = await claim_one(self, invocation_id, **options)
            if opened is not None:
                await act(opened)
            return opened

        monkeypatch.setattr(SqliteOpenCalls, "claim_one", claim)

    return after_claim


async def test_a_claimed_call_is_resumed_although_the_task_that_recovers_it_is_canceled(
    dies, survivor, ended, sound, after_claim, monkeypatch
):
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", inf)  # only `recover` looks for calls
    dies("put", 4)
    async with survivor() as rt:

        async def cancel_recovery(_):
            recovering.cancel()
            await asyncio.sleep(0)

        after_claim(cancel_recovery)
        recovering = asyncio.ensure_future(rt.calls.recover())
        while not (await asyncio.wait([recovering]) and recovering.cancelled()):  # until the lease has expired
            await asyncio.sleep(0.02)
            recovering = asyncio.ensure_future(rt.calls.recover())
        assert [each.error for each in await ended(rt)] == [None]
        await sound(rt)


async def test_a_nested_call_that_is_claimed_while_its_parent_is_canceled_ends_and_does_not_run(
    asking, survivor, ended, sound, after_claim, living, tmp_path
):
    with asking(4, "courier") as (child, approval_id):
        child.kill()
    async with survivor(tools=[]) as without_tools:
        assert isinstance(await without_tools.approvals.decide(approval_id, "allow", by="ada"), Answered)
    async with survivor() as rt:
        parents = []

        async def cancel_parent(opened):
            if opened.approval_id is None:
                parents.append(opened.invocation_id)
            else:
                assert await rt.cancel(*parents)
                await asyncio.sleep(0)

        after_claim(cancel_parent)
        results = await ended(rt, 2)
        assert [each.error.error_class for each in results] == ["canceled", "canceled"]
        assert living.ledger_of(tmp_path) == []
        await sound(rt)


async def test_a_claimed_call_that_could_not_be_read_is_released_and_resumed_later(
    dies, survivor, ended, sound, monkeypatch
):
    restore_call, faults = recovery.restore_call, [StoreError("the disk failed")]

    def restore(*given):
        if faults:
            raise faults.pop()
        return restore_call(*given)

    monkeypatch.setattr(recovery, "restore_call", restore)
    dies("put", 4)
    async with survivor() as rt:
        assert [each.error for each in await ended(rt)] == [None]
        assert faults == []
        await sound(rt)
