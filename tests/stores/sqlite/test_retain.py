"""Old facts go, in order, and what is left is as trustworthy as before."""

import sqlite3
from contextlib import closing

from agenttool.ports.world import Moment
from agenttool.stores.sqlite import log
from agenttool.testing.contracts.story import invocation_number, story_of


def moment(number):
    return story_of(number)[0].at_ns


async def test_what_is_old_goes_and_the_chain_goes_on_from_an_anchor(open_store, write, monkeypatch):
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


async def test_positions_go_on_when_everything_is_gone(open_store, write):
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


async def test_a_call_that_is_still_open_keeps_its_facts_however_old(open_store, write):
    store = open_store()
    await write(store, 1)
    for fact in story_of(2)[:3]:
        store.log.append(fact)
    store.open_calls.save(invocation_number(2), kind="started", body=b"")
    await write(store, 3)
    await store.log.delete_before(2**62)
    assert [position for position, _ in store.log.read(0, 100)] == list(range(6, 14))
    assert list(store.log.verify()) == []
    await store.close()


async def test_a_call_that_ended_after_it_was_found_begun_goes_and_nobody_takes_it_up(open_store, path):
    store = open_store()
    facts = story_of(1)
    for part in (facts[:3], facts[3:]):
        await store.open_calls.renew_lease(Moment(2**60))  # which puts down that the call has begun
        for fact in part:
            store.log.append(fact)
        await store.log.settle()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM begun").fetchone() == (1,)
        assert (await store.log.delete_before(2**62)).position == len(facts)
        assert file.execute("SELECT count(*) FROM begun").fetchone() == (0,)
    await store.close()
    other = open_store()
    await other.open_calls.renew_lease(Moment(2**61))
    assert await other.open_calls.due(now=Moment(2**60 + 1), limit=9) == []
    await other.close()


async def test_letting_go_of_nothing_changes_nothing(open_store, write):
    store = open_store()
    await write(store, 1)
    assert (await store.log.delete_before(0)).position == 0
    assert store.log.last == 5
    assert list(store.log.verify()) == []
    await store.close()
