"""Read-only access to a SQLite file: it is never created or written."""

import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Self

from agenttool.errors import ConfigError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import NO_CHECKPOINT, Head, JournalFlaw, OpenCall
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import FactHead, call_of, decode_fact
from agenttool.stores.sqlite.backup import copy_store
from agenttool.stores.sqlite.connect import RESTORE, UNREADABLE, advice_on, open_read_only, reading
from agenttool.stores.sqlite.fact_rows import (
    ALL_FACTS,
    IS_UNINDEXED,
    ROW_CALL,
    UNINDEXED_CALLS,
    FactFilter,
    as_head,
    find_anchor,
    find_head,
    lines_of,
    read_backward,
    read_calls,
    read_forward,
    read_sizes,
    register_functions,
    split_rows,
)
from agenttool.stores.sqlite.leases import ALIVE_OWNERS, Ownership, find_open_calls, find_ownership, values_of
from agenttool.stores.sqlite.schema import is_empty, missing
from agenttool.stores.sqlite.verify import InspectFact, verify

PORTION = 500

# Calls are found by the index and in unindexed rows, in two queries, so that the index returns no more than wanted.
_CHOSEN = """
    SELECT * FROM (SELECT DISTINCT invocation_id FROM facts_of_call WHERE {0} ORDER BY invocation_id DESC LIMIT :limit)
    UNION SELECT * FROM ({1}) WHERE {0} ORDER BY invocation_id DESC LIMIT :limit
"""
_BEGINS_WITH = _CHOSEN.format("invocation_id >= :part AND invocation_id < :part || char(1114111)", UNINDEXED_CALLS)
_ENDS_WITH = _CHOSEN.format("substr(invocation_id, -length(:part)) = :part", UNINDEXED_CALLS)
_NEWEST = (
    "SELECT max(invocation_id) FROM (SELECT max(invocation_id) AS invocation_id FROM facts_of_call"  # noqa: S608 -- constants
    f" UNION ALL {UNINDEXED_CALLS})"
)
_COUNT = (
    "SELECT (SELECT count(DISTINCT invocation_id) FROM facts_of_call) + (SELECT count(invocation_id)"  # noqa: S608 -- constants
    f" FROM ({UNINDEXED_CALLS}) AS unindexed WHERE NOT EXISTS"
    " (SELECT 1 FROM facts_of_call WHERE facts_of_call.invocation_id = unindexed.invocation_id))"
)
_EARLIER = (
    "SELECT 1 FROM facts_of_call WHERE invocation_id = :call AND last < :place"  # noqa: S608 -- constants only
    f" UNION ALL SELECT 1 FROM facts WHERE {IS_UNINDEXED} AND last < :place AND {ROW_CALL} = :call LIMIT 1"
)
# A nested call is made while its parent is open, so only the facts in between are read.
_MADE_BY = (
    "SELECT last, CAST(lines AS BLOB) FROM facts WHERE last > :first AND instr(lines, :named) > 0"
    " AND last <= coalesce((SELECT min(last) FROM facts WHERE last >= :last), :last) ORDER BY last"
)


