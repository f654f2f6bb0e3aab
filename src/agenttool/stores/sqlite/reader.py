"""Read-only access to a SQLite file: it is never created or written."""

import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import Self

from agenttool.errors import ConfigError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import NO_CHECKPOINT, Head, JournalFlaw, OpenCall
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import FactHead, call_of, decode_fact, head_of, start_of
from agenttool.stores.sqlite.backup import copy_store
from agenttool.stores.sqlite.connect import RESTORE, UNREADABLE, advice_on, open_read_only, reading
from agenttool.stores.sqlite.fact_rows import (
    ALL_FACTS,
    BACKWARD,
    FORWARD,
    IS_UNINDEXED,
    ROW_CALL,
    UNINDEXED_CALLS,
    CallEnd,
    FactFilter,
    FactRow,
    StoredLines,
    as_head,
    find_anchor,
    find_head,
    lines_of,
    read_forward,
    register_functions,
    split_rows,
)
from agenttool.stores.sqlite.leases import ALIVE_OWNERS, Ownership, find_open_calls, values_of
from agenttool.stores.sqlite.schema import missing, require_current
from agenttool.stores.sqlite.verify import InspectFact, verify
from agenttool.stores.sqlite.withdrawals import Withdrawals

STEPS_BETWEEN_PAUSES = 1000
"""A query pauses after so many steps of SQLite, also while it finds nothing."""

PORTION = 500

MAX_LOOKED_FOR = 1000
"""How many ends of calls are read before the start of the newest one is looked up in the index."""

