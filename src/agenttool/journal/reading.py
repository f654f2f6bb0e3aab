"""Reading the log: from any point, for ever, or for the result of one call."""

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
    """Give events from a position on, or below 0 those to come, each with the position to come back to.

    It goes on until the journal is closed; what is there by then is told.
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
        if not journal.is_closed:  # else the file was closed before all of it was told; whoever comes back reads on
            raise
    finally:
        stop()


def read_events(log: EventLog, after: int) -> Iterator[tuple[int, ToolEvent]]:
    """Give the events that are there now.

    Only the last event of a fact gives its position: whoever stops before comes back to the whole fact.
    """
    while facts := log.read(after, READ_AHEAD):
        for position, fact in facts:
            told = list(events_of(fact, position=position))
            yield from ((position if event is told[-1] else position - 1, event) for event in told)
        after = facts[-1][0]


def result_in(facts: Sequence[Fact]) -> ToolResult | None:
    """Find the result among the facts of one call."""
    return next((record for record in records_of(facts) if isinstance(record, ToolResult)), None)