class SqliteReader:
    """Reads the log while processes write it. Use `open` as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection, steps: Mapping[str, Step]) -> None:
        self.path = path
        self._connection = connection
        self._steps = steps
        self._first_facts: tuple[int, dict[InvocationId | None, int]] = (0, {})

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, steps: Mapping[str, Step]) -> Generator[Self]:
        """Open an existing file.

        Raises:
            ConfigError: there is none, or it is not one that this version can read; it is left as it was.
        """
        if not path.is_file():
            raise ConfigError(f"there is no journal at {str(path)!r}; name its file with --store")
        try:
            connection = open_read_only(path)
        except sqlite3.Error as error:
            raise ConfigError(f"cannot open {str(path)!r}: {error}; name a file that can be read") from error
        try:
            register_functions(connection)
            _check_file(connection, str(path))
            yield cls(path, connection, steps)
        finally:
            connection.close()

    @contextmanager
    def at_one_moment(self) -> Generator[None]:
        """Read the log as it is now, whatever is written until the end of the context."""
        with reading(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def head(self) -> Head:
        """Return the end of the chain."""
        with reading(self.path):
            return as_head(find_head(self._connection))

    def anchor(self) -> Head:
        """Return where the chain begins; after its first position, if older facts were deleted."""
        with reading(self.path):
            return as_head(find_anchor(self._connection))

    def heads(self, limit: int) -> list[Head]:
        """Return the newest positions of the chain with their hashes, the oldest of them first, at least its end."""
        query = "SELECT last, CAST(hash AS BLOB) FROM facts ORDER BY last DESC LIMIT ?"
        with reading(self.path):
            found = self._connection.execute(query, (limit,)).fetchall()
        return [*map(as_head, reversed(found))] or [self.anchor()]

    def holds(self, head: Head) -> bool:
        """Return whether the chain has a position with its hash, or begins after it."""
        anchor = self.anchor()
        if head.position <= anchor.position:
            return head.position < anchor.position or head.hash == anchor.hash
        with reading(self.path):
            query = "SELECT 1 FROM facts WHERE last = ? AND hash = ?"
            return self._connection.execute(query, (head.position, bytes.fromhex(head.hash))).fetchone() is not None

    def count(self) -> tuple[int, int]:
        """Return the number of facts and of calls."""
        with reading(self.path):
            facts = find_head(self._connection)[0] - find_anchor(self._connection)[0]
            (calls,) = self._connection.execute(_COUNT).fetchone()
        return facts, calls

    def read(self, after: int, limit: int = PORTION, wanted: FactFilter = ALL_FACTS) -> Sequence[tuple[int, Fact]]:
        """Return facts after a position, the oldest first."""
        with reading(self.path):
            return read_forward(self._connection, self._steps, after, limit, wanted)

    def sizes(self, after: int) -> Iterator[tuple[FactHead, int]]:
        """Yield what each fact after a position is about, the oldest first, with its size in bytes."""
        with reading(self.path):
            yield from read_sizes(self._connection, after)

    def read_back(
        self, before: int, limit: int = PORTION, wanted: FactFilter = ALL_FACTS
    ) -> Sequence[tuple[int, Fact]]:
        """Return facts before a position, the newest first."""
        with reading(self.path):
            return read_backward(self._connection, self._steps, before, limit, wanted)

    def facts_of(self, invocation_id: InvocationId) -> Sequence[tuple[int, Fact]]:
        """Return the facts of one call, each with its position."""
        with reading(self.path):
            lines = lines_of(self._connection, invocation_id)
            return [(place, decode_fact(line, self._steps)) for place, line in lines]

    def calls(
        self, wanted: FactFilter, *, newest_first: bool = False, before: int | None = None
    ) -> Iterator[tuple[int, list[tuple[int, Fact]]]]:
        """Yield all facts of each ended call with a selected fact, and the position of its end, by that order.

        `before` leaves out the calls that ended at this position or after it.
        """
        with reading(self.path):
            yield from read_calls(self._connection, self._steps, wanted, newest_first=newest_first, before=before)

    def begins(self, invocation_id: InvocationId, position: int) -> bool:
        """Return whether a fact is the first of its call that was not deleted."""
        query = "SELECT last, CAST(lines AS BLOB) FROM facts WHERE last >= ? ORDER BY last LIMIT 1"
        with reading(self.path):
            if self._connection.execute(_EARLIER, {"call": invocation_id, "place": position}).fetchone():
                return False
            if self._first_facts[0] < position:  # callers go through a row fact by fact
                (last, text) = self._connection.execute(query, (position,)).fetchone()
                firsts = {call_of(line): place for place, line in reversed(list(split_rows([(last, text)])))}
                self._first_facts = (last, firsts)
        return self._first_facts[1].get(invocation_id) == position

    def calls_beginning(self, beginning: str, limit: int) -> list[InvocationId]:
        """Return the calls whose ids begin with a text, the newest first."""
        return self._calls(_BEGINS_WITH, beginning, limit)

    def calls_ending(self, ending: str, limit: int) -> list[InvocationId]:
        """Return the calls whose ids end with a text, the newest first, by a scan of all ids."""
        return self._calls(_ENDS_WITH, ending, limit)

    def newest_call(self) -> InvocationId | None:
        """Return the call that began last; ids sort by time."""
        with reading(self.path):
            (found,) = self._connection.execute(_NEWEST).fetchone()
        return found

    def calls_made_by(self, invocation_id: InvocationId, within: tuple[int, int], limit: int) -> list[InvocationId]:
        """Return the nested calls of a call, in order."""
        named = f'"parent_invocation_id":"{invocation_id}"'.encode()
        first, last = within
        with reading(self.path):
            rows = self._connection.execute(_MADE_BY, {"first": first, "last": last, "named": named})
            lines = ((place, line) for place, line in split_rows(rows) if first < place <= last and named in line)
            made = (call_of(line) for _, line in lines)
            return list(islice((each for each in made if each is not None and each != invocation_id), limit))

    def verify(self, pinned: Head | None = None, inspect: InspectFact | None = None) -> Iterator[JournalFlaw]:
        """Walk the chain and yield every flaw; `inspect` may add flaws of single facts."""
        with reading(self.path):
            yield from verify(self._connection, self._steps, pinned, inspect)

    def backup(self, target: Path, *, beforehand: Callable[[], None] | None = None) -> None:
        """Copy the file as it is at one moment; `beforehand` is called before the copy appears.

        Raises:
            StoreError: the target exists, the file has a flaw, or a disk failed; no target is left behind.
        """
        copy_store(self.path, target, self._steps, beforehand=beforehand)

    def open_calls(self) -> Iterator[OpenCall]:
        """Yield the open calls with their checkpoints, and without their owners.

        An answer whose body was deleted by hand, though its call still waits for it, is empty.
        """
        query = (
            "SELECT invocation_id, kind, CAST(body AS BLOB), approval_id, expires_at_ns, NULL,"
            " (SELECT CAST(coalesce(body, '') AS BLOB) FROM answers WHERE answers.approval_id = open_calls.approval_id)"
            " FROM open_calls WHERE kind <> ? ORDER BY invocation_id"
        )
        with reading(self.path):
            for row in self._connection.execute(query, (NO_CHECKPOINT,)):
                yield OpenCall(*row)

    def ownership(self, invocation_id: InvocationId, now: Moment) -> Ownership | None:
        """Return the owner of an open call; none if it is not open."""
        with reading(self.path):
            return find_ownership(self._connection, self._steps, invocation_id, now)

    def documents(self, kind: str) -> list[tuple[str, bytes]]:
        """Return the documents of a kind by their keys."""
        with reading(self.path):
            query = "SELECT key, body FROM documents WHERE kind = ? ORDER BY key"
            return self._connection.execute(query, (kind,)).fetchall()

    def processes(self, now: Moment) -> list[str]:
        """Return the owners with a lease: the processes that use the store."""
        with reading(self.path):
            return sorted(owner for (owner,) in self._connection.execute(ALIVE_OWNERS, values_of(now)))

    def open_owners(self, now: Moment) -> Iterator[tuple[InvocationId, Ownership]]:
        """Yield every open call with its owner."""
        with reading(self.path):
            yield from find_open_calls(self._connection, self._steps, now)

    def _calls(self, query: str, part: str, limit: int) -> list[InvocationId]:
        with reading(self.path):
            found = self._connection.execute(query, {"part": part, "limit": limit}).fetchall()
        return [call for (call,) in found]


def _check_file(connection: sqlite3.Connection, name: str) -> None:
    """Reject a file of another program or of another version."""
    try:
        connection.execute("PRAGMA query_only = ON")
        is_new = is_empty(connection, name)
        lacks = missing(connection)
    except UNREADABLE as error:
        advice = advice_on(error, Path(name), "name the file of one with --store")
        raise ConfigError(f"cannot read {name!r} as a journal: {error}; {advice}") from error
    if is_new:
        raise ConfigError(f"{name!r} holds no journal yet; name another file with --store")
    if lacks:
        raise ConfigError(f"{name!r} is not whole: {lacks[0]}; {RESTORE}")
