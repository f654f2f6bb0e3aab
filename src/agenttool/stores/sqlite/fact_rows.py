"""The rows of the fact table: their hash chain, their index by call, and the queries that split rows into facts.

Facts that are committed together share a row and one hash over the row and the hash before, so that every change can
be detected. A commit for few callers writes *unindexed* rows: each belongs to one call and is in neither the index nor
the list of started calls, because every page that a commit touches costs time. `index_rows` adds many of them at once
and stores the head; all rows behind the stored head are unindexed, and there are never many.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import Head
from agenttool.records import InvocationId, InvocationStatus
from agenttool.stores.fact_codec import FactHead, call_of, decode_fact, head_of, split_lines
from agenttool.stores.sqlite.connect import RESTORE, as_json

PendingFact: TypeAlias = tuple[str | None, bytes]
"""A fact that is not on disk yet: its call and its line."""

FactRow: TypeAlias = tuple[int, bytes]
"""Facts of one commit: the position of the last of them, and a line for each."""

ChainEnd: TypeAlias = tuple[int, bytes, int]
"""The position and hash of the newest fact, and the position of the stored head."""

MAX_UNINDEXED = 128
"""So many facts may be unindexed."""

MAX_ENDED = 128
"""So many calls may have ended and still be listed as started; recovery asks the log."""

CACHED_ROWS = 16
"""So many rows stay split while the calls of a log are listed."""

# An edited file may have text or numbers where bytes were.
ROW_CALL = "call_in(CAST(lines AS BLOB))"
"""The call of an unindexed row."""

IS_UNINDEXED = "last > CAST(coalesce((SELECT position FROM heads), 0) AS INTEGER)"
"""Selects unindexed rows."""

UNINDEXED_CALLS = f"SELECT DISTINCT {ROW_CALL} AS invocation_id FROM facts WHERE {IS_UNINDEXED}"  # noqa: S608 -- constants only
"""The calls of unindexed rows."""

UNINDEXED_OWNED = (
    f"SELECT owner, {ROW_CALL} AS invocation_id, max(last) AS last"  # noqa: S608 -- constants only
    f" FROM facts WHERE {IS_UNINDEXED} GROUP BY invocation_id HAVING owner NOT NULL"
)
"""The open calls that only unindexed rows list: the newest row of a call has the owner."""

STARTED_CALLS = "json_each(CASE WHEN json_valid(started_calls.calls) THEN started_calls.calls ELSE '[]' END)"
"""The calls of a row of started calls; a damaged row has none, and does not hide the others."""

_STORED_HEAD = "(SELECT CAST(position AS INTEGER) FROM heads), EXISTS (SELECT 1 FROM processes WHERE owner = ?)"
_END = f"SELECT last, CAST(hash AS BLOB), {_STORED_HEAD} FROM facts ORDER BY last DESC LIMIT 1"  # noqa: S608 -- constants only
_EMPTY_END = f"SELECT {_STORED_HEAD}"

_BYTES = "iif(typeof(lines) = 'blob', lines, CAST(lines AS BLOB))"  # a cast would copy what is bytes already
_UNINDEXED_ROWS = f"SELECT last, {_BYTES}, CAST(owner AS BLOB) FROM facts WHERE {IS_UNINDEXED} ORDER BY last"  # noqa: S608 -- constants only
_COUNT_STARTED = "SELECT count(*) FROM started_calls WHERE owner = ? AND number < 0"
_INDEX = "INSERT OR IGNORE INTO facts_of_call SELECT value, CAST(key AS INTEGER) FROM json_each(?)"
_DELETE_ENDED = (
    "DELETE FROM started_calls WHERE owner = ? AND number < 0 AND NOT EXISTS"  # noqa: S608 -- constants only
    f" (SELECT 1 FROM {STARTED_CALLS} AS one WHERE one.value IN (SELECT value FROM json_each(?)))"
)

FORWARD = "SELECT last, CAST(lines AS BLOB) FROM facts WHERE last > ?{} ORDER BY last"
BACKWARD = (
    "SELECT last, CAST(lines AS BLOB) FROM facts"
    " WHERE last <= coalesce((SELECT min(last) FROM facts WHERE last >= ?), ?){} ORDER BY last DESC"
)
_OF_CALL = (
    "SELECT last, CAST(lines AS BLOB) FROM facts_of_call CROSS JOIN facts USING (last) WHERE invocation_id = :call"  # noqa: S608 -- constants
    f" UNION ALL SELECT last, CAST(lines AS BLOB) FROM facts WHERE {IS_UNINDEXED}"
    " AND instr(lines, CAST(:call AS BLOB)) > 0"
    " AND NOT EXISTS (SELECT 1 FROM facts_of_call AS one WHERE one.invocation_id = :call AND one.last = facts.last)"
    " ORDER BY last"
)
_ROWS_OF_CALL = "SELECT last FROM facts_of_call WHERE invocation_id = ?"
_UNINDEXED_PLACES = f"SELECT last, {ROW_CALL} FROM facts WHERE {IS_UNINDEXED}"  # noqa: S608 -- constants only


def link(previous: bytes, text: bytes) -> bytes:
    """Return the hash of a row that follows a hash."""
    return hashlib.sha256(previous + text).digest()


def find_head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return the position and hash of the newest fact, or of the anchor if there is none."""
    found = connection.execute("SELECT last, CAST(hash AS BLOB) FROM facts ORDER BY last DESC LIMIT 1").fetchone()
    return found or find_anchor(connection)


