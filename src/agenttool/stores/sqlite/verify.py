"""Walk the chain: whether any fact was edited, taken out, put in or moved, and whether each call's story can be."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agenttool.errors import RecordError, StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import Head, JournalFlaw
from agenttool.records import InvocationId, InvocationStatus, ToolResult
from agenttool.stores.fact_codec import decode_fact, split_lines
from agenttool.stores.sqlite.begun import has_ended
from agenttool.stores.sqlite.chain import find_anchor, find_head, find_kept_head, link
from agenttool.stores.sqlite.lists import BEGUN_CALLS, as_json
from agenttool.stores.sqlite.loose import CALL, IS_LOOSE, LOOSELY_HELD, MOST_LOOSE
from agenttool.stores.sqlite.schema import misshapen

PORTION = 50
"""How many rows are read at a time."""

_UNDER_WAY = (
    f"SELECT value FROM begun, {BEGUN_CALLS}"  # noqa: S608 -- constants only
    f" UNION ALL SELECT invocation_id FROM ({LOOSELY_HELD})"
)

_NOT_FOUND = (
    "SELECT value FROM json_each(:calls)"  # noqa: S608 -- constants only
    " WHERE NOT EXISTS (SELECT 1 FROM facts_of_call WHERE invocation_id = value AND last = :last)"
    f" AND value NOT IN (SELECT {CALL} FROM facts WHERE {IS_LOOSE} AND last = :last)"
)
_LOOSE = "SELECT coalesce(max(last), 0) - CAST(coalesce((SELECT position FROM heads), 0) AS INTEGER) FROM facts"
_COUNT = (
    "SELECT (SELECT count(*) FROM facts_of_call"  # noqa: S608 -- constants only
    "  WHERE last <= :upto OR last > (SELECT coalesce(max(last), 0) FROM facts))"
    f" + (SELECT count({CALL}) FROM facts WHERE {IS_LOOSE} AND last <= :upto)"
)

_IS_HELD = "SELECT 1 FROM open_calls WHERE invocation_id = :call"
# A call that asked somebody is held until it ends, because nobody else knows what was asked.
_IS_ASKED = f"{_IS_HELD} AND kind <> 'begun'"

Row: TypeAlias = tuple[int, bytes, bytes]
"""The position of the last fact in a row, the hash, and what is told."""

Inspect: TypeAlias = Callable[[int, Fact], Iterator[JournalFlaw]]
"""Looks at a fact and its position for flaws of its own."""


def verify(
    connection: sqlite3.Connection,
    steps: Mapping[str, Step],
    pinned: Head | None = None,
    inspect: Inspect | None = None,
) -> Iterator[JournalFlaw]:
    """Tell every flaw, in order. Memory grows with the calls that are under way at one time, and with nothing else."""
    for what in misshapen(connection):
        yield JournalFlaw(position=0, what="schema", expected="tables as agenttool makes them", found=what)
    anchor = find_anchor(connection)
    kept = find_kept_head(connection)
    if kept is not None and (kept[0] >= anchor[0] or kept[0] < 0):
        yield from _check_place(connection, "head", kept, anchor)
    if pinned is not None:
        yield from _check_pin(connection, pinned, anchor)
    yield from _check_front(connection, anchor[0])
    walk = _Walk(connection, *anchor, steps, inspect)
    while rows := _portion(connection, walk.position):
        for row in rows:
            yield from walk.check(row)
    yield from walk.check_head()
    yield from walk.check_index()
    yield from walk.check_open()
    yield from _check_begun(connection, walk.position)


def _portion(connection: sqlite3.Connection, after: int) -> list[Row]:
    # Whoever edits the file may leave text or numbers where bytes were.
    return connection.execute(
        "SELECT last, CAST(hash AS BLOB), CAST(told AS BLOB) FROM facts WHERE last > ? ORDER BY last LIMIT ?",
        (after, PORTION),
    ).fetchall()


def _check_pin(connection: sqlite3.Connection, pinned: Head, anchor: tuple[int, bytes]) -> Iterator[JournalFlaw]:
    place = pinned.position
    if place < anchor[0]:
        yield JournalFlaw(
            position=place, what="pin", expected=pinned.hash, found="let go by retention; pin a later place"
        )
        return
    yield from _check_place(connection, "pin", (place, bytes.fromhex(pinned.hash)), anchor)


def _check_front(connection: sqlite3.Connection, anchor: int) -> Iterator[JournalFlaw]:
    """Check that nothing stands before the place where the chain begins."""
    for (last,) in connection.execute("SELECT last FROM facts WHERE last <= ? ORDER BY last", (anchor,)):
        yield JournalFlaw(position=last, what="position", expected=f"nothing up to {anchor}", found=str(last))


def _check_begun(connection: sqlite3.Connection, position: int) -> Iterator[JournalFlaw]:
    """Check that whoever comes after a dead process can read which calls it had begun."""
    query = "SELECT owner FROM begun WHERE CASE WHEN json_valid(calls) THEN json_type(calls) END IS NOT 'array'"
    for (owner,) in connection.execute(query):
        yield JournalFlaw(
            position=position, what="begun", expected=f"the calls of {owner}", found="nothing that can be read"
        )


def _check_place(
    connection: sqlite3.Connection, what: str, head: tuple[int, bytes], anchor: tuple[int, bytes]
) -> Iterator[JournalFlaw]:
    """Check that the chain has the hash at a place that somebody put down."""
    place, expected = head[0], head[1].hex()
    found = connection.execute("SELECT CAST(hash AS BLOB) FROM facts WHERE last = ?", (place,)).fetchone()
    chained = anchor[1] if place == anchor[0] else found[0] if found else None
    if chained is None:
        last, _ = find_head(connection)
        yield JournalFlaw(position=place, what=what, expected=expected, found=f"nothing; the log ends at {last}")
    elif chained != head[1]:
        yield JournalFlaw(position=place, what=what, expected=expected, found=chained.hex())


class _Walk:
    """Where the walk is, and how the calls under way there stand."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        position: int,
        chained: bytes,
        steps: Mapping[str, Step],
        inspect: Inspect | None,
    ) -> None:
        self.position = position
        self._connection = connection
        self._chained = chained
        self._steps = steps
        self._inspect = inspect
        self._is_whole = position == 0
        self._calls: dict[InvocationId, tuple[InvocationStatus | None, int]] = {}
        self._indexed = 0

    def check(self, row: Row) -> Iterator[JournalFlaw]:
        last, chained, told = row
        lines = split_lines(told)
        if last != self.position + len(lines):
            yield JournalFlaw(position=last, what="position", expected=str(self.position + len(lines)), found=str(last))
        expected = link(self._chained, told)
        if chained != expected:
            yield JournalFlaw(position=last, what="hash", expected=expected.hex(), found=chained.hex())
        # From here on what is written counts: a flaw is told once, where it is.
        self.position, self._chained = last, chained
        calls: set[str] = set()
        for position, line in enumerate(lines, last - len(lines) + 1):
            try:
                fact = decode_fact(line, self._steps)
                if fact.invocation_id is not None:
                    calls.add(fact.invocation_id)
                yield from self._check_story(position, fact)
                if self._inspect is not None:
                    yield from self._inspect(position, fact)
            except (StoreError, RecordError) as error:
                yield JournalFlaw(position=position, what="fact", expected="a fact that can be read", found=str(error))
        yield from self._check_calls(last, calls)

    def _check_calls(self, last: int, calls: set[str]) -> Iterator[JournalFlaw]:
        """Check that each call in a row is found there by its id."""
        self._indexed += len(calls)
        for (missing,) in self._connection.execute(_NOT_FOUND, {"calls": as_json([*calls]), "last": last}):
            yield JournalFlaw(
                position=last, what="invocation_id", expected=repr(missing), found="nothing under that id"
            )
            self._indexed -= 1

    def check_index(self) -> Iterator[JournalFlaw]:
        """Check that no call is said to be where it is not; others may write meanwhile."""
        (count,) = self._connection.execute(_COUNT, {"upto": self.position}).fetchone()
        if count != self._indexed:
            yield JournalFlaw(
                position=self.position,
                what="invocation_id",
                expected=f"{self._indexed} places",
                found=f"{count} places",
            )

    def check_head(self) -> Iterator[JournalFlaw]:
        """Check that a head was kept not long ago: all behind it is looked through for every call."""
        (count,) = self._connection.execute(_LOOSE).fetchone()
        if count >= MOST_LOOSE:
            expected = f"one that was kept less than {MOST_LOOSE} facts ago"
            yield JournalFlaw(position=self.position, what="head", expected=expected, found=f"{count} facts since then")

    def check_open(self) -> Iterator[JournalFlaw]:
        """Check that each call without an end is in somebody's hands; if nobody has it, its end was cut away."""
        under_way = {call for (call,) in self._connection.execute(_UNDER_WAY)} if self._calls else set[str]()
        for call, (status, _) in self._calls.items():
            is_asking = status is InvocationStatus.AWAITING_APPROVAL
            if (is_asking or call not in under_way) and self._is_lost(call, _IS_ASKED if is_asking else _IS_HELD):
                what, found = ("question", "nobody can answer it") if is_asking else ("end", "nobody has it")
                yield JournalFlaw(position=self.position, what=what, expected=f"one for {call}", found=found)

    def _is_lost(self, call: InvocationId, held: str) -> bool:
        if self._connection.execute(held, {"call": call}).fetchone() is not None:
            return False
        try:
            return not has_ended(self._connection, self._steps, call)  # it may have, meanwhile
        except StoreError:  # one of its facts cannot be read, which is told already
            return False

    def _check_story(self, position: int, fact: Fact) -> Iterator[JournalFlaw]:
        call, step = fact.invocation_id, fact.step
        if call is None:
            return
        # A call that began before the anchor is taken up where it is met.
        begun = self._calls.get(call) or (None, fact.sequence if not self._is_whole else 0)
        status, events = begun
        if fact.sequence != events:
            yield JournalFlaw(position=position, what="sequence", expected=str(events), found=str(fact.sequence))
        if status not in step.after:
            yield JournalFlaw(
                position=position, what="status", expected=f"a step that may follow {status}", found=step.name
            )
        if step.last is not None and step.last.is_terminal:
            self._calls.pop(call, None)
            if not _has_result(fact):
                yield JournalFlaw(position=position, what="result", expected="the result of the call", found="none")
        else:
            self._calls[call] = (step.last or status, fact.sequence + step.events)


def _has_result(fact: Fact) -> bool:
    data = fact.data
    return (
        data is not None and not isinstance(data, dict) and any(isinstance(r, ToolResult) for r in data.records(fact))
    )
