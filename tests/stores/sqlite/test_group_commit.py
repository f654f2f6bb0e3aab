"""Commit the events of several callers together, and fail each waiting caller when the commit fails."""

import asyncio
import sqlite3
import sys
import threading
from contextlib import suppress
from itertools import chain, count

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.ports.facts import Fact
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit, writer


@pytest.fixture
def commits(monkeypatch):
    """Count commits by the thread that made them."""
    made = []
    commit = writer.Writer.commit

    def counting(self, batch, **options):
        commit(self, batch, **options)
        made.append(threading.current_thread() is threading.main_thread())

    monkeypatch.setattr(writer.Writer, "commit", counting)
    return made


@pytest.fixture
def quick(monkeypatch):
    """A disk that is never slow, however busy this machine is."""
    monkeypatch.setattr(group_commit, "SHARED_WAIT_S", 60.0)
    monkeypatch.setattr(group_commit, "SINGLE_WAIT_S", 60.0)


@pytest.fixture
def slow(monkeypatch):
    """A disk that is always slow."""
    monkeypatch.setattr(group_commit, "SHARED_WAIT_S", -60.0)
    monkeypatch.setattr(group_commit, "SINGLE_WAIT_S", -60.0)


async def test_a_single_caller_commits_on_the_event_loop(open_store, write, commits, quick):
    store = open_store()
    for number in (1, 2, 3):
        await write(store, number)
    assert commits == [True] * 3
    assert store.log.group._thread is None
    await store.close()


async def test_a_thread_commits_while_the_disk_is_slow(open_store, write, commits, slow):
    store = open_store()
    await write(store, 1)
    await write(store, 2)
    assert commits == [False] * 2
    await store.close()


@pytest.mark.parametrize("disk", ["quick", "slow"])
async def test_many_callers_share_a_commit_and_a_thread_makes_it_where_the_disk_is_slow(
    open_store, write, commits, disk, request
):
    request.getfixturevalue(disk)
    store = open_store()
    async with asyncio.TaskGroup() as group:
        for number in range(1, 101):
            group.create_task(write(store, number))
    assert commits == [disk == "quick"]
    assert store.log.last == 500
    await store.close()


async def test_facts_without_a_settle_are_written_soon(open_store, write):
    store = open_store()
    news = asyncio.Event()
    store.log.listen(news.set)
    await write(store, 1, settle=False)
    assert store.log.last == 0
    while store.log.last == 0:
        await news.wait()
        news.clear()
    assert store.log.last == 5
    await store.close()


async def test_facts_without_a_settle_are_written_after_a_long_commit(open_store, path, monkeypatch, slow):
    monkeypatch.setattr(group_commit, "LINGER_S", 0.001)
    store = open_store()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    settled, left = facts_of_call(1)[:2]
    store.log.append(settled)
    settling = asyncio.ensure_future(store.log.settle())
    await asyncio.sleep(0.01)  # so long that it departs
    store.log.append(left)
    await asyncio.sleep(0.05)  # so long that the other one is looked for
    other.execute("ROLLBACK")
    other.close()
    await settling
    while store.log.last < 2:  # noqa: ASYNC110 -- whether an event reports it is what is tested
        await asyncio.sleep(0.01)
    await store.close()


async def test_a_running_call_is_read_as_it_stands_and_a_reader_sees_only_durable_facts(open_store):
    store = open_store()
    facts = facts_of_call(1)[:3]
    for fact in facts:
        store.log.append(fact)
    assert len(store.log.facts_of(invocation_number(1))) == 3
    assert store.log.read(0, 10) == []
    await store.log.settle()
    assert len(store.log.read(0, 10)) == 3
    await store.close()


async def test_a_fact_that_cannot_be_encoded_fails_no_other_caller(open_store, write):
    store = open_store()
    with pytest.raises(StoreError):
        store.log.append(Fact(steps.PROGRESSED, 1, 0, "inv_bad", "t", {"x": object()}))
    await write(store, 1)
    assert store.log.last == 5
    await store.close()


