"""The system clock is set: no lease is affected, and the times of a call never go back."""

import asyncio
import signal
import time

import pytest

from agenttool import Progress, tool
from agenttool.adapters.python.threads import FunctionHook
from agenttool.hooks.definition import Hook
from agenttool.records import HookEvent
from agenttool.world import SystemClock

BOUND_S = 60
A_MINUTE_NS = 60 * 10**9
"""Longer than any lease here, and shorter than the time limit of an answer."""


@pytest.mark.parametrize("jump_ns", [A_MINUTE_NS, -A_MINUTE_NS], ids=["forward", "back"])
async def test_no_process_is_taken_for_dead_because_a_clock_was_set(
    asking, survivor, living, tmp_path, monkeypatch, jump_ns
):
    with asking(1, lease_s=living.LONG_LEASE_S) as (child, approval_id):
        monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() + jump_ns))
        async with survivor() as rt:
            (opened,) = await rt._core.durability.checkpoints.page(limit=9)
            for _ in range(5):
                assert await rt.calls.recover() == 0, "the process lives, and its call is its own"
                assert (
                    await rt._core.durability.checkpoints.claim_one(opened.invocation_id, now=rt._core.clock.moment())
                    is None
                )
                await asyncio.sleep(0.02)
            await rt.approvals.decide(approval_id, "allow")
            assert await asyncio.to_thread(child.wait, BOUND_S) == -signal.SIGKILL, "its own process ran it"
            assert len(living.ledger_of(tmp_path)) == 1


async def test_a_process_that_died_is_known_to_be_dead_though_the_clock_was_put_back(
    dies, survivor, ended, sound, living, tmp_path, monkeypatch
):
    dies("pay", 1)
    monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() - A_MINUTE_NS))
    async with survivor() as rt, asyncio.timeout(BOUND_S):
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert len(living.ledger_of(tmp_path)) == 1
        await sound(rt)


@pytest.mark.requirement("AT-INV-09")
async def test_times_of_a_call_never_go_back_though_the_clock_does(survivor, sound, monkeypatch):
    offset_ns = 0
    monkeypatch.setattr(SystemClock, "now_ns", staticmethod(lambda: time.time_ns() + offset_ns))

    def set_back(*_):
        nonlocal offset_ns
        offset_ns -= A_MINUTE_NS

    async def work(steps: int) -> str:
        """Work while the clock is set back."""
        for _ in range(steps):
            set_back()
            yield Progress("some work is done")
        yield "done"

    hooks = [
        Hook(name=f"late-{event}", event=event, runner=FunctionHook(set_back))
        for event in (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
    ]
    async with survivor(tools=[tool(read_only=True)(work)], hooks=hooks) as rt:
        result = await rt.call("work", {"steps": 3}, surface=await rt.surface())
        assert result.error is None
        invocation = await rt.journal.invocation(result.invocation_id)
        times = [each.at for each in invocation.status_transitions]
        assert times == sorted(times)
        assert invocation.started_at <= result.created_at <= invocation.ended_at
        await sound(rt)
