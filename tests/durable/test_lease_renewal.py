"""A process that lives renews its lease in time, and takes no other live process for dead."""

import asyncio
import sqlite3
import time
from contextlib import closing
from math import inf

from agenttool import tool
from agenttool.durable import recovery
from agenttool.stores.sqlite.open_calls import SqliteOpenCalls
from agenttool.stores.sqlite.store import SqliteDocuments

BOUND_S = 60


def lease_ends_ns(rt, folder):
    """Return when the lease of a runtime ends."""
    with closing(sqlite3.connect(folder / "state.db")) as file:
        query = "SELECT alive_until_ns FROM processes WHERE owner = ?"
        return file.execute(query, (rt._agent.recovery.calls.owner,)).fetchone()[0]


def valid_leases(folder):
    """Return how many leases have not expired."""
    with closing(sqlite3.connect(folder / "state.db")) as file:
        query = "SELECT count(*) FROM processes WHERE alive_until_ns > ?"
        return file.execute(query, (time.time_ns(),)).fetchone()[0]


async def test_a_lease_is_renewed_while_the_search_for_calls_of_dead_processes_waits_for_the_store(
    living, tmp_path, monkeypatch
):
    is_searching, may_search = asyncio.Event(), asyncio.Event()

    async def wait(*_, **__):
        is_searching.set()
        await may_search.wait()
        return ()

    monkeypatch.setattr(SqliteDocuments, "keys", wait)
    async with asyncio.timeout(BOUND_S), living.open_runtime(tmp_path) as rt:
        await is_searching.wait()
        end_ns = lease_ends_ns(rt, tmp_path)
        while lease_ends_ns(rt, tmp_path) < end_ns + 2 * living.LEASE_S * 1e9:
            await asyncio.sleep(0.02)
        may_search.set()


async def test_a_tool_starts_with_a_valid_lease_although_its_process_was_suspended(living, tmp_path):
    @tool
    async def act() -> str:
        """Return the time until the lease ends."""
        return str(lease_ends_ns(rt, tmp_path) - time.time_ns())

    async with living.open_runtime(tmp_path, living.LONG_LEASE_S, tools=[act]) as rt:
        rt._agent.recovery._task.cancel()
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            file.execute("UPDATE processes SET alive_until_ns = 0, steady_until_ns = 0")
        rt._agent.recovery._lease._renewed_at = -inf
        result = await rt.call("act", {})
        assert int(result.text) > 0


async def test_a_process_that_could_not_write_gives_others_time_to_renew_their_leases(
    dies, survivor, ended, living, tmp_path, monkeypatch
):
    renew_lease, loop = SqliteOpenCalls.renew_lease, asyncio.get_running_loop()
    delay_s = blocked_s = 0

    async def renew_slowly(self, until):
        nonlocal blocked_s
        blocked_s += delay_s
        await renew_lease(self, until)

    async def renew(seconds):
        nonlocal delay_s
        delay_s = seconds
        rt._agent.recovery._lease._renewed_at = -inf
        await rt._agent.recovery._lease.keep()

    dies("pay", 1)
    monkeypatch.setattr(SqliteOpenCalls, "renew_lease", renew_slowly)
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", inf)  # only `recover` looks for calls
    async with survivor(lease_s=living.LONG_LEASE_S) as rt, asyncio.timeout(BOUND_S):
        rt._agent.recovery._task.cancel()
        while valid_leases(tmp_path) > 1:
            await asyncio.sleep(0.02)
        rt._core.timing.deadlines.now = lambda: loop.time() + blocked_s
        await renew(1000)
        await renew(0)
        assert await rt.calls.recover() == 0
        await renew(0)
        assert await rt.calls.recover() == 1
        (result,) = await ended(rt)
        assert result.error.error_code == "unknown_after_crash"
