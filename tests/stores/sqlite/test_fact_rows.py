"""Find calls in the log at once, before and after their rows are indexed."""

import asyncio
from unittest.mock import Mock

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import NO_CHECKPOINT, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit
from agenttool.stores.sqlite.fact_rows import IS_UNINDEXED, MAX_UNINDEXED
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.sqlite.writer import WriteBatch

NOW, LATER = Moment(1), Moment(2)
PER_CALL = len(facts_of_call(1))


def loose(store):
    (count,) = store._reader.execute(f"SELECT count(*) FROM facts WHERE {IS_UNINDEXED}").fetchone()
    return count


@pytest.mark.parametrize("calls", [1, MAX_UNINDEXED // PER_CALL, MAX_UNINDEXED // PER_CALL + 2])
async def test_a_new_call_is_found_by_its_id_or_part_of_it(open_store, path, write, calls):
    store = open_store()
    await write(store, *range(1, calls + 1))
    with SqliteReader.open(path, steps=STEPS) as reader:
        newest = invocation_number(calls)
        assert reader.count() == (calls * PER_CALL, calls)
        assert reader.calls_beginning("inv_", 3) == [invocation_number(n) for n in range(calls, 0, -1)][:3]
        assert reader.calls_ending(newest[-6:], 5) == [newest]
        for number in range(1, calls + 1):
            places = [place for place, _ in reader.facts_of(invocation_number(number))]
            assert places == list(range((number - 1) * PER_CALL + 1, number * PER_CALL + 1))
            assert [reader.begins(invocation_number(number), place) for place in places] == [
                True,
                False,
                False,
                False,
                False,
            ]
        assert list(reader.verify()) == []
    await store.close()


async def test_unindexed_rows_are_indexed_before_there_are_many(open_store, write):
    store = open_store()
    counts = []
    for number in range(1, 3 * MAX_UNINDEXED // PER_CALL):
        await write(store, number)
        counts.append(loose(store))
    assert max(counts) * PER_CALL < MAX_UNINDEXED
    assert counts.count(0) >= 2
    await store.close()


async def test_a_call_that_runs_while_rows_are_indexed_is_removed_after_its_end(open_store, write, monkeypatch):
    monkeypatch.setattr("agenttool.stores.sqlite.fact_rows.MAX_ENDED", 0)
    store = open_store("one")
    await store.open_calls.renew_lease(LATER)
    first, *rest = facts_of_call(1)
    store.log.append(first)
    await store.log.settle()
    await write(store, *range(2, 2 + MAX_UNINDEXED // PER_CALL))
    opened = await store.open_calls.get(invocation_number(1))
    assert (opened.kind, opened.owner) == (NO_CHECKPOINT, "one")
    await store.open_calls.renew_lease(LATER)
    assert await store.open_calls.get(invocation_number(1)) is not None
    for fact in rest:
        store.log.append(fact)
    await store.log.settle()
    assert await store.open_calls.get(invocation_number(1)) is None
    await store.open_calls.renew_lease(LATER)
    assert store._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (0,)
    await store.close()


async def test_recovery_finds_a_call_that_starts_while_its_process_renews_its_lease(open_store, monkeypatch):
    monkeypatch.setattr("agenttool.stores.sqlite.fact_rows.MAX_ENDED", 0)
    dead, successor = open_store("dead"), open_store("successor")
    await dead.open_calls.renew_lease(NOW)
    await successor.open_calls.renew_lease(Moment(3))

    async def start():
        dead.log.append(facts_of_call(1)[0])

    await asyncio.gather(dead.open_calls.renew_lease(NOW), start())
    found = await successor.open_calls.due(now=LATER, limit=9)
    assert [each.invocation_id for each in found] == [invocation_number(1)]
    await successor.close()


async def test_recovery_finds_a_call_that_only_an_unindexed_row_lists(open_store):
    dead, successor = open_store("dead"), open_store("successor")
    await dead.open_calls.renew_lease(NOW)
    await successor.open_calls.renew_lease(Moment(3))
    dead.log.append(facts_of_call(1)[0])
    await dead.log.settle()
    assert loose(dead) == 1
    assert [each.owner for each in await successor.open_calls.due(now=Moment(0), limit=9)] == []
    taken = await successor.open_calls.claim_one(invocation_number(1), now=LATER, if_due=True)
    assert (taken.invocation_id, taken.kind) == (invocation_number(1), NO_CHECKPOINT)
    await successor.close()


async def test_a_call_with_and_later_without_a_checkpoint_is_found_until_it_ends(open_store, write):
    dead, successor = open_store("dead"), open_store("successor")
    await dead.open_calls.renew_lease(NOW)
    await successor.open_calls.renew_lease(Moment(3))
    dead.log.append(facts_of_call(1)[0])
    dead.open_calls.save(SavedCheckpoint(invocation_number(1), kind="running", body=b"{}"))
    await dead.log.settle()
    await write(dead, *range(2, 2 + MAX_UNINDEXED // PER_CALL))
    dead.open_calls.remove(invocation_number(1))
    await dead.documents.put("kind", "key", b"")
    taken = await successor.open_calls.claim_one(invocation_number(1), now=LATER, if_due=True)
    assert (taken.invocation_id, taken.kind) == (invocation_number(1), NO_CHECKPOINT)
    await successor.close()


async def test_a_call_whose_first_commit_failed_is_found_after_the_next_one(open_store, monkeypatch):
    dead, successor = open_store("dead"), open_store("successor")
    await dead.open_calls.renew_lease(NOW)
    await successor.open_calls.renew_lease(Moment(3))
    monkeypatch.setattr(group_commit, "LINGER_S", 3600)  # no other process tries to write it meanwhile
    with monkeypatch.context() as failing:
        failing.setattr(WriteBatch, "write", Mock(side_effect=StoreError("the disk is full")))
        dead.log.append(facts_of_call(1)[0])
        with pytest.raises(StoreError):
            await dead.documents.put("kind", "key", b"")
    await dead.log.settle()
    taken = await successor.open_calls.claim_one(invocation_number(1), now=LATER, if_due=True)
    assert taken.invocation_id == invocation_number(1)
    assert successor._reader.execute("SELECT count(*) FROM started_calls").fetchone() == (0,)
    await successor.close()


async def test_an_owner_that_is_not_text_does_not_prevent_writing(open_store, tamper):
    store = open_store("one")
    await store.open_calls.renew_lease(LATER)
    store.log.append(facts_of_call(1)[0])
    await store.log.settle()
    tamper("UPDATE facts SET owner = CAST(x'ff00' AS TEXT)")
    await store.open_calls.renew_lease(LATER)
    assert loose(store) == 0
    await store.close()
