"""What is written together, in one transaction."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from agenttool.stores.fact_codec import join_lines
from agenttool.stores.sqlite.begun import Together, rows_of, write_begun, write_ended
from agenttool.stores.sqlite.chain import End, ToldFact, keep_head, link
from agenttool.stores.sqlite.lists import as_json
from agenttool.stores.sqlite.loose import MOST_LOOSE, bind

FACTS_PER_ROW = 256
"""So many facts share a row at most: whoever looks for one call reads the rows it is in as a whole."""

ROW_BYTES = 64 << 20
"""Facts that take more than this together are parted: SQLite takes no row of a gigabyte."""

Change: TypeAlias = Callable[[sqlite3.Connection], None]

HeldCall: TypeAlias = tuple[str, str, bytes, str | None, int | None, int | None, bool]
"""The columns of an open call; the last says whether it is left to whoever comes."""

_HOLD = (
    "INSERT INTO open_calls (invocation_id, kind, body, approval_id, expires_at_ns, due_at_ns, owner)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (invocation_id) DO UPDATE SET kind = excluded.kind,"
    " body = excluded.body, approval_id = excluded.approval_id, expires_at_ns = excluded.expires_at_ns,"
    " due_at_ns = excluded.due_at_ns, owner = excluded.owner"
)

# One statement for many rows: each statement gives up the interpreter's lock once and has to get it back, which costs
# more than the row itself while an event loop is busy. So lists come as JSON, and SQLite takes them apart.
_INSERT = "INSERT INTO facts VALUES (?, ?, ?, ?)"
_FIND_ONE = "INSERT INTO facts_of_call VALUES (?, ?)"
_FIND_BY = "INSERT INTO facts_of_call SELECT value, ? FROM json_each(?)"
_RELEASE = "DELETE FROM open_calls WHERE invocation_id IN (SELECT value FROM json_each(?))"


FEW = 8
"""So many facts at most are written as loose rows."""

LOOSE_BYTES = 1 << 16
"""A fact that takes more is not: whoever looks for a call reads all loose rows."""


class Batch:
    """Facts, calls begun, held and released, and changes that somebody waits for the outcome of.

    Attributes:
        begin: where calls are put that begin with this batch; the last of `begun`.
        ended: rows of calls that began together and have all ended.
        parted: calls of which it was written that they have begun, and which this batch ends or leaves to others.
        registers: one of the changes says that this process lives.
        is_loose: its facts make loose rows.
        is_kept: it was written, whatever its writer was told meanwhile.
        size: how many bytes its facts took when they were written.
    """

    __slots__ = (
        "_in_hand",
        "_rows",
        "begin",
        "begun",
        "changes",
        "ended",
        "facts",
        "held",
        "is_kept",
        "is_loose",
        "parted",
        "registers",
        "released",
        "size",
    )

    def __init__(self, number: int) -> None:
        """Begin with nothing; batches of a process have different numbers."""
        self.facts: list[ToldFact] = []
        self.begin = Together(number)
        self.begun: list[Together] = [self.begin]
        self._rows: list[tuple[int, str]] = []
        self._in_hand: set[str | None] = set()
        self.ended: list[int] = []
        self.parted: set[str] = set()
        self.held: list[HeldCall] = []
        self.released: list[str] = []
        self.changes: list[Change] = []
        self.registers = self.is_loose = self.is_kept = False
        self.size = 0

    def __bool__(self) -> bool:
        """Tell whether there is anything to write."""
        return bool(self.facts or self.changes or self.held or self.released)

    @property
    def is_single(self) -> bool:
        """Tell whether there is one fact to write, a short one, and nothing else."""
        return (
            len(self.facts) == 1
            and not (self.changes or self.held or self.released)
            and len(self.begun) == 1
            and len(self.facts[0][1]) <= LOOSE_BYTES
        )

    def single_kept(self, number: int) -> None:
        """Hear that its only fact was written, as a loose row, and begin anew."""
        self.facts.clear()
        self.parted.clear()
        begin = self.begin
        if begin.calls:
            begin.is_put = begin.is_written = begin.is_loose = True
            self.begin = Together(number)
            self.begun = [self.begin]

    def before(self, later: "Batch") -> "Batch":
        """Put what could not be written in front of what came since; changes are not tried twice."""
        self.facts += later.facts
        self.begin = later.begin
        self.begun += later.begun
        self.ended += later.ended
        self.parted |= later.parted
        self.held += later.held
        self.released += later.released
        self.changes = later.changes
        self.registers = later.registers
        return self

    def drop(self, calls: Collection[str]) -> None:
        """Write nothing of some calls."""
        self.facts = [fact for fact in self.facts if fact[0] not in calls]
        self.held = [held for held in self.held if held[0] not in calls]
        self.released = [call for call in self.released if call not in calls]

    def depart(self, later: "Batch", begun: Mapping[str, Together]) -> "Batch":
        """Be ready to be written by another thread: nothing of it changes from now on.

        Facts of few callers make loose rows, which say what is under way; it must be known what is, and who tells. If
        there are more, the calls that begin get a row among those begun. One whose calls have all ended is written anew
        for calls that begin, or goes with a change; until then it stays, so that an end alone writes only facts.
        """
        self.is_loose = len(self.facts) <= FEW and not self.changes and all(map(_is_short, self.facts))
        self._rows = []  # of a try that failed
        if self.is_loose:
            for together in self.begun:
                together.is_put = together.is_loose = bool(together.calls)
            self._in_hand = {call for call, _ in self.facts if call is not None and _is_loose(begun.get(call))}
        else:
            self._rows = rows_of(self.begun, self.ended)
        if not self.changes:
            later.ended, self.ended = self.ended, []
        return self

    def write(self, connection: sqlite3.Connection, owner: str, end: End) -> End:
        """Write everything inside the transaction that is open, from the end of the chain on; give the new end."""
        if self.is_loose:
            end = self._write_loosely(connection, owner, end)
        elif self.facts:
            end = self._write_facts(connection, end)
        if self._rows:
            write_begun(connection, owner, self._rows)
        if self.ended:
            write_ended(connection, owner, self.ended)
        if self.held:
            connection.executemany(_HOLD, [(*held, None if is_unowned else owner) for *held, is_unowned in self.held])
        if self.released:
            connection.execute(_RELEASE, (as_json(self.released),))
        for change in self.changes:
            change(connection)
        return end

    def kept(self) -> list[int]:
        """Hear that it was written; give the rows of calls that have all ended while it was."""
        for together in self.begun:
            together.is_written = together.is_put
        if self.is_loose:
            return []
        return [together.number for together in self.begun if together.is_put and not together.calls]

    def _write_loosely(self, connection: sqlite3.Connection, owner: str, end: End) -> End:
        last, chained, bound = end
        for call, lines in _runs(self.facts):
            told = join_lines(lines)
            last, chained = last + len(lines), link(chained, told)
            connection.execute(_INSERT, (last, chained, told, owner if call in self._in_hand else None))
            self.size += len(told)
        if last - bound >= MOST_LOOSE:
            bind(connection)
            bound = last
        return last, chained, bound

    def _write_facts(self, connection: sqlite3.Connection, end: End) -> End:
        last, chained, bound = end
        if last > bound:
            bind(connection)
        for facts, told in _rows(self.facts):
            last, chained = last + len(facts), link(chained, told)
            connection.execute(_INSERT, (last, chained, told, None))
            self.size += len(told)
            calls = dict.fromkeys(call for call, _ in facts if call is not None)  # in order, which an index takes best
            if len(calls) == 1:
                connection.execute(_FIND_ONE, (*calls, last))
            elif calls:
                connection.execute(_FIND_BY, (last, as_json(list(calls))))
        keep_head(connection, (last, chained))
        return last, chained, last


def _runs(facts: list[ToldFact]) -> Iterator[tuple[str | None, list[bytes]]]:
    """Part facts wherever the next one is of another call."""
    if len(facts) == 1:
        ((call, told),) = facts
        yield call, [told]
        return
    for call, run in groupby(facts, key=itemgetter(0)):
        yield call, [told for _, told in run]


def _is_loose(together: Together | None) -> bool:
    return together is not None and together.is_loose


def _is_short(fact: ToldFact) -> bool:
    return len(fact[1]) <= LOOSE_BYTES


def _rows(facts: list[ToldFact]) -> Iterator[tuple[list[ToldFact], bytes]]:
    """Part facts into rows, each with its text."""
    for start in range(0, len(facts), FACTS_PER_ROW):
        yield from _parted(facts[start : start + FACTS_PER_ROW])


def _parted(facts: list[ToldFact]) -> Iterator[tuple[list[ToldFact], bytes]]:
    """Give facts as one row, or as several if that would be too long."""
    told = join_lines(told for _, told in facts)
    half = len(facts) // 2
    if len(told) <= ROW_BYTES or not half:
        yield facts, told
    else:
        yield from _parted(facts[:half])
        yield from _parted(facts[half:])