def as_head(found: tuple[int, bytes]) -> Head:
    """Return a position and its hash in the form of the port."""
    return Head(position=found[0], hash=found[1].hex())


def find_end(connection: sqlite3.Connection, owner: str) -> tuple[ChainEnd, bool]:
    """Return the end of the chain, to append to it, and whether an owner has a lease.

    Raises:
        StoreError: the stored head is missing, or the chain ends before it: appending would hide that.
    """
    found = connection.execute(_END, (owner,)).fetchone()
    if found is None:
        found = (*find_anchor(connection), *connection.execute(_EMPTY_END, (owner,)).fetchone())
    last, chained, stored, is_known = found
    if stored is None:
        raise StoreError(f"the stored head of the log is missing; verify it, then {RESTORE}")
    if stored > last:
        raise StoreError(f"the log ends at {last}, though it had come to {stored}; verify it, then {RESTORE}")
    return (last, chained, stored), is_known


def store_head(connection: sqlite3.Connection, head: tuple[int, bytes] | None = None) -> None:
    """Store the end of the chain apart from it, inside a transaction."""
    connection.execute("REPLACE INTO heads VALUES (1, ?, ?)", head or find_head(connection))


def find_stored_head(connection: sqlite3.Connection) -> tuple[int, bytes] | None:
    """Return the stored head; none if it was deleted."""
    query = "SELECT CAST(coalesce(position, -1) AS INTEGER), CAST(coalesce(hash, '') AS BLOB) FROM heads"
    return connection.execute(query).fetchone()


