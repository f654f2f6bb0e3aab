"""A call whose process died while its tool ran: what it did is not known, and it is not done again without leave."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from agenttool import Runtime, tool
from agenttool.call.checkpoint import journal_unavailable
from agenttool.durable import resume
from agenttool.durable.resume import MAX_ATTEMPTS
from agenttool.errors import StoreError


@pytest.mark.requirement("AT-INV-13")
async def test_what_may_have_run_is_not_run_again(dies, survivor, ended, sound, living, tmp_path):
    dies("pay", 4)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert result.error.retry.safe is False
        assert await rt.calls.recover() == 0
        assert living.ledger_of(tmp_path) == [("pay", result.invocation_id, 4)]
        await sound(rt)


@pytest.mark.parametrize("changed", [{"mode": "read_only"}, {"rules": [{"behavior": "deny", "tool": "local.put"}]}])
async def test_what_the_rules_deny_now_is_not_run_again(dies, survivor, ended, sound, living, tmp_path, changed):
    dies("put", 4)
    async with survivor(**changed) as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert "it was not run again: " in result.error.message
        assert living.ledger_of(tmp_path) == [("put", result.invocation_id, 4)]
        await sound(rt)


@pytest.mark.requirement("AT-EXEC-08")
@pytest.mark.parametrize(
    ("name", "flags", "runs"), [("pay", (False, False), 1), ("put", (True, True), 2), ("look", (False, False), 1)]
)
async def test_an_interrupted_call_is_resumed_only_if_its_profile_says_so(
    dies, survivor, ended, living, tmp_path, name, flags, runs
):
    dies(name, 4)
    async with survivor() as rt:
        (result,) = await ended(rt)
        (profile,) = [
            each async for each in rt.journal.export() if getattr(each, "execution_profile_id", "").endswith(f".{name}")
        ]
    assert (profile.supports_resume, profile.supports_retries) == flags
    assert (result.error is None) == (runs == 2)


@pytest.mark.requirement("AT-EXEC-08")
@pytest.mark.parametrize(("options", "runs"), [({"idempotent": True}, 2), ({"read_only": True}, 1), ({}, 1)], ids=str)
async def test_a_failed_call_is_retried_only_if_its_profile_says_so(options, runs):
    tried = []

    @tool(**options)
    async def fetch() -> str:
        """Fail once."""
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError("refused")
        return "here"

    assert fetch.declared.execution_profile.supports_retries is (runs == 2)
    async with Runtime.open(tools=[fetch], approve=lambda _: True) as rt:
        await rt.call("fetch", {})
    assert len(tried) == runs


async def test_what_is_safe_to_repeat_runs_again_under_the_same_id(dies, survivor, ended, sound, living, tmp_path):
    dies("put", 4)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error is None
        assert living.ledger_of(tmp_path) == [("put", result.invocation_id, 4)] * 2
        await sound(rt)


async def test_a_call_that_kills_each_process_is_not_given_to_yet_another(
    dies, survivor, ended, sound, living, tmp_path
):
    for _ in range(MAX_ATTEMPTS):
        dies("put", 4)  # each child also recovers the call of the one before, and dies of either
    async with survivor() as rt:
        results = await ended(rt, len({call for _, call, _ in living.ledger_of(tmp_path)}))
        tried = [call for _, call, _ in living.ledger_of(tmp_path)]
        assert max(tried.count(call) for call in tried) <= MAX_ATTEMPTS
        for result in results:
            is_given_up = result.error is not None and result.error.error_code == "unknown_after_crash"
            assert is_given_up == (tried.count(result.invocation_id) == MAX_ATTEMPTS and result.error is not None)
        await sound(rt)


async def test_a_call_whose_tool_is_missing_waits_for_a_process_that_has_it(
    dies, survivor, ended, sound, living, tmp_path
):
    dies("put", 4)
    put = living.tools_of(tmp_path)[1]
    async with survivor(tools=[]) as without:
        async with asyncio.timeout(60):
            while await _owner_is_alive(tmp_path):
                await asyncio.sleep(0.02)
        assert await without.calls.recover() == 0
        async with survivor() as rt:
            (result,) = await ended(rt)
            assert result.error is None
            await sound(rt)
        without.declare(put.declared)
        assert await without.calls.recover() == 0
        assert living.ledger_of(tmp_path) == [("put", result.invocation_id, 4)] * 2


async def test_a_tool_that_is_declared_late_is_enough(dies, survivor, ended, living, tmp_path):
    dies("put", 4)
    async with survivor(tools=[]) as rt:
        await rt.calls.recover()
        rt.declare(living.tools_of(tmp_path)[1].declared)
        (result,) = await ended(rt)
        assert result.error is None


async def test_a_tool_that_changed_is_not_run_again(dies, survivor, ended, living, tmp_path):
    dies("put", 4)
    put = living.tools_of(tmp_path)[1]
    changed = tool(idempotent=True, description="Put elsewhere.")(put.function)
    async with survivor(tools=[changed]) as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert len(living.ledger_of(tmp_path)) == 1


async def test_two_processes_that_resume_at_once_never_both_take_a_call(dies, survivor, ended, sound, living, tmp_path):
    for number in range(3):
        dies("pay", number)
    async with survivor() as one, survivor() as two, survivor() as three:
        await asyncio.gather(*(rt.calls.recover() for rt in (one, two, three) for _ in range(5)))
        results = await ended(one, 3)
        assert {result.error.error_code for result in results} == {"unknown_after_crash"}
        assert len(living.ledger_of(tmp_path)) == len(results) == 3
        await sound(two)


async def test_a_second_attempt_that_cannot_be_stored_does_not_say_that_nothing_ran(
    dies, survivor, ended, living, tmp_path, monkeypatch
):
    async def on_a_full_disk(call):
        raise journal_unavailable(call, StoreError("there is no room"))

    dies("put", 1)
    monkeypatch.setattr(resume, "flush", on_a_full_disk)
    async with survivor() as rt:
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
        assert result.error.retry.safe is False
        assert len(living.ledger_of(tmp_path)) == 1


async def _owner_is_alive(folder):
    with closing(sqlite3.connect(folder / "state.db")) as file:
        (count,) = file.execute(
            "SELECT count(*) FROM processes WHERE alive_until_ns > unixepoch('subsec') * 1e9"
        ).fetchone()
    return count > 1
