"""The one writing connection of a process: batches of facts and changes, each committed as a whole or not at all."""

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost, SavedCheckpoint
from agenttool.records import ClosedEnum
from agenttool.stores.fact_codec import join_lines
from agenttool.stores.sqlite.connect import StoreBusy, as_json, begin_immediate, open_connection
from agenttool.stores.sqlite.fact_rows import (
    MAX_UNINDEXED,
    ChainEnd,
    PendingFact,
    delete_ended,
    find_end,
    index_rows,
    link,
    list_started,
    register_functions,
    store_head,
)
from agenttool.stores.sqlite.store_file import StoreFile, StoreFileLost

FACTS_PER_ROW = 256
"""The maximum number of facts in a row: a search for one call reads whole rows."""

ROW_BYTES = 64 << 20
"""The maximum size of a row with several facts: SQLite rejects a row of a gigabyte."""

MAX_UNINDEXED_FACTS = 8
"""A commit with more facts writes indexed rows."""

UNINDEXED_BYTES = 1 << 16
"""A larger fact is indexed: a search for one call reads all unindexed rows."""

CHECKPOINT_PAGES, MAX_PAGES = 1024, 4096
"""The size of the write-ahead log, in pages of 4 KiB, from which it is moved into the file: while no caller waits, and
while callers wait."""

_PAGES_PER_COMMIT = 3
_PAGE = 4096

LOG_BYTES = 2 * MAX_PAGES * _PAGE
"""A larger write-ahead log is emptied: it grew while it was read all the time."""

_ATTEMPTS, _PAUSE_S = 20, 0.002

Change: TypeAlias = Callable[[sqlite3.Connection], None]

_SAVE = (
    "INSERT INTO open_calls (invocation_id, kind, body, approval_id, expires_at_ns, due_at_ns, owner)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (invocation_id) DO UPDATE SET kind = excluded.kind,"
    " body = excluded.body, approval_id = excluded.approval_id, expires_at_ns = excluded.expires_at_ns,"
    " due_at_ns = excluded.due_at_ns, owner = excluded.owner"
)

# One statement for many rows: each statement releases the interpreter's lock once and has to acquire it again, which
# costs more than the row itself while an event loop is busy. So lists are passed as JSON, and SQLite splits them.
_INSERT = "INSERT INTO facts VALUES (?, ?, ?, ?)"
_INDEX_ONE = "INSERT INTO facts_of_call VALUES (?, ?)"
_INDEX_MANY = "INSERT INTO facts_of_call SELECT value, ? FROM json_each(?)"
_REMOVE = "DELETE FROM open_calls WHERE invocation_id IN (SELECT value FROM json_each(?))"


