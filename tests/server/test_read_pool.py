"""Reads of the journal by requests: in threads of their own, with a limit for each caller."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from agenttool import Runtime
from agenttool.errors import ConfigError, QuotaError
from agenttool.history.listed_call import CallFilter
from agenttool.journal.steps import STEPS
from agenttool.ports.identity import IdentityKind, Principal
from agenttool.ports.quota import PER_CALLER
from agenttool.server.read_pool import THREADS_OF_CALLER, ReadPool
from agenttool.server.tenants import Tenant
from agenttool.stores.sqlite.fact_rows import FactFilter
from agenttool.stores.sqlite.reader import SqliteReader

MAX_READS = PER_CALLER["reads of the journal"]
ANN, BOB = (Principal(subject=each, kind=IdentityKind.KEY) for each in ("ann", "bob"))


@pytest.fixture
def open_tenant(tmp_path):
    @asynccontextmanager
    async def open_tenant():
        file = tmp_path / "calls.db"
        async with Runtime.open(store=f"sqlite:{file}") as rt:
            yield Tenant(rt, file=file)

    return open_tenant


async def test_reads_of_one_caller_leave_a_thread_for_others_and_are_limited(open_tenant):
    async with open_tenant() as tenant:
        pool, may_end, running = ReadPool(), threading.Event(), threading.Semaphore(0)

        def wait(_):
            running.release()
            assert may_end.wait(60)
            return threading.current_thread().name

        reads = [asyncio.create_task(pool.read(tenant, ANN, wait)) for _ in range(MAX_READS)]
        try:
            for _ in range(THREADS_OF_CALLER):
                assert await asyncio.to_thread(running.acquire, timeout=60)
            with pytest.raises(QuotaError, match="16 reads of the journal, which is the limit"):
                await pool.read(tenant, ANN, wait)
            assert (await pool.read(tenant, BOB, lambda reader: reader.head())).position >= 0
        finally:
            may_end.set()
        names = await asyncio.gather(*reads)
        assert {each.rpartition("_")[0] for each in names} == {"agenttool-read"}
        pool.close()


async def test_long_reads_of_many_callers_do_not_delay_a_short_read(open_tenant, monkeypatch):
    monkeypatch.setattr("agenttool.server.read_pool.SHORT_S", 0.0)
    async with open_tenant() as tenant:
        await tenant.runtime.call("nothing", {})
        pool, may_end, running = ReadPool(), threading.Event(), threading.Semaphore(0)

        def search(reader):
            running.release()
            while not may_end.is_set():
                assert len([*reader.calls(CallFilter().facts)]) == 1
            return True

        callers = [Principal(subject=f"c{number}", kind=IdentityKind.KEY) for number in range(4)] * 2
        reads = [asyncio.create_task(pool.read(tenant, caller, search)) for caller in callers]
        try:
            for _ in reads:
                assert await asyncio.to_thread(running.acquire, timeout=60)
            assert (await pool.read(tenant, BOB, lambda reader: reader.head())).position >= 0
        finally:
            may_end.set()
        assert await asyncio.gather(*reads) == [True] * len(reads)
        pool.close()


async def test_a_read_that_fails_frees_its_place(open_tenant):
    async with open_tenant() as tenant:
        pool = ReadPool()

        def fail(_):
            raise ConfigError("no such call; use another")

        for _ in range(MAX_READS + 1):
            with pytest.raises(ConfigError):
                await pool.read(tenant, ANN, fail)
        pool.close()


async def test_a_long_read_pauses_so_that_the_event_loop_continues(open_tenant, monkeypatch):
    async with open_tenant() as tenant:
        pauses = []
        monkeypatch.setattr("agenttool.server.read_pool.WORK_S", 0.0)
        monkeypatch.setattr("agenttool.server.read_pool.time.sleep", pauses.append)
        for _ in range(3):
            await tenant.runtime.call("nothing", {})
        pool = ReadPool()
        calls = await pool.read(tenant, ANN, lambda reader: len([*reader.calls(CallFilter().facts)]))
        pool.close()
        assert (calls, len(pauses) >= calls) == (3, True)


async def test_a_query_that_finds_nothing_for_long_pauses_too(open_tenant):
    async with open_tenant() as tenant:
        for _ in range(400):
            await tenant.runtime.call("nothing", {})
        pauses = []
        with SqliteReader.open(tenant.file, steps=STEPS, pause=lambda: pauses.append(1)) as reader:
            assert [*reader.read(0, wanted=FactFilter(text=b"no such text"))] == []
        assert pauses
