"""Read events from the log, once or continuously, and the result of a call."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence

from agenttool.errors import StoreError
from agenttool.journal.journal import Journal
from agenttool.journal.projection import events_of, records_of
from agenttool.ports.facts import Fact
from agenttool.ports.stores import EventLog
from agenttool.records import ToolEvent, ToolResult

READ_AHEAD = 256


async def follow(journal: Journal, after: int) -> AsyncGenerator[tuple[int, ToolEvent]]:
    """Yield events after a position, or new ones if it is negative, each with the position to continue from.

    It ends when the journal is closed and all events were yielded.
    """
    after = journal.log.last if after < 0 else after
    news = asyncio.Event()
    stop = journal.listen(news.set)
    try:
        while True:
            is_last = journal.is_closed
            news.clear()
            for position, event in read_events(journal.log, after):
                after = position
                yield position, event
            if is_last:
                return
            await news.wait()
    except StoreError:
        if not journal.is_closed:  # else the file was closed before all events were read; the caller continues later
            raise
    finally:
        stop()


def read_events(log: EventLog, after: int) -> Iterator[tuple[int, ToolEvent]]:
    """Yield the events that are there now.

    Only the last event of a fact has its position: a caller that stops earlier reads the whole fact again.
    """
    while facts := log.read(after, READ_AHEAD):
        for position, fact in facts:
            events = list(events_of(fact, position=position))
            yield from ((position if event is events[-1] else position - 1, event) for event in events)
        after = facts[-1][0]


def result_in(facts: Sequence[Fact]) -> ToolResult | None:
    """Return the result among the facts of one call; none if there is none."""
    return next((record for record in records_of(facts) if isinstance(record, ToolResult)), None)