# Calls are found by the index and in unindexed rows, in two queries, so that the index returns no more than wanted.
_CHOSEN = """
    SELECT * FROM (SELECT DISTINCT invocation_id FROM facts_of_call WHERE {0} ORDER BY invocation_id DESC LIMIT :limit)
    UNION SELECT * FROM ({1}) WHERE {0} ORDER BY invocation_id DESC LIMIT :limit
"""
_BEGINS_WITH = _CHOSEN.format("invocation_id >= :part AND invocation_id < :part || char(1114111)", UNINDEXED_CALLS)
_ENDS_WITH = _CHOSEN.format("substr(invocation_id, -length(:part)) = :part", UNINDEXED_CALLS)
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

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        steps: Mapping[str, Step],
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._connection = connection
        self._pause = pause
        self._steps = steps
        self._first_facts: tuple[int, dict[InvocationId | None, int]] = (0, {})

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, steps: Mapping[str, Step], pause: Callable[[], None] | None = None) -> Generator[Self]:
        """Open an existing file; `pause` is called again and again during a long read.

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
            if pause is not None:
                connection.set_progress_handler(pause, STEPS_BETWEEN_PAUSES)
            yield cls(path, connection, steps, pause or (lambda: None))
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

    def interrupt(self) -> None:
        """End the queries that run, from any thread; their readers get a `StoreError`. A closed reader has none."""
        with suppress(sqlite3.ProgrammingError):
            self._connection.interrupt()

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
        """Yield what each fact after a position is about, with its size in bytes; a shared part counts once."""
        for last, text in self._rows(FORWARD, after):
            lines = text.split(b"\n")
            for line in lines[max(after - last + len(lines), 0) :]:
                yield head_of(line), len(line) + 1

    def read_back(
        self, before: int, limit: int = PORTION, wanted: FactFilter = ALL_FACTS
    ) -> Sequence[tuple[int, Fact]]:
        """Return facts before a position, the newest first."""
        rows = self._rows(BACKWARD, before - 1, wanted)
        lines = (each for row in rows for each in reversed(list(wanted.lines([row]))) if each[0] < before)
        return [(place, decode_fact(line, self._steps)) for place, line in islice(lines, limit)]

    def _rows(self, query: str, place: int, wanted: FactFilter = ALL_FACTS) -> Iterator[FactRow]:
        """Yield rows after a position, or from one on backward, with a pause before each."""
        chosen, values = wanted.query(query)
        with reading(self.path):
            for row in self._connection.execute(chosen, (*[place] * (2 if query == BACKWARD else 1), *values)):
                self._pause()
                yield row

    def facts_of(self, invocation_id: InvocationId) -> Sequence[tuple[int, Fact]]:
        """Return the facts of one call, each with its position."""
        with reading(self.path):
            lines = lines_of(self._connection, invocation_id)
            return [(place, decode_fact(line, self._steps)) for place, line in lines]

    def calls(
        self, wanted: FactFilter, *, newest_first: bool = False, before: int | None = None
    ) -> Iterator[tuple[int, list[tuple[int, Fact]]]]:
        """Yield all facts of each ended call with a selected fact, and the position of its end, by that order.

        `before` leaves out the calls that ended at this position or after it. If other facts than ends are selected,
        the ids of their calls are read first.
        """
        with reading(self.path):
            ends = tuple(step.name for step in self._steps.values() if step.ends)
            if not wanted.steps or not {*wanted.steps} <= {*ends}:
                selected = {head_of(line).invocation_id for _, line in wanted.lines(self._rows(FORWARD, 0, wanted))}
                if not selected:
                    return

                def is_selected(head: FactHead) -> bool:
                    return head.invocation_id in selected

                wanted = FactFilter(ends, is_selected)
            end = self.head().position if before is None else before - 1
            cache = StoredLines(self._connection)
            for row in self._rows(BACKWARD, end, wanted) if newest_first else self._rows(FORWARD, 0, wanted):
                found = list(wanted.lines([row]))
                for place, line in reversed(found) if newest_first else found:
                    head = head_of(line)
                    if head.invocation_id is not None and place <= end:
                        lines = [(place, line)] if head.sequence == 0 else cache.of(head.invocation_id)
                        self._pause()
                        yield place, [(each, decode_fact(one, self._steps)) for each, one in lines]

    def ends(self, before: int | None = None) -> Iterator[CallEnd]:
        """Yield the ends of calls before a position, the newest first; of each fact only its head is decoded.

        The first fact of a call is usually not far before its end, so that the same pass over the rows finds it.
        """
        statuses = {step.name: step.last for step in self._steps.values() if step.ends and step.last is not None}
        ends: deque[CallEnd] = deque()
        starts: dict[InvocationId, int | None] = {}
        """When each call of `ends` began; none until its first fact was read."""

        def take() -> CallEnd:
            end = ends.popleft()
            began_ns = starts.pop(end.invocation_id, None)
            if began_ns is None:
                lines = cache.of(end.invocation_id)
                began_ns = head_of(lines[0][1]).at_ns if lines else end.ended_ns
            return end._replace(began_ns=began_ns)

        with reading(self.path):
            newest, cache = self.head().position if before is None else before - 1, StoredLines(self._connection)
            for last, text in self._rows(BACKWARD, newest):
                for place, line in zip(count(last, -1), reversed(text.split(b"\n")), strict=False):
                    head = head_of(line)
                    call, status = head.invocation_id, statuses.get(head.step)
                    if call is None or place > newest:
                        continue
                    if status is not None:
                        ends.append(CallEnd(place, call, status, head.at_ns, head.at_ns))
                        starts[call] = None
                    if head.sequence == 0 and call in starts:
                        starts[call] = head.at_ns if status is None else start_of(line)
                while ends and (len(ends) > MAX_LOOKED_FOR or starts.get(ends[0].invocation_id) is not None):
                    yield take()
            while ends:
                yield take()

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
            found = find_open_calls(self._connection, self._steps, now, invocation_id)
            return next((owned for _, owned in found), None)

    def documents(self, kind: str) -> list[tuple[str, bytes]]:
        """Return the documents of a kind by their keys."""
        with reading(self.path):
            query = "SELECT key, body FROM documents WHERE kind = ? ORDER BY key"
            found = self._connection.execute(query, (kind,)).fetchall()
        withdrawals = Withdrawals(self.path)
        return [(key, body) for key, body in found if not withdrawals.hides(kind, key, body)]

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
        is_store = require_current(connection, name)
        lacks = missing(connection)
    except UNREADABLE as error:
        advice = advice_on(error, Path(name), "name the file of one with --store")
        raise ConfigError(f"cannot read {name!r} as a journal: {error}; {advice}") from error
    if not is_store:
        raise ConfigError(f"{name!r} holds no journal yet; name another file with --store")
    if lacks:
        raise ConfigError(f"{name!r} is not whole: {lacks[0]}; {RESTORE}")
