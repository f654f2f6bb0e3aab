"""Somebody sets the clock on the wall: who lives goes on living, whichever process looks."""

import asyncio
import signal
import time

import pytest

from agenttool.world import SystemClock

BOUND_S = 60
A_MINUTE_NS = 60 * 10**9
"""Longer than any lease here, and shorter than anybody may take to answer."""


@pytest.mark.parametrize("jump_ns", [A_MINUTE_NS, -A_MINUTE_NS], ids=["forward", "back"])
async def test_no_process_is_taken_for_dead_because_a_clock_was_set(
    asking, survivor, living, tmp_path, monkeypatch, jump_ns
):
    with asking(1, lease_s=living.LONG_LEASE_S) as (child, approval_id):
        monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() + jump_ns))
        async with survivor() as rt:
            (opened,) = await rt._core.durability.checkpoints.page(limit=9)
            for _ in range(5):
                assert await rt.recover() == 0, "the process lives, and its call is its own"
                assert (
                    await rt._core.durability.checkpoints.claim_one(opened.invocation_id, now=rt._core.clock.moment())
                    is None
                )
                await asyncio.sleep(0.02)
            await rt.approvals.decide(approval_id, "allow")
            assert await asyncio.to_thread(child.wait, BOUND_S) == -signal.SIGKILL, "its own process ran it"
            assert len(living.ledger_of(tmp_path)) == 1


async def test_a_process_that_died_is_known_to_be_dead_though_the_clock_was_put_back(
    dies, survivor, ended, living, tmp_path, monkeypatch
):
    dies("pay", 1)
    monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() - A_MINUTE_NS))
    async with survivor() as rt, asyncio.timeout(BOUND_S):
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert len(living.ledger_of(tmp_path)) == 1