def find_anchor(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return where the chain begins: the position and hash of the newest fact that retention deleted.

    Raises:
        StoreError: the anchor is missing.
    """
    query = "SELECT position, CAST(hash AS BLOB) FROM anchors ORDER BY position DESC LIMIT 1"
    found = connection.execute(query).fetchone()
    if found is None:
        raise StoreError(f"the anchor of the log is missing, so that its chain has no beginning; {RESTORE}")
    return found


def register_functions(connection: sqlite3.Connection) -> None:
    """Add the SQL function that reads the call of an unindexed row."""
    connection.create_function("call_in", 1, _call_in, deterministic=True)


def index_rows(connection: sqlite3.Connection) -> None:
    """Index all unindexed rows and list their open calls as started, inside a transaction, and store the head."""
    places: list[tuple[str, int]] = []
    newest: dict[str, tuple[bytes | None, int]] = {}
    for last, text, owner in connection.execute(_UNINDEXED_ROWS).fetchall():
        call = _call_in(text)
        if call is not None:
            places.append((call, last))
            newest[call] = (owner, last)
    for call, (owner, last) in newest.items():
        if owner is not None:
            list_started(connection, owner.decode(errors="replace"), last, [call])
    if places:
        places.sort()  # an index is fastest to extend in order
        connection.execute(_INDEX, (as_json({last: call for call, last in places}),))
    store_head(connection)


def list_started(connection: sqlite3.Connection, owner: str, last: int, calls: Sequence[str]) -> None:
    """List open calls as started; `last` is the position of one of their facts."""
    connection.execute("REPLACE INTO started_calls VALUES (?, ?, ?)", (owner, -last, as_json(calls)))


def delete_ended(connection: sqlite3.Connection, owner: str, open_calls: list[str]) -> None:
    """Delete the rows of started calls that have ended, once there are enough of them to be worth a scan."""
    (count,) = connection.execute(_COUNT_STARTED, (owner,)).fetchone()
    if count > len(open_calls) + MAX_ENDED:
        connection.execute(_DELETE_ENDED, (owner, as_json(open_calls)))


def _call_in(text: bytes) -> str | None:
    """Return the call of a row; a damaged row has none."""
    try:
        return call_of(text.partition(b"\n")[0])
    except StoreError:
        return None


def split_rows(rows: Iterable[FactRow]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of rows one by one, each with its position."""
    for last, text in rows:
        lines = split_lines(text)
        yield from enumerate(lines, last - len(lines) + 1)


class FactFilter(NamedTuple):
    """Selects facts by their heads and by a text, so that only these are decoded.

    Attributes:
        steps: the names of the steps; empty for all.
        accepts: decides about the head of a fact; none for all.
        text: a text in the line of every selected fact, by which SQLite skips rows.
        any_case: whether that text, in lower case, stands for its spelling in any case.
    """

    steps: tuple[str, ...] = ()
    accepts: Callable[[FactHead], bool] | None = None
    text: bytes = b""
    any_case: bool = False

    def query(self, query: str) -> tuple[str, list[bytes]]:
        """Return a query with the conditions for rows in its place `{}`, and their values."""
        texts = [self.text] if self.text else []
        begins = self._begins()
        column = "lower(lines)" if self.any_case else "lines"
        has_text = [f"instr({column}, CAST(? AS {'TEXT' if self.any_case else 'BLOB'}))"] if texts else []
        conditions = [" OR ".join(each) for each in (has_text, ["instr(lines, ?)"] * len(begins)) if each]
        return query.format("".join(f" AND ({condition})" for condition in conditions)), [*texts, *begins]

    def lines(self, rows: Iterable[FactRow]) -> Iterator[tuple[int, bytes]]:
        """Yield the selected lines of rows, each with its position."""
        begins = self._begins()
        return (each for each in split_rows(rows) if self._selects(each[1], begins))

    def _selects(self, line: bytes, begins: tuple[bytes, ...]) -> bool:
        if begins and not line.startswith(begins):
            return False
        if self.text and self.text not in (line.lower() if self.any_case else line):
            return False
        return self.accepts is None or self.accepts(head_of(line))

    def _begins(self) -> tuple[bytes, ...]:
        return tuple(f'["{step}",'.encode() for step in self.steps)


ALL_FACTS = FactFilter()


def read_forward(
    connection: sqlite3.Connection, steps: Mapping[str, Step], after: int, limit: int, wanted: FactFilter = ALL_FACTS
) -> list[tuple[int, Fact]]:
    """Return facts after a position, the oldest first."""
    query, values = wanted.query(FORWARD)
    lines = wanted.lines(connection.execute(query, (after, *values)))
    return [
        (place, decode_fact(line, steps)) for place, line in islice((each for each in lines if each[0] > after), limit)
    ]


class CallEnd(NamedTuple):
    """The end of a call: its position, the call, its last status, and when it began and ended."""

    place: int
    invocation_id: InvocationId
    status: InvocationStatus
    began_ns: int
    ended_ns: int


class StoredLines:
    """Finds the lines of calls that share rows; the rows read last are cached, split by call."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: dict[int, dict[InvocationId | None, list[tuple[int, bytes]]]] = {}
        self._unindexed: dict[str | None, list[int]] = {}
        for last, call in connection.execute(_UNINDEXED_PLACES):
            self._unindexed.setdefault(call, []).append(last)

    def of(self, call: InvocationId) -> list[tuple[int, bytes]]:
        """Return the lines of a call, oldest first, each with its position."""
        indexed = {last for (last,) in self._connection.execute(_ROWS_OF_CALL, (call,))}
        places = sorted(indexed.union(self._unindexed.get(call, ())))
        return [line for last in places for line in self._row(last).get(call, ())]

    def _row(self, last: int) -> dict[InvocationId | None, list[tuple[int, bytes]]]:
        if last not in self._rows:
            if len(self._rows) >= CACHED_ROWS:
                del self._rows[next(iter(self._rows))]
            found = self._rows[last] = {}
            query = "SELECT last, CAST(lines AS BLOB) FROM facts WHERE last = ?"
            for place, line in split_rows(self._connection.execute(query, (last,))):
                found.setdefault(call_of(line), []).append((place, line))
        return self._rows[last]


def lines_of(connection: sqlite3.Connection, invocation_id: InvocationId) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of one call, oldest first, each with its position."""
    lines, named = split_rows(connection.execute(_OF_CALL, {"call": invocation_id})), invocation_id.encode()
    return ((place, line) for place, line in lines if named in line and call_of(line) == invocation_id)