@pytest.mark.parametrize("callers", [1, 20])
async def test_a_lock_that_is_never_released_fails_every_waiter_and_loses_nothing(
    open_store, write, path, monkeypatch, callers
):
    monkeypatch.setattr(group_commit, "BUSY_TIMEOUT_S", 0.05)
    store = open_store()
    await write(store, 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [write(store, number) for number in range(2, 2 + callers)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreError] * callers
    assert store.log.last == 5
    other.execute("ROLLBACK")
    other.close()
    await store.log.settle()
    assert store.log.last == 5 + 5 * callers
    assert list(store.log.verify()) == []
    await store.close()


async def test_the_number_of_waiting_facts_is_limited_while_the_disk_fails(open_store, write, monkeypatch):
    monkeypatch.setattr(group_commit, "BACKLOG", 12)
    store = open_store()
    await write(store, 1, 2, settle=False)
    with pytest.raises(StoreError, match="12 facts wait"):
        await write(store, 3, settle=False)
    await store.log.settle()
    assert store.log.last == 12
    await store.close()


async def test_the_write_ahead_log_is_checkpointed_even_if_callers_always_wait(open_store, write, path, monkeypatch):
    monkeypatch.setattr(writer, "MAX_PAGES", 20)
    store = open_store()
    for number in range(1, 120, 2):
        await asyncio.gather(write(store, number), write(store, number + 1))
    assert path.stat().st_size > 20 * 4096
    assert path.with_name("state.db-wal").stat().st_size < 200 * 4096
    assert list(store.log.verify()) == []
    await store.close()


async def test_the_write_ahead_log_is_checkpointed_once_no_caller_waits(open_store, write, path, monkeypatch):
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 20)
    store = open_store()
    before, when_kept = path.stat().st_size, []
    store.log.listen(lambda: when_kept.append(path.stat().st_size))
    await asyncio.gather(*[write(store, number) for number in range(1, 200)])
    assert when_kept[0] == before
    async with asyncio.timeout(60):
        while path.stat().st_size == before:  # noqa: ASYNC110 -- it has no event
            await asyncio.sleep(0.02)
    assert list(store.log.verify()) == []
    await store.close()


async def test_closing_writes_pending_facts(open_store, write):
    store = open_store()
    await write(store, 1, settle=False)
    await store.close()
    store = open_store()
    assert store.log.last == 5
    await store.close()


class Interrupting:
    """A user presses Ctrl-C at one place after the other: Python notices it where something is called."""

    def __init__(self, place):
        self.left = place

    def __call__(self, frame, event, _):
        if event in ("call", "c_return") and "stores/sqlite" in frame.f_code.co_filename:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


@pytest.mark.parametrize("lone", [0, group_commit.ALONE_AFTER], ids=["who waits for others", "who waits for nobody"])
@pytest.mark.parametrize("facts", [1, 2], ids=["one step", "several"])
def test_an_interrupt_at_any_place_loses_nothing_and_has_nothing_written_twice(open_store, write, quick, facts, lone):
    with asyncio.Runner() as runner:

        async def begin():
            store = open_store("one")
            await store.open_calls.renew_lease(Moment(10**18))
            await write(store, 1)
            return store

        async def settle(interrupting=None):
            sys.setprofile(interrupting)
            try:
                await store.log.settle()
            finally:
                sys.setprofile(None)
            await asyncio.sleep(0)

        store = runner.run(begin())
        for place in count(1):
            store.log.group._lone = lone
            for fact in facts_of_call(1 + place)[:facts]:
                store.log.append(fact)
            interrupting = Interrupting(place)
            with suppress(KeyboardInterrupt):
                runner.run(settle(interrupting))
            runner.run(asyncio.wait_for(settle(), 60))
            assert len(store.log.stored_facts_of(invocation_number(1 + place))) == facts, place
            if interrupting.left > 0:
                break
        assert place > 20, "no call was interrupted"
        assert store.log.last == len(facts_of_call(1)) + place * facts
        assert list(store.log.verify()) == []
        runner.run(store.close())


async def test_a_process_without_its_lease_writes_no_nested_calls_of_calls_that_others_claimed(open_store):
    log = open_store().log
    scenarios = (
        facts_of_call(1, until=steps.STARTED),
        facts_of_call(2, parent=1),
        facts_of_call(3, parent=2),
        facts_of_call(4, parent=9),
    )
    for fact in chain.from_iterable(scenarios):
        log.append(fact)
    log.group.claimed.add(invocation_number(1))
    assert log.group.drop_open_calls() == {invocation_number(1), invocation_number(2), invocation_number(3)}
    assert {call for call, _ in log.group.batch.facts} == {invocation_number(4)}
