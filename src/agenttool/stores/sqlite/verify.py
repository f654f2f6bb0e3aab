"""Verify the chain: find facts that were edited, removed, inserted or moved, and invalid sequences of steps."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agenttool.errors import RecordError, StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import NO_CHECKPOINT, Head, JournalFlaw
from agenttool.records import InvocationId, InvocationStatus, ToolResult
from agenttool.stores.fact_codec import decode_fact, split_lines
from agenttool.stores.sqlite.connect import as_json
from agenttool.stores.sqlite.fact_rows import (
    IS_UNINDEXED,
    MAX_UNINDEXED,
    ROW_CALL,
    STARTED_CALLS,
    UNINDEXED_OWNED,
    find_anchor,
    find_head,
    find_stored_head,
    link,
)
from agenttool.stores.sqlite.leases import has_ended
from agenttool.stores.sqlite.schema import misshapen

PORTION = 50
"""How many rows are read at a time."""

_OPEN = (
    f"SELECT value FROM started_calls, {STARTED_CALLS}"  # noqa: S608 -- constants only
    f" UNION ALL SELECT invocation_id FROM ({UNINDEXED_OWNED})"
)

_NOT_FOUND = (
    "SELECT value FROM json_each(:calls)"  # noqa: S608 -- constants only
    " WHERE NOT EXISTS (SELECT 1 FROM facts_of_call WHERE invocation_id = value AND last = :last)"
    f" AND value NOT IN (SELECT {ROW_CALL} FROM facts WHERE {IS_UNINDEXED} AND last = :last)"
)
_UNINDEXED = "SELECT coalesce(max(last), 0) - CAST(coalesce((SELECT position FROM heads), 0) AS INTEGER) FROM facts"
_COUNT = (
    "SELECT (SELECT count(*) FROM facts_of_call"  # noqa: S608 -- constants only
    "  WHERE last <= :upto OR last > (SELECT coalesce(max(last), 0) FROM facts))"
    f" + (SELECT count({ROW_CALL}) FROM facts WHERE {IS_UNINDEXED} AND last <= :upto)"
)

_HAS_ROW = "SELECT 1 FROM open_calls WHERE invocation_id = :call"
# A call that waits for approval has a checkpoint until it ends, because only that has the question.
_HAS_QUESTION = f"{_HAS_ROW} AND kind <> '{NO_CHECKPOINT}'"

ChainedRow: TypeAlias = tuple[int, bytes, bytes]
"""The position of the last fact in a row, the hash, and the text."""

InspectFact: TypeAlias = Callable[[int, Fact], Iterator[JournalFlaw]]
"""Yields the flaws of a single fact at a position."""


def verify(
    connection: sqlite3.Connection,
    steps: Mapping[str, Step],
    pinned: Head | None = None,
    inspect: InspectFact | None = None,
) -> Iterator[JournalFlaw]:
    """Yield every flaw, in order. Memory grows only with the number of calls that are open at one time."""
    yield from _check_pages(connection)
    for what in misshapen(connection):
        yield JournalFlaw(0, "schema", "tables as agenttool makes them", what)
    anchor = find_anchor(connection)
    stored = find_stored_head(connection)
    if stored is None:
        yield JournalFlaw(anchor[0], "head", "the position that the chain reached", "none")
    elif stored[0] >= anchor[0] or stored[0] < 0:
        yield from _check_place(connection, "head", stored, anchor)
    if pinned is not None:
        yield from _check_pin(connection, pinned, anchor)
    yield from _check_front(connection, anchor[0])
    walk = _ChainWalk(connection, *anchor, steps, inspect)
    while rows := _portion(connection, walk.position):
        for row in rows:
            yield from walk.check(row)
    yield from walk.check_head()
    yield from walk.check_index()
    yield from walk.check_open()
    yield from _check_started(connection, walk.position)


def _check_pages(connection: sqlite3.Connection) -> Iterator[JournalFlaw]:
    """Yield what SQLite finds wrong with the pages, tables and indexes of a file."""
    for (found,) in connection.execute("PRAGMA integrity_check(20)"):
        if found != "ok":
            yield JournalFlaw(0, "file", "pages and indexes in order", found)


def _portion(connection: sqlite3.Connection, after: int) -> list[ChainedRow]:
    # An edited file may have text or numbers where bytes were.
    return connection.execute(
        "SELECT last, CAST(hash AS BLOB), CAST(lines AS BLOB) FROM facts WHERE last > ? ORDER BY last LIMIT ?",
        (after, PORTION),
    ).fetchall()


def _check_pin(connection: sqlite3.Connection, pinned: Head, anchor: tuple[int, bytes]) -> Iterator[JournalFlaw]:
    place = pinned.position
    if place < anchor[0]:
        yield JournalFlaw(place, "pin", pinned.hash, "deleted by retention; pin a later place")
        return
    yield from _check_place(connection, "pin", (place, bytes.fromhex(pinned.hash)), anchor)


def _check_front(connection: sqlite3.Connection, anchor: int) -> Iterator[JournalFlaw]:
    """Check that there is no fact before the beginning of the chain."""
    for (last,) in connection.execute("SELECT last FROM facts WHERE last <= ? ORDER BY last", (anchor,)):
        yield JournalFlaw(last, "position", f"nothing up to {anchor}", str(last))


def _check_started(connection: sqlite3.Connection, position: int) -> Iterator[JournalFlaw]:
    """Check that the lists of started calls can be read."""
    query = "SELECT owner FROM started_calls WHERE CASE WHEN json_valid(calls) THEN json_type(calls) END IS NOT 'array'"
    for (owner,) in connection.execute(query):
        yield JournalFlaw(position, "started", f"the calls of {owner}", "nothing that can be read")


def _check_place(
    connection: sqlite3.Connection, what: str, head: tuple[int, bytes], anchor: tuple[int, bytes]
) -> Iterator[JournalFlaw]:
    """Check that the chain has a given hash at a position."""
    place, expected = head[0], head[1].hex()
    found = connection.execute("SELECT CAST(hash AS BLOB) FROM facts WHERE last = ?", (place,)).fetchone()
    chained = anchor[1] if place == anchor[0] else found[0] if found else None
    if chained is None:
        last, _ = find_head(connection)
        yield JournalFlaw(place, what, expected, f"nothing; the log ends at {last}")
    elif chained != head[1]:
        yield JournalFlaw(place, what, expected, chained.hex())


class _ChainWalk:
    """The position of the walk, and the status of the calls that are open there."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        position: int,
        chained: bytes,
        steps: Mapping[str, Step],
        inspect: InspectFact | None,
    ) -> None:
        self.position = position
        self._connection = connection
        self._chained = chained
        self._steps = steps
        self._inspect = inspect
        self._is_whole = position == 0
        self._calls: dict[InvocationId, tuple[InvocationStatus | None, int]] = {}
        self._indexed = 0

    def check(self, row: ChainedRow) -> Iterator[JournalFlaw]:
        last, chained, text = row
        lines = split_lines(text)
        if last != self.position + len(lines):
            yield JournalFlaw(last, "position", str(self.position + len(lines)), str(last))
        expected = link(self._chained, text)
        if chained != expected:
            yield JournalFlaw(last, "hash", expected.hex(), chained.hex())
        # The walk continues with what is written, so that each flaw is reported once.
        self.position, self._chained = last, chained
        calls: set[str] = set()
        for position, line in enumerate(lines, last - len(lines) + 1):
            try:
                fact = decode_fact(line, self._steps)
                if fact.invocation_id is not None:
                    calls.add(fact.invocation_id)
                yield from self._check_sequence(position, fact)
                if self._inspect is not None:
                    yield from self._inspect(position, fact)
            except (StoreError, RecordError) as error:
                yield JournalFlaw(position, "fact", "a fact that can be read", str(error))
        yield from self._check_calls(last, calls)

    def _check_calls(self, last: int, calls: set[str]) -> Iterator[JournalFlaw]:
        """Check that the index has each call of a row."""
        self._indexed += len(calls)
        for (missing,) in self._connection.execute(_NOT_FOUND, {"calls": as_json([*calls]), "last": last}):
            yield JournalFlaw(last, "invocation_id", repr(missing), "nothing under that id")
            self._indexed -= 1

    def check_index(self) -> Iterator[JournalFlaw]:
        """Check that the index has no wrong entries; other processes may write meanwhile."""
        (count,) = self._connection.execute(_COUNT, {"upto": self.position}).fetchone()
        if count != self._indexed:
            yield JournalFlaw(self.position, "invocation_id", f"{self._indexed} places", f"{count} places")

    def check_head(self) -> Iterator[JournalFlaw]:
        """Check that few rows are unindexed: all of them are read to find a call."""
        (count,) = self._connection.execute(_UNINDEXED).fetchone()
        if count >= MAX_UNINDEXED:
            expected = f"one that was stored less than {MAX_UNINDEXED} facts ago"
            yield JournalFlaw(self.position, "head", expected, f"{count} facts since then")

    def check_open(self) -> Iterator[JournalFlaw]:
        """Check that each call without an end is listed as open; if it is not, its end was cut off."""
        listed = {call for (call,) in self._connection.execute(_OPEN)} if self._calls else set[str]()
        for call, (status, _) in self._calls.items():
            is_asking = status is InvocationStatus.AWAITING_APPROVAL
            if (is_asking or call not in listed) and self._is_lost(call, _HAS_QUESTION if is_asking else _HAS_ROW):
                what, found = ("question", "it cannot be answered") if is_asking else ("end", "it is not listed")
                yield JournalFlaw(self.position, what, f"one for {call}", found)

    def _is_lost(self, call: InvocationId, listed: str) -> bool:
        if self._connection.execute(listed, {"call": call}).fetchone() is not None:
            return False
        try:
            return not has_ended(self._connection, self._steps, call)  # it may have ended meanwhile
        except StoreError:  # an unreadable fact, which is reported already
            return False

    def _check_sequence(self, position: int, fact: Fact) -> Iterator[JournalFlaw]:
        call, step = fact.invocation_id, fact.step
        if call is None:
            return
        # A call that began before the anchor is checked from its first fact on.
        known = self._calls.get(call) or (None, fact.sequence if not self._is_whole else 0)
        status, events = known
        if fact.sequence != events:
            yield JournalFlaw(position, "sequence", str(events), str(fact.sequence))
        if status not in step.after:
            yield JournalFlaw(position, "status", f"a step that may follow {status}", step.name)
        if step.last is not None and step.last.is_terminal:
            self._calls.pop(call, None)
            if not _has_result(fact):
                yield JournalFlaw(position, "result", "the result of the call", "none")
        else:
            self._calls[call] = (step.last or status, fact.sequence + step.events)


def _has_result(fact: Fact) -> bool:
    data = fact.data
    return (
        data is not None and not isinstance(data, dict) and any(isinstance(r, ToolResult) for r in data.records(fact))
    )
