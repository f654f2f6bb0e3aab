"""What every log must keep."""

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


def _told(facts: Sequence[Fact]) -> object:
    """Tell facts by all that the fold makes of them."""
    events = [list(events_of(fact, position=place)) for place, fact in enumerate(facts, 1)]
    return events, invocation_of(facts), list(records_of(facts))


async def a_new_log_holds_nothing(open_log: OpenLog) -> None:
    async with open_log() as log:
        assert log.last == 0
        assert list(log.read(0, 10)) == []
        assert list(log.facts_of(InvocationId("inv_unknown"))) == []
        await log.settle()


async def facts_come_back_as_they_were(open_log: OpenLog) -> None:
    async with open_log() as log:
        written = await _write(log, 1)
        found = log.read(0, 100)
        assert [position for position, _ in found] == list(range(1, len(written) + 1))
        assert _told([fact for _, fact in found]) == _told(written)
        assert _told(log.facts_of(invocation_number(1))) == _told(written)
        assert _told(log.stored_facts_of(invocation_number(1))) == _told(written)


async def a_reader_goes_on_where_it_stopped(open_log: OpenLog) -> None:
    async with open_log() as log:
        await _write(log, 1)
        await _write(log, 2)
        whole = [position for position, _ in log.read(0, 100)]
        pieces: list[int] = []
        while piece := log.read(pieces[-1] if pieces else 0, 3):
            assert len(piece) <= 3  # noqa: PLR2004 -- the limit asked for
            pieces += [position for position, _ in piece]
        assert pieces == whole == list(range(1, log.last + 1))


async def calls_that_interleave_are_found_apart(open_log: OpenLog) -> None:
    async with open_log() as log:
        first, second = story_of(1), story_of(2)
        for pair in zip(first, second, strict=True):
            for fact in pair:
                log.append(fact)
        await log.settle()
        assert _told(log.facts_of(invocation_number(1))) == _told(first)
        assert _told(log.facts_of(invocation_number(2))) == _told(second)


async def a_fact_about_no_call_is_kept(open_log: OpenLog) -> None:
    async with open_log() as log:
        log.append(Fact(steps.DECLARED, 1, 0, None, None, {"tool_id": "t", "name": "n"}))
        await log.settle()
        ((position, fact),) = log.read(0, 10)
        assert [event.data for event in events_of(fact, position=position)] == [{"tool_id": "t", "name": "n"}]
        assert fact.invocation_id is None


async def many_callers_settle_at_once(open_log: OpenLog) -> None:
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
            assert _told(log.facts_of(invocation_number(number))) == _told(story_of(number))


async def whoever_stops_waiting_disturbs_nobody(open_log: OpenLog) -> None:
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


async def a_call_is_told_as_it_stands(open_log: OpenLog) -> None:
    async with open_log() as log:
        facts = story_of(1)
        for place, fact in enumerate(facts, 1):
            log.append(fact)
            assert _told(log.facts_of(invocation_number(1))) == _told(facts[:place])
            if place % 2:
                await log.settle()
            assert _told(log.facts_of(invocation_number(1))) == _told(facts[:place])


async def what_is_not_settled_is_not_read(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        log.append(story_of(1)[0])
        assert list(log.read(0, 10)) == []
        assert list(log.stored_facts_of(invocation_number(1))) == []
        assert log.last == 0
        await log.settle()
        assert len(log.read(0, 10)) == len(log.stored_facts_of(invocation_number(1))) == log.last == 1


async def whoever_listens_hears_of_facts_that_can_be_read(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        seen: list[int] = []
        stop = log.listen(lambda: seen.append(log.last))
        await _write(log, 1)
        assert seen[-1] == log.last
        stop()
        seen.clear()
        await _write(log, 2)
        assert seen == []


async def what_was_settled_is_there_when_the_log_is_opened_again(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        written = await _write(log, 1)
    async with open_log() as log:
        assert log.last == len(written)
        assert _told(log.facts_of(invocation_number(1))) == _told(written)
        more = await _write(log, 2)
        assert log.last == len(written) + len(more)


async def a_log_that_nobody_touched_is_clean(open_log: OpenDurableLog) -> None:
    async with open_log() as log:
        assert log.durable
        empty = log.head()
        for number in (1, 2, 3):
            await _write(log, number)
        assert list(log.verify(empty)) == []
        assert list(log.verify(log.head())) == []
        assert log.head().position == log.last


async def what_is_old_goes_and_the_chain_goes_on(open_log: OpenDurableLog) -> None:
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
    a_new_log_holds_nothing,
    facts_come_back_as_they_were,
    a_reader_goes_on_where_it_stopped,
    calls_that_interleave_are_found_apart,
    a_fact_about_no_call_is_kept,
    many_callers_settle_at_once,
    whoever_stops_waiting_disturbs_nobody,
    a_call_is_told_as_it_stands,
)
"""For every log."""

DURABLE_LOG_PROMISES = (
    what_is_not_settled_is_not_read,
    whoever_listens_hears_of_facts_that_can_be_read,
    what_was_settled_is_there_when_the_log_is_opened_again,
    a_log_that_nobody_touched_is_clean,
    what_is_old_goes_and_the_chain_goes_on,
)
"""For a log that says it is durable, besides."""
