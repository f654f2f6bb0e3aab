"""The contracts of `EventLog` and `DurableLog`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeAlias

from agenttool.journal import steps
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.ports.facts import Fact
from agenttool.ports.stores import DurableLog, EventLog
from agenttool.records import InvocationId
from agenttool.testing.contracts.story import invocation_number, story_of

OpenLog: TypeAlias = Callable[[], AbstractAsyncContextManager[EventLog]]
OpenDurableLog: TypeAlias = Callable[[], AbstractAsyncContextManager[DurableLog]]


async def _write(log: EventLog, number: int) -> list[Fact]:
    facts = story_of(number)
    for fact in facts:
        log.append(fact)
    await log.settle()
    return facts


def _replayed(facts: Sequence[Fact]) -> object:
    """Return all events and records that facts replay as, to compare facts by them."""
    events = [list(events_of(fact, position=place)) for place, fact in enumerate(facts, 1)]
    return events, invocation_of(facts), list(records_of(facts))


async def a_new_log_is_empty(open_log: OpenLog) -> None:
    async with open_log() as log:
        assert log.last == 0
        assert list(log.read(0, 10)) == []
        assert list(log.facts_of(InvocationId("inv_unknown"))) == []
        await log.settle()


async def facts_are_read_as_they_were_written(open_log: OpenLog) -> None:
    async with open_log() as log:
        written = await _write(log, 1)
        found = log.read(0, 100)
        assert [position for position, _ in found] == list(range(1, len(written) + 1))
        assert _replayed([fact for _, fact in found]) == _replayed(written)
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(written)
        assert _replayed(log.stored_facts_of(invocation_number(1))) == _replayed(written)


async def a_reader_continues_where_it_stopped(open_log: OpenLog) -> None:
    async with open_log() as log:
        await _write(log, 1)
        await _write(log, 2)
        whole = [position for position, _ in log.read(0, 100)]
        pieces: list[int] = []
        while piece := log.read(pieces[-1] if pieces else 0, 3):
            assert len(piece) <= 3  # noqa: PLR2004 -- the limit asked for
            pieces += [position for position, _ in piece]
        assert pieces == whole == list(range(1, log.last + 1))


async def interleaved_calls_are_read_separately(open_log: OpenLog) -> None:
    async with open_log() as log:
        first, second = story_of(1), story_of(2)
        for pair in zip(first, second, strict=True):
            for fact in pair:
                log.append(fact)
        await log.settle()
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(first)
        assert _replayed(log.facts_of(invocation_number(2))) == _replayed(second)


async def a_fact_without_a_call_is_stored(open_log: OpenLog) -> None:
    async with open_log() as log:
        log.append(Fact(steps.DECLARED, 1, 0, None, None, {"tool_id": "t", "name": "n"}))
        await log.settle()
        ((position, fact),) = log.read(0, 10)
        assert [event.data for event in events_of(fact, position=position)] == [{"tool_id": "t", "name": "n"}]
        assert fact.invocation_id is None


async def many_callers_settle_concurrently(open_log: OpenLog) -> None:
    async with open_log() as log:

        async def caller(number: int) -> None:
            for fact in story_of(number):
                log.append(fact)
                await log.settle()
                assert log.last > 0

        async with asyncio.TaskGroup() as group:
            for number in range(1, 41):
                group.create_task(caller(number))
        found = log.read(0, 1000)
        assert [position for position, _ in found] == list(range(1, 201))
        for number in range(1, 41):
            assert _replayed(log.facts_of(invocation_number(number))) == _replayed(story_of(number))


async def a_canceled_waiter_does_not_affect_the_others(open_log: OpenLog) -> None:
    async with open_log() as log:
        waiting: list[asyncio.Future[None]] = []
        for number in range(1, 9):
            for fact in story_of(number):
                log.append(fact)
            waiting.append(asyncio.ensure_future(log.settle()))
        await asyncio.sleep(0)
        for each in waiting[::2]:
            each.cancel()
        for each in waiting:
            with suppress(asyncio.CancelledError):
                await each
        await log.settle()
        assert log.last == 8 * len(story_of(1))


async def the_facts_of_a_call_include_those_that_are_not_durable_yet(open_log: OpenLog) -> None:
    async with open_log() as log:
        facts = story_of(1)
        for place, fact in enumerate(facts, 1):
            log.append(fact)
            assert _replayed(log.facts_of(invocation_number(1))) == _replayed(facts[:place])
            if place % 2:
                await log.settle()
            assert _replayed(log.facts_of(invocation_number(1))) == _replayed(facts[:place])


async def facts_that_are_not_durable_are_not_read(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        log.append(story_of(1)[0])
        assert list(log.read(0, 10)) == []
        assert list(log.stored_facts_of(invocation_number(1))) == []
        assert log.last == 0
        await log.settle()
        assert len(log.read(0, 10)) == len(log.stored_facts_of(invocation_number(1))) == log.last == 1


async def a_listener_is_called_once_facts_can_be_read(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        seen: list[int] = []
        stop = log.listen(lambda: seen.append(log.last))
        await _write(log, 1)
        assert seen[-1] == log.last
        stop()
        seen.clear()
        await _write(log, 2)
        assert seen == []


async def durable_facts_are_there_after_the_log_is_reopened(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        written = await _write(log, 1)
    async with open_log() as log:
        assert log.last == len(written)
        assert _replayed(log.facts_of(invocation_number(1))) == _replayed(written)
        more = await _write(log, 2)
        assert log.last == len(written) + len(more)


async def an_unchanged_log_has_no_flaws(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        assert log.durable
        empty = log.head()
        for number in (1, 2, 3):
            await _write(log, number)
        assert list(log.verify(empty)) == []
        assert list(log.verify(log.head())) == []
        assert log.head().position == log.last


async def old_facts_are_deleted_and_the_chain_continues(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        for number in (1, 2):
            await _write(log, number)
        head, half = log.head(), len(story_of(1))
        anchor = await log.delete_before(story_of(2)[0].at_ns)
        assert anchor.position == half
        assert [position for position, _ in log.read(0, 100)] == list(range(half + 1, 2 * half + 1))
        assert list(log.verify(anchor)) == []
        assert await log.delete_before(2**62) == head
        assert log.head() == head
        await _write(log, 3)
        assert log.read(0, 1)[0][0] == 2 * half + 1
        assert list(log.verify(head)) == []


LOG_PROMISES = (
    a_new_log_is_empty,
    facts_are_read_as_they_were_written,
    a_reader_continues_where_it_stopped,
    interleaved_calls_are_read_separately,
    a_fact_without_a_call_is_stored,
    many_callers_settle_concurrently,
    a_canceled_waiter_does_not_affect_the_others,
    the_facts_of_a_call_include_those_that_are_not_durable_yet,
)
"""For every log."""

DURABLE_LOG_PROMISES = (
    facts_that_are_not_durable_are_not_read,
    a_listener_is_called_once_facts_can_be_read,
    durable_facts_are_there_after_the_log_is_reopened,
    an_unchanged_log_has_no_flaws,
    old_facts_are_deleted_and_the_chain_continues,
)
"""For a durable log, in addition."""
