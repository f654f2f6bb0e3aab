"""Recover exactly the started calls of a dead process, also those without a checkpoint."""

import asyncio
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from unittest.mock import patch

import pytest
from call_facts import facts_of_call, invocation_number
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import LeaseLost, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.stores.sqlite.writer import MAX_UNINDEXED_FACTS

NOW, LATER, LATEST = 1, 2, 3
PER_CALL = len(facts_of_call(1))

calls = st.integers(1, 5)
deeds = st.tuples(
    st.sampled_from(
        ["begin", "proceed", "end", "settle", "fail", "change", "many", "renew", "others", "begin", "proceed"]
    ),
    calls,
)


class Life:
    """A process that begins and ends calls beside another one, and is gone without a word."""

    def __init__(self, path):
        self.path = path
        self.store, self.living = (SqliteStore.open(path, steps=STEPS, owner=owner) for owner in ("dead", "living"))
        self.under_way, self.settled = {}, set()
        self.taken, self.stored = Counter(), Counter()
        self.numbers, self.extra_numbers = count(1), count(1000)

    async def live(self, scenario):
        """Do one thing after the other; give the calls of which the beginning is on disk and not the end.

        What is settled is there at once, for all processes, and each fact only once.
        """
        await self.store.open_calls.renew_lease(Moment(LATER))
        await self.living.open_calls.renew_lease(Moment(LATEST))
        await self.many(1)  # a process that continues alone has facts to continue from
        for what, which in scenario:
            await getattr(self, what)(which)
            if what not in ("begin", "end", "fail", "others"):
                self.settled, self.stored = set(self.under_way.values()), self.taken.copy()
            for number in self.taken:
                stored = [fact.step for fact in self.living.log.stored_facts_of(invocation_number(number))]
                assert stored == [fact.step for fact in facts_of_call(number)[: self.stored[number]]]
        for store in (self.store, self.living):
            store.log.group._writer.close()
            store._reader.close()
        return self.settled

    async def begin(self, which):
        if which not in self.under_way:
            self.under_way[which] = next(self.numbers)
            self.append_facts(self.under_way[which], 1)

    async def proceed(self, which):
        if going := [number for number in self.under_way.values() if self.taken[number] < PER_CALL - 1]:
            self.append_facts(going[which % len(going)], 1)
        await self.store.log.settle()

    async def end(self, which):
        if which in self.under_way:
            self.append_facts(self.under_way.pop(which), PER_CALL)

    def append_facts(self, number, count):
        """Take the next facts of a call."""
        for fact in facts_of_call(number)[self.taken[number] :][:count]:
            self.store.log.append(fact)
            self.taken[number] += 1

    async def settle(self, which):
        await self.store.log.settle()

    async def fail(self, which):
        """Try in vain while another process locks the file; the next attempt writes it all."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            if self.store.log.group.batch:
                with pytest.raises(StoreError):
                    await self.store.log.settle()

    async def change(self, which):
        await self.store.documents.put("kind", "key", b"")

    async def renew(self, which):
        await self.store.open_calls.renew_lease(Moment(LATER))

    async def many(self, which):
        for number in islice(self.extra_numbers, MAX_UNINDEXED_FACTS):
            for fact in facts_of_call(number):
                self.store.log.append(fact)
        await self.store.log.settle()

    async def others(self, which):
        for number in islice(self.extra_numbers, which * 3):
            for fact in facts_of_call(number)[: 1 if number % 2 else None]:
                self.living.log.append(fact)
            await self.living.log.settle()


@settings(max_examples=25, deadline=None)
@given(scenario=st.lists(deeds, min_size=10, max_size=25))
def test_recovery_finds_the_calls_of_a_dead_process_that_have_not_ended(scenario):
    async def run(folder):
        path = Path(folder) / "state.db"
        left = await Life(path).live(scenario)
        store = SqliteStore.open(path, steps=STEPS)
        await store.open_calls.renew_lease(Moment(LATEST))
        found = await store.open_calls.due(now=Moment(LATER), limit=99)
        assert list(store.log.verify()) == []
        await store.close()
        return [each.invocation_id for each in found], sorted(map(invocation_number, left))

    # Nothing comes to the disk but what is settled, no process waits for a lock, and any disk is quick enough for one alone.
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(group_commit, LINGER_S=3600, BUSY_TIMEOUT_S=0, SINGLE_WAIT_S=60.0),
    ):
        found, left = asyncio.run(run(folder))
    assert found == left


async def test_the_end_of_a_call_writes_nothing_about_calls_that_begin(open_store, path, tamper):
    store = open_store("one")
    await store.open_calls.renew_lease(Moment(LATEST))
    for number in range(1, 20):
        first, *rest = facts_of_call(number)
        store.log.append(first)
        await store.log.settle()
        written = store.log.group._writer._connection.total_changes
        for fact in rest:
            store.log.append(fact)
        await store.log.settle()
        assert store.log.group._writer._connection.total_changes - written == 1, "facts alone"
    assert store._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (0,)
    await store.close()


async def test_the_row_of_started_calls_is_deleted_once_all_have_ended(open_store, monkeypatch):
    monkeypatch.setattr("agenttool.stores.sqlite.fact_rows.MAX_ENDED", 0)
    store = open_store("one")
    await store.open_calls.renew_lease(Moment(LATEST))
    many = [facts_of_call(number) for number in range(1, MAX_UNINDEXED_FACTS + 2)]
    for first, *_ in many:
        store.log.append(first)
    await store.log.settle()
    assert store._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (1,)
    for _, *rest in many:
        for fact in rest:
            store.log.append(fact)
    await store.log.settle()
    assert store._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (1,)
    await store.open_calls.renew_lease(Moment(LATEST))
    assert store._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (0,)
    await store.close()


async def with_a_claimed_call(open_store):
    """Return the store of a process whose lease ended after it began a call, and of the one that claimed the call."""
    slept, successor = open_store("slept"), open_store("successor")
    await slept.open_calls.renew_lease(Moment(NOW))
    slept.log.append(facts_of_call(1)[0])
    await slept.log.settle()
    await successor.open_calls.renew_lease(Moment(LATEST))
    assert await successor.open_calls.claim_one(invocation_number(1), now=Moment(LATER)) is not None
    return slept, successor


async def test_a_process_that_lost_its_lease_does_not_write_the_end_of_a_claimed_call(open_store):
    slept, successor = await with_a_claimed_call(open_store)
    rest = facts_of_call(1)[1:]
    for fact in rest:
        slept.log.append(fact)
    whole = facts_of_call(2)  # one that no process can have claimed, because nothing of it was written
    for fact in whole:
        slept.log.append(fact)
    with pytest.raises(LeaseLost):
        await slept.log.settle()
    assert slept.open_calls.replace_owner() == [invocation_number(1)]
    await slept.open_calls.renew_lease(Moment(LATEST))
    assert len(successor.log.facts_of(invocation_number(1))) == 1
    assert len(successor.log.facts_of(invocation_number(2))) == len(whole)
    for fact in rest:
        successor.log.append(fact)
    await successor.log.settle()
    assert list(successor.log.verify()) == []
    await slept.close()
    await successor.close()


async def test_a_call_that_was_lost_before_any_of_it_was_stored_can_be_started_again(open_store):
    slept, successor = await with_a_claimed_call(open_store)
    slept.log.append(facts_of_call(2)[0])
    with pytest.raises(LeaseLost):
        await slept.log.settle()
    assert {*slept.open_calls.replace_owner()} == {invocation_number(1), invocation_number(2)}
    await slept.open_calls.renew_lease(Moment(LATEST))
    for fact in facts_of_call(2):
        slept.log.append(fact)
    await slept.log.settle()
    assert len(successor.log.facts_of(invocation_number(2))) == PER_CALL
    with pytest.raises(LeaseLost):
        slept.log.append(facts_of_call(1)[1])
    await slept.close()
    await successor.close()


@pytest.mark.parametrize("written", [0, 1, PER_CALL])
async def test_a_process_that_loses_its_lease_loses_the_calls_that_it_claimed(open_store, written):
    dead, slept, successor = (open_store(owner) for owner in ("dead", "slept", "successor"))
    await dead.open_calls.renew_lease(Moment(NOW))
    first, *rest = facts_of_call(1)
    dead.log.append(first)
    await dead.log.settle()
    await slept.open_calls.renew_lease(Moment(LATER + 1))
    assert await slept.open_calls.claim_one(invocation_number(1), now=Moment(LATER)) is not None
    await successor.open_calls.renew_lease(Moment(LATEST + 1))
    assert await successor.open_calls.claim_one(invocation_number(1), now=Moment(LATEST)) is not None
    for fact in rest[:written]:
        slept.log.append(fact)  # in memory only
    assert slept.open_calls.replace_owner() == [invocation_number(1)]
    await slept.open_calls.renew_lease(Moment(LATEST + 1))
    for fact in rest:
        with pytest.raises(StoreError, match="another process has claimed"):
            slept.log.append(fact)
        successor.log.append(fact)
    slept.open_calls.save(SavedCheckpoint(invocation_number(1), kind="approved", body=b""))
    slept.open_calls.remove(invocation_number(1))
    await slept.log.settle()
    await successor.log.settle()
    assert len(successor.log.facts_of(invocation_number(1))) == PER_CALL
    assert list(successor.log.verify()) == []
    for store in (dead, slept, successor):
        await store.close()


async def test_a_claimed_call_stays_with_its_new_owner_when_the_old_one_leaves_it(open_store):
    slept, successor = await with_a_claimed_call(open_store)
    slept.open_calls.save(SavedCheckpoint(invocation_number(1), kind="remote", body=b"", is_unowned=True))
    with pytest.raises(LeaseLost):
        await slept.log.settle()
    slept.open_calls.replace_owner()
    await slept.open_calls.renew_lease(Moment(LATEST))
    opened = await successor.open_calls.get(invocation_number(1))
    assert (opened.kind, opened.owner) == ("no_checkpoint", "successor")
    await slept.close()
    await successor.close()


@pytest.mark.requirement("AT-EVT-12")
@pytest.mark.parametrize("turns", range(4))
async def test_a_waiter_fails_if_its_call_is_dropped_before_the_end_is_durable(open_store, path, monkeypatch, turns):
    """They may have come at any turn: while a commit for others is under way, or gathering for the next one."""
    monkeypatch.setattr(group_commit, "ALONE_AFTER", 10**9)
    slept, successor = open_store("slept"), open_store("successor")
    await slept.open_calls.renew_lease(Moment(NOW))
    for number in (1, 2):
        slept.log.append(facts_of_call(number)[0])
    await slept.log.settle()
    await successor.open_calls.renew_lease(Moment(LATEST))
    for number in (1, 2):
        assert await successor.open_calls.claim_one(invocation_number(number), now=Moment(LATER)) is not None

    async def end(number):
        for fact in facts_of_call(number)[1:]:
            slept.log.append(fact)
        await slept.log.settle()

    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ends = [asyncio.ensure_future(end(1))]
    for _ in range(turns):
        await asyncio.sleep(0)
    ends.append(asyncio.ensure_future(end(2)))
    await asyncio.sleep(0)
    slept.open_calls.replace_owner()
    other.execute("ROLLBACK")
    other.close()
    await slept.open_calls.renew_lease(Moment(LATEST))
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert [isinstance(each, LeaseLost) for each in outcomes] == [True, True], outcomes
    assert [len(successor.log.facts_of(invocation_number(number))) for number in (1, 2)] == [1, 1]
    await slept.close()
    await successor.close()


async def test_a_damaged_row_does_not_hide_the_other_started_calls(open_store, tamper):
    dead, successor = open_store("dead"), open_store("successor")
    await dead.open_calls.renew_lease(Moment(NOW))
    dead.log.append(facts_of_call(1)[0])
    await dead.log.settle()
    tamper("INSERT INTO started_calls VALUES ('dead', 7, 'no list')")
    await successor.open_calls.renew_lease(Moment(LATEST))
    assert await successor.open_calls.get(invocation_number(1)) is not None
    taken = await successor.open_calls.claim_one(invocation_number(1), now=Moment(LATER), if_due=True)
    assert taken.invocation_id == invocation_number(1)
    await successor.close()


async def test_facts_that_arrive_while_the_lease_is_released_are_written(open_store, write):
    store = open_store("leaving")
    await store.open_calls.renew_lease(Moment(LATEST))
    await write(store, 1)

    async def end_late(number):
        for _ in range(number):
            await asyncio.sleep(0)
        await write(store, 2 + number)

    await asyncio.gather(store.open_calls.release_lease(), *map(end_late, range(6)))
    await store.close()
    other = open_store("other")
    for number in range(1, 8):
        assert len(other.log.stored_facts_of(invocation_number(number))) == PER_CALL
