"""Every log fulfils the contract of `EventLog`; a log in a file also fulfils that of `DurableLog`."""

import asyncio
from contextlib import asynccontextmanager, nullcontext, suppress

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.journal import steps
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.journal.steps import STEPS
from agenttool.ports.facts import Fact
from agenttool.records import InvocationId
from agenttool.stores.memory import MemoryLog
from agenttool.stores.sqlite.store import SqliteStore


def sqlite(folder):
    @asynccontextmanager
    async def opened():
        store = SqliteStore.open(folder / "state.db", steps=STEPS)
        try:
            yield store.log
        finally:
            await store.close()

    return opened


@pytest.fixture
def open_durable_log(tmp_path):
    """Opens the log in one file, as often as a test needs."""
    return sqlite(tmp_path)


@pytest.fixture(params=["memory", "sqlite"])
def open_log(request, tmp_path):
    """Opens one log, in memory or in a file, as often as a test needs."""
    log = MemoryLog()
    return sqlite(tmp_path) if request.param == "sqlite" else lambda: nullcontext(log)


async def _write(log, number):
    facts = facts_of_call(number)
    for fact in facts:
        log.append(fact)
    await log.settle()
    return facts


def _replayed(facts):
    """Return all events and records that facts replay as, to compare facts by them."""
    events = [list(events_of(fact, position=place)) for place, fact in enumerate(facts, 1)]
    return events, invocation_of(facts), list(records_of(facts))


async def test_a_new_log_is_empty(open_log):
    async with open_log() as log:
        assert log.last == 0
        assert list(log.read(0, 10)) == []
        assert list(log.facts_of(InvocationId("inv_unknown"))) == []
        await log.settle()


async def test_facts_are_read_as_they_were_written(open_log):
    async with open_log() as log:
        written = await _write(log, 1)
        found = log.read(0, 100)
        assert [position for position, _ in found] == list(range(1, len(written) + 1))
        assert _replayed([fact for _, fact in found]) == _replayed(written)
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(written)
        assert _replayed(log.stored_facts_of(invocation_number(1))) == _replayed(written)


async def test_a_reader_continues_where_it_stopped(open_log):
    async with open_log() as log:
        await _write(log, 1)
        await _write(log, 2)
        whole = [position for position, _ in log.read(0, 100)]
        pieces = []
        while piece := log.read(pieces[-1] if pieces else 0, 3):
            assert len(piece) <= 3
            pieces += [position for position, _ in piece]
        assert pieces == whole == list(range(1, log.last + 1))


async def test_interleaved_calls_are_read_separately(open_log):
    async with open_log() as log:
        first, second = facts_of_call(1), facts_of_call(2)
        for pair in zip(first, second, strict=True):
            for fact in pair:
                log.append(fact)
        await log.settle()
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(first)
        assert _replayed(log.facts_of(invocation_number(2))) == _replayed(second)


async def test_a_fact_without_a_call_is_stored(open_log):
    async with open_log() as log:
        log.append(Fact(steps.DECLARED, 1, 0, None, None, {"tool_id": "t", "name": "n"}))
        await log.settle()
        ((position, fact),) = log.read(0, 10)
        assert [event.data for event in events_of(fact, position=position)] == [{"tool_id": "t", "name": "n"}]
        assert fact.invocation_id is None


async def test_many_callers_settle_concurrently(open_log):
    async with open_log() as log:

        async def caller(number):
            for fact in facts_of_call(number):
                log.append(fact)
                await log.settle()
                assert log.last > 0

        async with asyncio.TaskGroup() as group:
            for number in range(1, 41):
                group.create_task(caller(number))
        found = log.read(0, 1000)
        assert [position for position, _ in found] == list(range(1, 201))
        for number in range(1, 41):
            assert _replayed(log.facts_of(invocation_number(number))) == _replayed(facts_of_call(number))


async def test_a_canceled_waiter_does_not_affect_the_others(open_log):
    async with open_log() as log:
        waiting = []
        for number in range(1, 9):
            for fact in facts_of_call(number):
                log.append(fact)
            waiting.append(asyncio.ensure_future(log.settle()))
        await asyncio.sleep(0)
        for each in waiting[::2]:
            each.cancel()
        for each in waiting:
            with suppress(asyncio.CancelledError):
                await each
        await log.settle()
        assert log.last == 8 * len(facts_of_call(1))


async def test_the_facts_of_a_call_include_those_that_are_not_durable_yet(open_log):
    async with open_log() as log:
        facts = facts_of_call(1)
        for place, fact in enumerate(facts, 1):
            log.append(fact)
            assert _replayed(log.facts_of(invocation_number(1))) == _replayed(facts[:place])
            if place % 2:
                await log.settle()
            assert _replayed(log.facts_of(invocation_number(1))) == _replayed(facts[:place])


async def test_facts_that_are_not_durable_are_not_read(open_durable_log):
    async with open_durable_log() as log:
        log.append(facts_of_call(1)[0])
        assert list(log.read(0, 10)) == []
        assert list(log.stored_facts_of(invocation_number(1))) == []
        assert log.last == 0
        await log.settle()
        assert len(log.read(0, 10)) == len(log.stored_facts_of(invocation_number(1))) == log.last == 1


async def test_a_listener_is_called_once_facts_can_be_read(open_durable_log):
    async with open_durable_log() as log:
        seen = []
        stop = log.listen(lambda: seen.append(log.last))
        await _write(log, 1)
        assert seen[-1] == log.last
        stop()
        seen.clear()
        await _write(log, 2)
        assert seen == []


async def test_durable_facts_are_there_after_the_log_is_reopened(open_durable_log):
    async with open_durable_log() as log:
        written = await _write(log, 1)
    async with open_durable_log() as log:
        assert log.last == len(written)
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(written)
        more = await _write(log, 2)
        assert log.last == len(written) + len(more)


async def test_an_unchanged_log_has_no_flaws(open_durable_log):
    async with open_durable_log() as log:
        assert log.durable
        empty = log.head()
        for number in (1, 2, 3):
            await _write(log, number)
        assert list(log.verify(empty)) == []
        assert list(log.verify(log.head())) == []
        assert log.head().position == log.last


async def test_old_facts_are_deleted_and_the_chain_continues(open_durable_log):
    async with open_durable_log() as log:
        for number in (1, 2):
            await _write(log, number)
        head, half = log.head(), len(facts_of_call(1))
        anchor = await log.delete_before(facts_of_call(2)[0].at_ns)
        assert anchor.position == half
        assert [position for position, _ in log.read(0, 100)] == list(range(half + 1, 2 * half + 1))
        assert list(log.verify(anchor)) == []
        assert await log.delete_before(2**62) == head
        assert log.head() == head
        await _write(log, 3)
        assert log.read(0, 1)[0][0] == 2 * half + 1
        assert list(log.verify(head)) == []
