"""Read and delete events of a long log, and receive the events of other processes."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from call_facts import TOOL, facts_of_call, invocation_number

from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.stores.fact_codec import encode_fact
from agenttool.stores.sqlite import log, writer

CALLS = 40_000


@pytest.mark.soak
async def test_a_long_log_is_opened_tailed_and_looked_up_without_reading_the_rest(open_store, tamper):
    store = open_store()
    first, lines = invocation_number(1), [encode_fact(fact) for fact in facts_of_call(1)]
    for number in range(1, CALLS):
        call = invocation_number(number)
        named = call.encode()
        store.log.group.batch.facts.extend((call, line.replace(first.encode(), named)) for line in lines)
        if number % 200 == 0:
            await store.log.settle()
    await store.close()

    store = open_store()
    for fact in facts_of_call(CALLS):  # and one that is not in the index yet
        store.log.append(fact)
    await store.log.settle()
    counts = [0]

    def count():
        counts[0] += 50

    store._reader.set_progress_handler(count, 50)
    last = store.log.last
    assert last == CALLS * 5
    for number in (1, CALLS // 2, CALLS):
        assert len(store.log.facts_of(invocation_number(number))) == 5
    assert len(store.log.read(last - 10, 100)) == 10
    assert len(store.log.read(last // 2, 10)) == 10
    assert store.log.head().position == last
    assert counts[0] < 1000
    store._reader.set_progress_handler(None, 0)
    await store.close()


async def test_a_listener_is_called_for_facts_of_another_process(open_store, write):
    here, there = open_store(), open_store()
    news = asyncio.Event()
    stop = here.log.listen(news.set)
    await write(there, 1)
    while here.log.last == 0:
        await news.wait()
        news.clear()
    assert [fact.step.name for fact in here.log.facts_of(invocation_number(1))] == [
        fact.step.name for fact in facts_of_call(1)
    ]
    stop()
    await here.close()
    await there.close()


def test_every_step_can_be_read_back_by_its_name():
    made = [each for each in vars(steps).values() if isinstance(each, Step)] + [
        *steps.ENDED.values(),
        *steps.RELEASED.values(),
        *steps.AFTER_PLAN.values(),
    ]
    assert {step.name: step for step in made} == STEPS
    assert len({step.name for step in made}) == len(made)


@pytest.mark.parametrize("row_bytes", [1, 2000, 1 << 20])
async def test_facts_that_are_too_long_for_one_row_are_split(open_store, write, tamper, monkeypatch, row_bytes):
    monkeypatch.setattr(writer, "ROW_BYTES", row_bytes)
    store = open_store()
    for number in range(1, 21):
        await write(store, number, settle=False)
    await store.log.settle()
    assert list(store.log.verify()) == []
    for number in range(1, 21):
        assert [encode_fact(fact) for fact in store.log.facts_of(invocation_number(number))] == list(
            map(encode_fact, facts_of_call(number))
        )
    rows = tamper("UPDATE facts SET last = last")
    assert rows == {1: 100, 1 << 20: 1}.get(row_bytes, rows)
    await store.close()


async def test_a_fact_that_is_too_large_for_a_row_fails_only_its_caller(open_store, write, monkeypatch):
    store = open_store()
    facts = facts_of_call(1)
    monkeypatch.setattr(log, "FACT_BYTES", max(len(encode_fact(fact)) for fact in facts) - 1)
    with pytest.raises(StoreError, match="pass a file"):
        await write(store, 1)
    monkeypatch.undo()
    await write(store, 2)
    assert list(store.log.facts_of(invocation_number(2)))
    await store.close()


@pytest.mark.soak
async def test_a_gigabyte_of_facts_does_not_affect_later_callers(open_store, write):
    store = open_store()
    words = {"words": 110_000_000 * "x"}
    for number in range(1, 11):
        store.log.append(Fact(steps.PLANNED, 1, 0, invocation_number(number), TOOL, words))
    await store.log.settle()
    await write(store, 11)
    assert store.log.last == 10 + len(facts_of_call(11))
    await store.close()


def moment(number):
    return facts_of_call(number)[0].at_ns


async def test_old_facts_are_deleted_and_the_chain_continues_from_an_anchor(open_store, write, monkeypatch):
    monkeypatch.setattr(log, "DELETE_ROWS", 7)
    store = open_store()
    await write(store, *range(1, 11))
    before = {position: fact.at_ns for position, fact in store.log.read(0, 100)}
    anchor = await store.log.delete_before(moment(6))
    assert anchor.position == 25
    left = store.log.read(0, 100)
    assert [position for position, _ in left] == list(range(26, 51))
    assert all(fact.at_ns == before[position] for position, fact in left), "positions never move"
    assert store.log.facts_of(invocation_number(3)) == ()
    assert list(store.log.verify()) == []
    await write(store, 11)
    assert store.log.last == 55
    assert list(store.log.verify()) == []
    await store.close()


async def test_positions_continue_after_all_facts_are_deleted(open_store, write):
    store = open_store()
    await write(store, 1)
    head = store.log.head()
    assert await store.log.delete_before(2**62) == head
    assert store.log.read(0, 10) == []
    assert (store.log.last, store.log.head()) == (5, head)
    await store.close()
    store = open_store()
    await write(store, 2)
    assert [position for position, _ in store.log.read(0, 10)] == [6, 7, 8, 9, 10]
    assert list(store.log.verify(head)) == []
    await store.close()


async def test_the_facts_of_an_open_call_are_not_deleted_at_any_age(open_store, write):
    store = open_store()
    await write(store, 1)
    for fact in facts_of_call(2)[:3]:
        store.log.append(fact)
    store.open_calls.save(SavedCheckpoint(invocation_number(2), kind="started", body=b""))
    await write(store, 3)
    await store.log.delete_before(2**62)
    assert [position for position, _ in store.log.read(0, 100)] == list(range(6, 14))
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_deleted_call_that_is_listed_as_started_is_not_recovered(open_store, path):
    store = open_store()
    facts = facts_of_call(1)
    for part in (facts[:3], facts[3:]):
        await store.open_calls.renew_lease(Moment(2**60))  # which lists the call as started
        for fact in part:
            store.log.append(fact)
        await store.log.settle()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM started_calls").fetchone() == (1,)
        assert (await store.log.delete_before(2**62)).position == len(facts)
        assert file.execute("SELECT count(*) FROM started_calls").fetchone() == (0,)
    await store.close()
    other = open_store()
    await other.open_calls.renew_lease(Moment(2**61))
    assert await other.open_calls.due(now=Moment(2**60 + 1), limit=9) == []
    await other.close()


async def test_a_deletion_without_old_facts_changes_nothing(open_store, write):
    store = open_store()
    await write(store, 1)
    assert (await store.log.delete_before(0)).position == 0
    assert store.log.last == 5
    assert list(store.log.verify()) == []
    await store.close()


def test_pages_are_removed_many_at_a_time(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as file:
        for statement in ("PRAGMA auto_vacuum = INCREMENTAL", "CREATE TABLE t (x)"):
            file.execute(statement)
        file.executemany("INSERT INTO t VALUES (?)", [("y" * 4000,)] * 600)
        file.execute("DELETE FROM t")
        rounds = 1
        while not log.remove_free_pages(file):
            rounds += 1
        assert (rounds, file.execute("PRAGMA freelist_count").fetchone()[0]) == (3, 0)
