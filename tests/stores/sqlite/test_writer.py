"""Append a single event in one statement while the log is unchanged, and in a full transaction otherwise."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import cycle, islice

import pytest
from call_facts import invocation_number, story_of

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit
from agenttool.stores.sqlite.connect import open_connection
from agenttool.stores.sqlite.fact_rows import MAX_UNINDEXED
from agenttool.stores.sqlite.writer import UNINDEXED_BYTES, Writer

NOW, LATER = Moment(1), Moment(10**18)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A disk that nobody calls slow, however busy this machine is, and no commit but those that a test asks for."""
    monkeypatch.setattr(group_commit, "SINGLE_WAIT_S", 60.0)
    monkeypatch.setattr(group_commit, "LINGER_S", 3600.0)


@pytest.fixture
def ways(monkeypatch):
    """Tell of each single fact whether it went the short way."""
    taken = []
    append_one = Writer.append_one

    def telling(self, lines, *, is_open):
        taken.append(append_one(self, lines, is_open=is_open))
        return taken[-1]

    monkeypatch.setattr(Writer, "append_one", telling)
    return taken


@pytest.fixture
def alive(open_store):
    """Open the file as an owner who said that they live."""

    async def alive(owner):
        store = open_store(owner)
        await store.open_calls.renew_lease(LATER)
        return store

    return alive


async def test_a_single_caller_appends_in_one_statement_until_rows_are_indexed(alive, write, ways):
    store = await alive("one")
    calls = MAX_UNINDEXED // 2
    await write(store, *range(1, calls + 1), apart=True)
    facts = calls * len(story_of(1))
    assert len(ways) == facts
    assert facts - ways.count(True) <= facts // MAX_UNINDEXED + 1
    assert store.log.last == facts
    assert list(store.log.verify()) == []
    for number in range(1, calls + 1):
        assert len(store.log.stored_facts_of(invocation_number(number))) == len(story_of(number))
    await store.close()


async def test_processes_that_write_alternately_extend_one_chain(alive, ways):
    stores = [await alive(owner) for owner in ("one", "two", "three")]
    for number, store in enumerate(islice(cycle(stores), 60), 1):
        store.log.append(story_of(number)[0])
        await store.log.settle()
    assert not any(ways)
    assert stores[0].log.last == 60
    assert list(stores[0].log.verify()) == []
    for store in stores:
        await store.close()


async def test_a_process_that_lost_its_lease_gets_an_error(alive, write, ways, tamper):
    store = await alive("one")
    await write(store, 1, apart=True)
    assert ways[-1] is True
    tamper("DELETE FROM processes")
    store.log.append(story_of(2)[0])
    with pytest.raises(LeaseLost):
        await store.log.settle()
    assert ways[-1] is False
    assert store.log.last == len(story_of(1))


async def test_a_writer_waits_while_another_process_writes(alive, write, ways, path):
    store = await alive("one")
    await write(store, 1, apart=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.log.append(story_of(2)[0])
        settling = asyncio.ensure_future(store.log.settle())
        while len(ways) == len(story_of(1)):  # noqa: ASYNC110 -- nobody tells when it is tried
            await asyncio.sleep(0)
        assert ways[-1] is False
        assert not settling.done()
        other.execute("COMMIT")
    await settling
    assert store.log.last == len(story_of(1)) + 1
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_disk_error_is_raised_and_the_fact_is_written_after_the_disk_recovers(alive, write, ways, monkeypatch):
    store = await alive("one")
    await write(store, 1, apart=True)
    store.log.append(story_of(2)[0])
    with monkeypatch.context() as failing:
        failing.setattr("agenttool.stores.sqlite.writer.APPEND_ONE", "INSERT INTO nowhere VALUES (?, ?, ?, ?, ?, ?)")
        with pytest.raises(StoreError, match="nowhere"):
            await store.log.settle()
    assert store.log.last == len(story_of(1))
    await store.log.settle()
    assert store.log.stored_facts_of(invocation_number(2)) == tuple(store.log.facts_of(invocation_number(2)))
    assert store.log.last == len(story_of(1)) + 1
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_log_that_was_cut_is_not_appended_to(alive, write, ways, tamper):
    store = await alive("one")
    await write(store, *range(1, MAX_UNINDEXED // 2), apart=True)
    assert ways[-1] is True
    tamper("DELETE FROM facts WHERE last > 10")
    store.log.append(story_of(999)[0])
    with pytest.raises(StoreError, match="the log ends at 10"):
        await store.log.settle()


async def test_a_call_appended_in_one_statement_is_recovered(alive, open_store, write, ways):
    dead, heir = await alive("dead"), open_store("heir")
    await write(dead, 1, apart=True)
    dead.log.append(story_of(2)[0])
    await dead.log.settle()
    assert ways[-1] is True
    await heir.open_calls.renew_lease(Moment(3 * 10**18))
    taken = await heir.open_calls.claim_one(invocation_number(2), now=Moment(2 * 10**18), if_due=True)
    assert taken.invocation_id == invocation_number(2)
    await heir.close()


async def test_a_long_fact_is_indexed_at_once(alive, write, ways):
    store = await alive("one")
    await write(store, 1, apart=True)
    before = len(ways)
    (first, *_) = story_of(2)
    store.log.append(
        type(first)(first.step, first.at_ns, 0, first.invocation_id, first.tool_id, {"a": "x" * UNINDEXED_BYTES})
    )
    await store.log.settle()
    assert len(ways) == before
    assert len(store.log.stored_facts_of(invocation_number(2))) == 1
    await store.close()


class Interrupted:
    """A connection during one of whose statements somebody presses Ctrl-C."""

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
    ("during", "calls"), [("INSERT INTO facts", [2]), ("COMMIT", [2, 3])], ids=["one call", "several"]
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
            for fact in story_of(call)[:2]:
                store.log.append(fact)
        made[-1].during, made[-1].is_over = during, is_over

        async def settle():
            await store.log.settle()
            await asyncio.sleep(0)

        with pytest.raises(KeyboardInterrupt):
            runner.run(settle())
        assert made[-1].during is None
        assert len(store.log.stored_facts_of(invocation_number(2))) == (2 if is_over else 0)
        runner.run(settle())
        assert len(store.log.stored_facts_of(invocation_number(2))) == 2
        assert store.log.last == len(story_of(1)) + 2 * len(calls)
        assert list(store.log.verify()) == []
        runner.run(store.close())
