"""Commits of one caller: beside other processes, after errors and interrupts, and as the write-ahead log grows."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import count, cycle, islice

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit, writer
from agenttool.stores.sqlite.connect import open_connection
from agenttool.stores.sqlite.fact_rows import MAX_UNINDEXED
from agenttool.stores.sqlite.writer import UNINDEXED_BYTES

NOW, LATER = Moment(1), Moment(10**18)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A disk that is never slow, however busy this machine is, and no commit but those that a test asks for."""
    monkeypatch.setattr(group_commit, "SINGLE_WAIT_S", 60.0)
    monkeypatch.setattr(group_commit, "LINGER_S", 3600.0)


@pytest.fixture
def alive(open_store):
    """Open the file as an owner who said that they live."""

    async def alive(owner):
        store = open_store(owner)
        await store.open_calls.renew_lease(LATER)
        return store

    return alive


async def test_processes_that_write_alternately_extend_one_chain(alive):
    stores = [await alive(owner) for owner in ("one", "two", "three")]
    for number, store in enumerate(islice(cycle(stores), 60), 1):
        store.log.append(facts_of_call(number)[0])
        await store.log.settle()
    assert stores[0].log.last == 60
    assert list(stores[0].log.verify()) == []
    for store in stores:
        await store.close()


async def test_a_process_that_lost_its_lease_gets_an_error(alive, write, tamper):
    store = await alive("one")
    await write(store, 1, apart=True)
    tamper("DELETE FROM processes")
    store.log.append(facts_of_call(2)[0])
    with pytest.raises(LeaseLost):
        await store.log.settle()
    assert store.log.last == len(facts_of_call(1))


async def test_a_writer_waits_while_another_process_writes(alive, write, path):
    store = await alive("one")
    await write(store, 1, apart=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.log.append(facts_of_call(2)[0])
        settling = asyncio.ensure_future(store.log.settle())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not settling.done()
        other.execute("COMMIT")
    await settling
    assert store.log.last == len(facts_of_call(1)) + 1
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_disk_error_is_raised_and_the_fact_is_written_after_the_disk_recovers(alive, write, monkeypatch):
    store = await alive("one")
    await write(store, 1, apart=True)
    store.log.append(facts_of_call(2)[0])
    with monkeypatch.context() as failing:
        failing.setattr(writer, "_INSERT", "INSERT INTO nowhere VALUES (?, ?, ?, ?)")
        with pytest.raises(StoreError, match="nowhere"):
            await store.log.settle()
    assert store.log.last == len(facts_of_call(1))
    await store.log.settle()
    assert store.log.stored_facts_of(invocation_number(2)) == tuple(store.log.facts_of(invocation_number(2)))
    assert store.log.last == len(facts_of_call(1)) + 1
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_log_that_was_cut_is_not_appended_to(alive, write, tamper):
    store = await alive("one")
    await write(store, *range(1, MAX_UNINDEXED // 2), apart=True)
    tamper("DELETE FROM facts WHERE last > 10")
    store.log.append(facts_of_call(999)[0])
    with pytest.raises(StoreError, match="the log ends at 10"):
        await store.log.settle()


async def test_a_call_of_a_single_caller_is_recovered(alive, open_store, write):
    dead, successor = await alive("dead"), open_store("successor")
    await write(dead, 1, apart=True)
    dead.log.append(facts_of_call(2)[0])
    await dead.log.settle()
    await successor.open_calls.renew_lease(Moment(3 * 10**18))
    taken = await successor.open_calls.claim_one(invocation_number(2), now=Moment(2 * 10**18), if_due=True)
    assert taken.invocation_id == invocation_number(2)
    await successor.close()


async def test_a_long_fact_is_indexed_at_once(alive, write):
    store = await alive("one")
    await write(store, 1, apart=True)
    (first, *_) = facts_of_call(2)
    store.log.append(
        type(first)(first.step, first.at_ns, 0, first.invocation_id, first.tool_id, {"a": "x" * UNINDEXED_BYTES})
    )
    await store.log.settle()
    query = "SELECT count(*) FROM facts_of_call WHERE invocation_id = ?"
    assert store._reader.execute(query, (invocation_number(2),)).fetchone() == (1,)
    assert len(store.log.stored_facts_of(invocation_number(2))) == 1
    await store.close()


class Interrupted:
    """A connection that raises KeyboardInterrupt during one of its statements."""

    def __init__(self, connection):
        self.connection = connection
        self.during = self.is_over = None

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, *values):
        if self.during is None or not statement.startswith(self.during):
            return self.connection.execute(statement, *values)
        self.during = None
        if self.is_over:
            self.connection.execute(statement, *values)
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_over", [False, True], ids=["just before", "just after"])
@pytest.mark.parametrize(
    ("during", "calls"),
    [("INSERT INTO facts", [2]), ("COMMIT", [2]), ("COMMIT", [2, 3])],
    ids=["a row of one call", "one call", "several"],
)
def test_an_interrupt_loses_nothing_and_has_nothing_written_twice(alive, write, monkeypatch, during, calls, is_over):
    made = []

    def connecting(*given, **named):
        made.append(Interrupted(open_connection(*given, **named)))
        return made[-1]

    monkeypatch.setattr("agenttool.stores.sqlite.writer.open_connection", connecting)
    with asyncio.Runner() as runner:
        store = runner.run(alive("one"))
        runner.run(write(store, 1, apart=True))
        for call in calls:
            for fact in facts_of_call(call)[:2]:
                store.log.append(fact)
        made[-1].during, made[-1].is_over = during, is_over

        async def settle():
            await store.log.settle()
            await asyncio.sleep(0)

        with pytest.raises(KeyboardInterrupt):
            runner.run(settle())
        assert made[-1].during is None
        assert len(store.log.stored_facts_of(invocation_number(2))) == (2 if is_over and during == "COMMIT" else 0)
        runner.run(settle())
        assert len(store.log.stored_facts_of(invocation_number(2))) == 2
        assert store.log.last == len(facts_of_call(1)) + 2 * len(calls)
        assert list(store.log.verify()) == []
        runner.run(store.close())


def log_size(path):
    return path.with_name(f"{path.name}-wal").stat().st_size


@pytest.fixture
def small_log(monkeypatch):
    """Small limits of the write-ahead log."""
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(writer, "MAX_PAGES", 40)
    monkeypatch.setattr(writer, "LOG_BYTES", 80 * 4096)


async def test_the_write_ahead_log_stays_small_though_each_process_is_killed_early(open_store, write, path, small_log):
    for number in range(60):
        await write(open_store(f"process {number}"), number + 1)  # and it is never closed
    assert log_size(path) < 100 * 4096


async def test_a_write_ahead_log_that_grew_while_it_was_read_is_emptied_afterwards(open_store, write, path, small_log):
    store = open_store()
    await write(store, 1)
    with closing(open_connection(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM facts").fetchone()
        await write(store, *range(2, 200))
        assert log_size(path) > writer.LOG_BYTES
    numbers = count(200)
    async with asyncio.timeout(60):
        while log_size(path) > writer.LOG_BYTES:  # the last connection that is closed would delete it
            await write(store, *islice(numbers, 10))
    assert list(store.log.verify()) == []
    await store.close()