class WriteBatch:
    """The writes of one transaction: facts, checkpoints, removed calls, and changes with an outcome.

    Attributes:
        born: calls whose first fact is in this batch and was in no failed batch; nothing of them is on disk.
        finished: started or claimed calls on disk that this batch ends or makes unowned.
        erases: whether it removes sensitive data, of which the write-ahead log may have no copy.
        lease: the lease of this process once the batch is stored; none if no change writes or deletes it.
        is_unindexed: whether its facts are written as unindexed rows.
        is_stored: whether it was committed, also if the writer raised meanwhile.
        size: how many bytes its facts took when they were written.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.facts: list[PendingFact] = []
        self._in_progress: dict[str, None] = {}
        self._started: list[str] = []
        self.born: set[str] = set()
        self.finished: set[str] = set()
        self.checkpoints: dict[str, SavedCheckpoint] = {}
        self.removed: list[str] = []
        self.changes: list[Change] = []
        self.erases = self.is_unindexed = self.is_stored = False
        self.lease: LeaseState | None = None
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self.facts or self.changes or self.checkpoints or self.removed)

    def remove(self, call: str, *, erases: bool) -> None:
        """Remove the checkpoint of a call. One that was never written is dropped, and leaves nothing to erase."""
        self.checkpoints.pop(call, None)
        if call not in self.born:
            self.removed.append(call)
            self.erases |= erases

    def followed_by(self, later: "WriteBatch") -> "WriteBatch":
        """Append a later batch to this one, which failed, and return it; its own changes are not tried again."""
        self.facts += later.facts
        self.born = later.born
        self.finished |= later.finished
        self.checkpoints |= later.checkpoints
        self.removed += later.removed
        self.erases |= later.erases
        self.changes = later.changes
        self.lease = later.lease
        return self

    def drop(self, calls: Collection[str]) -> None:
        """Remove the facts, checkpoints and removals of some calls."""
        self.facts = [fact for fact in self.facts if fact[0] not in calls]
        self.checkpoints = {call: row for call, row in self.checkpoints.items() if call not in calls}
        self.removed = [call for call in self.removed if call not in calls]

    def seal(self, started: Collection[str]) -> "WriteBatch":
        """Prepare the batch for another thread, and return it; it does not change afterwards.

        Few facts are written as unindexed rows, which also list the started calls. With more facts, started calls get
        a row of their own. It stays for a while after they have ended, so that the end of a call writes only facts.
        """
        self.is_unindexed = (
            len(self.facts) <= MAX_UNINDEXED_FACTS and not self.changes and all(map(_is_short, self.facts))
        )
        self._in_progress = {call: None for call, _ in self.facts if call is not None and call in started}
        self._started = [] if self.is_unindexed else [*started]
        return self

    def write(self, connection: sqlite3.Connection, owner: str, end: ChainEnd) -> ChainEnd:
        """Write everything in the open transaction, after the end of the chain; return the new end."""
        if self.is_unindexed:
            end = self._write_unindexed(connection, owner, end)
        elif self.facts:
            end = self._write_indexed(connection, owner, end)
        if self.checkpoints:
            rows = [(*columns, None if is_unowned else owner) for *columns, is_unowned in self.checkpoints.values()]
            connection.executemany(_SAVE, rows)
        if self.removed:
            connection.execute(_REMOVE, (as_json(self.removed),))
        for change in self.changes:
            change(connection)
        if self.changes or (self._in_progress and not self.is_unindexed):
            # With the calls of the sealed batch: the end of one that has ended since is not written yet.
            delete_ended(connection, owner, self._started)
        return end

    def _write_unindexed(self, connection: sqlite3.Connection, owner: str, end: ChainEnd) -> ChainEnd:
        last, chained, stored = end
        for call, run in groupby(self.facts, key=itemgetter(0)):
            lines = [line for _, line in run]
            text = join_lines(lines)
            last, chained = last + len(lines), link(chained, text)
            connection.execute(_INSERT, (last, chained, text, owner if call in self._in_progress else None))
            self.size += len(text)
        if last - stored >= MAX_UNINDEXED:
            index_rows(connection)
            stored = last
        return last, chained, stored

    def _write_indexed(self, connection: sqlite3.Connection, owner: str, end: ChainEnd) -> ChainEnd:
        last, chained, stored = end
        if last > stored:
            index_rows(connection)
        for facts, text in _rows(self.facts):
            last, chained = last + len(facts), link(chained, text)
            connection.execute(_INSERT, (last, chained, text, None))
            self.size += len(text)
            # In order, because that is faster for the index.
            calls = dict.fromkeys(call for call, _ in facts if call is not None)
            if len(calls) == 1:
                connection.execute(_INDEX_ONE, (*calls, last))
            elif calls:
                connection.execute(_INDEX_MANY, (last, as_json(list(calls))))
        if self._in_progress:
            list_started(connection, owner, last, [*self._in_progress])
        store_head(connection, (last, chained))
        return last, chained, last


def _is_short(fact: PendingFact) -> bool:
    return len(fact[1]) <= UNINDEXED_BYTES


def _rows(facts: list[PendingFact]) -> Iterator[tuple[list[PendingFact], bytes]]:
    """Yield the facts of each row with its text."""
    for start in range(0, len(facts), FACTS_PER_ROW):
        yield from _split(facts[start : start + FACTS_PER_ROW])


def _split(facts: list[PendingFact]) -> Iterator[tuple[list[PendingFact], bytes]]:
    """Yield facts as one row, or as several if one would be too large."""
    text = join_lines(line for _, line in facts)
    half = len(facts) // 2
    if len(text) <= ROW_BYTES or not half:
        yield facts, text
    else:
        yield from _split(facts[:half])
        yield from _split(facts[half:])


class LeaseState(ClosedEnum):
    """The lease of this process, as the writer knows it."""

    NONE = "none"
    """The process never had a lease, and owns no calls."""
    HELD = "held"
    """The process has a lease, and may write while its row is stored."""
    LOST = "lost"
    """The process lost its lease, and writes nothing until it acquires another under a new owner name."""


class Writer:
    """Commits batches. Safe from any thread; concurrent commits run one after the other."""

    def __init__(self, file: StoreFile, owner: str) -> None:
        self._file = file
        self._path = file.path
        self._is_erasing_due = self._is_closed = False
        self.owner = owner
        self._connection: sqlite3.Connection | None = None
        self._end: ChainEnd | None = None
        """The end of the chain as this process wrote it last."""
        self._pages = 0
        self._lock = threading.Lock()
        self.lease = LeaseState.NONE
        """The lease, which decides what this process may write."""

    def is_checkpoint_due(self, *, idle: bool) -> bool:
        """Return whether the write-ahead log is large enough to be moved; `idle` if no caller waits."""
        return self._pages > (CHECKPOINT_PAGES if idle else MAX_PAGES)

    def commit(self, batch: WriteBatch, *, timeout_s: float) -> None:
        """Commit a batch; it is on the disk when this returns.

        Raises:
            StoreBusy: another process was writing all the time.
            StoreError: the disk failed, or the lease was lost. Nothing of the batch is stored, and the next commit
                uses another connection: the state of this one is unknown.
            StoreFileLost: the file was deleted, replaced or truncated; the batch states whether it was stored before.
            KeyboardInterrupt: Ctrl-C; the batch states whether it was stored before that.
        """
        with self._lock:
            try:
                self._file.check()
                self._end = self._write(batch, time.monotonic() + timeout_s)
                self._file.check_log()
                self._erase(batch)
            except (StoreBusy, StoreFileLost):  # the connection is as it was
                raise
            except sqlite3.Error as error:
                raise self._give_up(error) from error
            except BaseException:
                self._disconnect()
                raise
            finally:
                if batch.is_stored and batch.lease is not None:
                    self.lease = batch.lease  # before the next commit, which may start at once
        self._pages += (1 if batch.is_unindexed else _PAGES_PER_COMMIT) + batch.size // _PAGE

    def _write(self, batch: WriteBatch, deadline: float) -> ChainEnd:
        connection = self._connection = self._connection or self._connect()
        begin_immediate(connection, self._path, deadline=deadline)
        end, has_lease = find_end(connection, self.owner)
        self._refuse_older_journal(connection, end)
        self._refuse_without_lease(batch, has_lease=has_lease)
        end = batch.write(connection, self.owner, end)
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:
            raise
        except BaseException:
            batch.is_stored = not connection.in_transaction
            raise
        batch.is_stored = True  # at once, because an interrupt can arrive in any call
        return end

    def _erase(self, batch: WriteBatch) -> None:
        """Empty the write-ahead log after a batch that erases; while another process reads it, after a later batch.

        In the file itself, SQLite overwrites what is deleted.
        """
        self._is_erasing_due |= batch.erases
        if self._is_erasing_due and self._connection is not None:
            with suppress(sqlite3.Error):
                (is_busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._is_erasing_due = bool(is_busy)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, and empty a large one; skipped while it is being read."""
        self._pages = 0
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                if self._file.log_size > LOG_BYTES:
                    self._empty_log(self._connection)

    def _empty_log(self, connection: sqlite3.Connection) -> None:
        """Empty the write-ahead log between two reads of other connections, if there is a moment without any."""
        for _ in range(_ATTEMPTS):
            if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                return
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Close the connection for good; the last process to do so leaves a single file behind."""
        with self._lock:
            self._is_closed = True
            self._disconnect()

    def _connect(self) -> sqlite3.Connection:
        if self._is_closed:  # what a failing disk left unwritten is due again after the close
            raise StoreError(f"{str(self._path)!r} is closed; nothing more is written to it")
        connection = open_connection(self._path, timeout_s=0)
        register_functions(connection)
        self._pages = self._file.log_size // _PAGE  # processes that were killed left it
        return connection

    def _give_up(self, error: sqlite3.Error) -> StoreError:
        self._disconnect()
        return StoreError(f"cannot write to {str(self._path)!r}: {error}; nothing was stored; free or repair the disk")

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _refuse_older_journal(self, connection: sqlite3.Connection, end: ChainEnd) -> None:
        """Refuse a journal that lacks what this process wrote: the file was overwritten with an older copy."""
        mine = self._end
        if mine is not None and (end[0] < mine[0] or (end[0] == mine[0] and end[1] != mine[1])):
            connection.execute("ROLLBACK")
            raise self._file.lost("was overwritten with another journal")

    def _refuse_without_lease(self, batch: WriteBatch, *, has_lease: bool) -> None:
        if self.lease is LeaseState.NONE or batch.lease is LeaseState.HELD:
            return
        if self.lease is LeaseState.LOST:
            raise StoreError("this process lost its lease and has no new one yet; try again")
        if not has_lease:
            raise LeaseLost(f"the lease of this process ({self.owner}) expired and others claimed its calls")
