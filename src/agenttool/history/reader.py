"""What readers of recorded calls need from a journal: a file, or the log of a runtime in memory."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from agenttool.codec.moments import nanoseconds
from agenttool.ports.facts import Fact
from agenttool.ports.stores import EventLog, Head
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.sqlite.fact_rows import ALL_FACTS, CallEnd, FactFilter
from agenttool.stores.sqlite.leases import Ownership
from agenttool.stores.sqlite.reader import SqliteReader

PORTION = 1000
"""How many facts are read at a time."""

_HERE = "this process"


def start_ns(facts: Sequence[tuple[int, Fact]]) -> int:
    """Return when the call of all these facts began; a plain call is written when it has ended."""
    first = facts[0][1]
    data = first.data
    started = None if data is None or isinstance(data, dict) else data.contributes().get("started_at")
    return min(first.at_ns, nanoseconds(datetime.fromisoformat(started))) if isinstance(started, str) else first.at_ns


class MemoryReader:
    """Reads the log of a runtime in memory, in the event loop of that runtime."""

    path = Path("memory:")

    def __init__(self, log: EventLog, waiting: dict[InvocationId, str] | None = None) -> None:
        """Take the log, and the approvals that calls wait for."""
        self._waiting = waiting or {}
        self._last = log.last
        self._facts: dict[InvocationId, list[tuple[int, Fact]]] = {}
        after = 0
        while facts := log.read(after, PORTION):
            for position, fact in facts:
                if fact.invocation_id is not None:
                    self._facts.setdefault(fact.invocation_id, []).append((position, fact))
            after = facts[-1][0]

    def head(self) -> Head:
        """Return the end of the log; it has no hash."""
        return Head(position=self._last, hash="")

    def facts_of(self, invocation_id: InvocationId) -> Sequence[tuple[int, Fact]]:
        """Return the facts of one call."""
        return self._facts.get(invocation_id, [])

    def calls(
        self, wanted: FactFilter, *, newest_first: bool = False, before: int | None = None
    ) -> Iterator[tuple[int, list[tuple[int, Fact]]]]:
        """Yield the facts of every call in the order of their last facts; the caller selects among them."""
        for facts in sorted(self._facts.values(), key=lambda each: each[-1][0], reverse=newest_first):
            if before is None or facts[-1][0] < before:
                yield facts[-1][0], facts

    def ends(self, before: int | None = None) -> Iterator[CallEnd]:
        """Yield the ends of calls before a position, the newest first."""
        for place, facts in self.calls(ALL_FACTS, newest_first=True, before=before):
            last = facts[-1][1]
            if last.step.ends and last.step.last is not None and last.invocation_id is not None:
                yield CallEnd(place, last.invocation_id, last.step.last, start_ns(facts), last.at_ns)

    def calls_beginning(self, beginning: str, limit: int) -> list[InvocationId]:
        """Return the calls whose ids begin with a text, the newest first."""
        return sorted((each for each in self._facts if each.startswith(beginning)), reverse=True)[:limit]

    def calls_ending(self, ending: str, limit: int) -> list[InvocationId]:
        """Return the calls whose ids end with a text, the newest first."""
        return sorted((each for each in self._facts if each.endswith(ending)), reverse=True)[:limit]

    def calls_made_by(self, invocation_id: InvocationId, within: tuple[int, int], limit: int) -> list[InvocationId]:
        """Return none: a log in memory has no index of nested calls."""
        return []

    def ownership(self, invocation_id: InvocationId, now: Moment) -> Ownership | None:
        """Return this process for an open call; none if the call is not open."""
        facts = self._facts.get(invocation_id)
        if not facts or facts[-1][1].step.ends:
            return None
        return Ownership(_HERE, is_alive=True, waits_for=self._waiting.get(invocation_id))

    def open_owners(self, now: Moment) -> Iterator[tuple[InvocationId, Ownership]]:
        """Yield every open call."""
        for call in self._facts:
            if (owner := self.ownership(call, now)) is not None:
                yield call, owner

    def documents(self, kind: str) -> list[tuple[str, bytes]]:
        """Return none: readers of a process in memory ask its sources."""
        return []


JournalReader: TypeAlias = SqliteReader | MemoryReader
"""Reads the facts of calls: of a file, or of a runtime in memory."""
