"""The one connection of this process that writes: a transaction at a time, whole or not at all."""

import random
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost
from agenttool.records import ClosedEnum
from agenttool.stores.sqlite.batch import Batch
from agenttool.stores.sqlite.chain import GO_ON, End, find_end, find_head, link
from agenttool.stores.sqlite.connect import Durability, connect
from agenttool.stores.sqlite.loose import MOST_LOOSE

CHECKPOINT_PAGES, MOST_PAGES = 1024, 4096
"""After about this many pages, 4 MB, the write-ahead log is moved into the file once nobody waits for it; if somebody
always does, after so many more."""

_PAGES_PER_COMMIT = 3
_PAGE = 4096
_RETRY_S = 0.0003


class Busy(StoreError):
    """Another process was writing for longer than the writer wanted to wait; nothing was written."""


class Standing(ClosedEnum):
    """How a process stands among the owners of calls."""

    UNKNOWN = "unknown"
    """It never said that it lives, and holds no calls."""
    ALIVE = "alive"
    """It said so, and writes as long as its name is there."""
    NAMELESS = "nameless"
    """It was taken for dead, and writes nothing before it says that it lives, under another name."""


_ALIVE = Standing.ALIVE


class Writer:
    """Commits batches. Any thread may; two at once would take turns."""

    def __init__(self, path: Path, durability: Durability, owner: str) -> None:
        """Take the file, what a commit promises, and the name of this process among owners."""
        self._path = path
        self._durability = durability
        self.owner = owner
        self._connection: sqlite3.Connection | None = None
        self.end: End | None = None
        """The end of the chain as this process wrote it last; none if it does not know."""
        self._pages = 0
        self._turn = threading.Lock()
        self.standing = Standing.UNKNOWN
        """How this process stands among owners; once it said that it lives, that decides what it may write."""

    def is_checkpoint_due(self, *, idle: bool) -> bool:
        """Tell whether the write-ahead log has grown enough to be moved, now that somebody waits or nobody does."""
        return self._pages > (CHECKPOINT_PAGES if idle else MOST_PAGES)

    def commit(self, batch: Batch, *, patience_s: float) -> None:
        """Write a batch at the promised level.

        Raises:
            Busy: another process was writing all the time.
            StoreError: the disk failed, or others took this process for dead. Nothing of the batch is kept, and the
                next commit begins with another connection: nobody knows what this one believes.
            KeyboardInterrupt: somebody pressed Ctrl-C; the batch knows whether it was kept before that.
        """
        with self._turn:
            try:
                self.end = self._write(batch, time.monotonic() + patience_s)
            except Busy:
                raise
            except sqlite3.Error as error:
                raise self._give_up(error) from error
            except BaseException:
                self._disconnect()
                raise
            finally:
                if batch.is_kept and batch.registers:
                    self.standing = Standing.ALIVE
        self._pages += (1 if batch.is_loose else _PAGES_PER_COMMIT) + batch.size // _PAGE

    def go_on(self, told: bytes, *, is_held: bool) -> bool:
        """Write a single fact behind what this process wrote last, in one step, as a loose row.

        Tell whether that was possible. If anybody wrote since, took this process for dead or is just writing, or if
        rows are to be bound, nothing was written, and `commit` knows what to do.

        Raises:
            StoreError: the disk failed, as for `commit`.
            KeyboardInterrupt: somebody pressed Ctrl-C; if the fact was written before that, there is another `end`.
        """
        connection, end = self._connection, self.end
        if connection is None or end is None or self.standing is not _ALIVE or end[0] - end[2] >= MOST_LOOSE - 1:
            return False
        last, chained, bound = end
        linked = link(chained, told)
        with self._turn:
            try:
                holder = self.owner if is_held else None
                connection.execute(GO_ON, (last + 1, chained, self.owner, linked, told, holder))
                self.end = (last + 1, linked, bound)  # at once: an interrupt comes after a call at the earliest
            except sqlite3.IntegrityError:
                return False
            except sqlite3.Error as error:
                if _is_busy(error):
                    return False
                raise self._give_up(error) from error
            except BaseException:
                if find_head(connection) == (last + 1, linked):
                    self.end = (last + 1, linked, bound)
                raise
        self._pages += 1
        return True

    def _write(self, batch: Batch, deadline: float) -> End:
        connection = self._connection = self._connection or connect(self._path, self._durability, patience_s=0)
        self._begin(connection, deadline)
        end, is_known = find_end(connection, self.owner)
        self._refuse_the_dead(batch, is_known=is_known)
        end = batch.write(connection, self.owner, end)
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:
            raise
        except BaseException:
            batch.is_kept = not connection.in_transaction
            raise
        batch.is_kept = True  # at once: an interrupt comes after a call at the earliest
        return end

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the file; if somebody is reading it, another time will do."""
        self._pages = 0
        with self._turn, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection; the last one to do so leaves a single file behind."""
        with self._turn:
            self._disconnect()

    def _give_up(self, error: sqlite3.Error) -> StoreError:
        self._disconnect()
        return StoreError(
            f"cannot write to {str(self._path)!r}: {error}; nothing was handed out, free or mend the disk"
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self.end = None

    def _begin(self, connection: sqlite3.Connection, deadline: float) -> None:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                if time.monotonic() >= deadline:
                    raise Busy(
                        f"another process keeps {str(self._path)!r} to itself; find it, or try again later"
                    ) from error
            else:
                return
            time.sleep(random.uniform(0.2, 1.0) * _RETRY_S)  # noqa: S311 -- two who wait must not keep step

    def _refuse_the_dead(self, batch: Batch, *, is_known: bool) -> None:
        if self.standing is Standing.UNKNOWN or batch.registers:
            return
        if self.standing is Standing.NAMELESS:
            raise StoreError("this process was taken for dead, and could not yet say that it lives; try again")
        if not is_known:
            raise LeaseLost(
                f"this process ({self.owner}) was taken for dead and others have its calls; it must begin anew"
            )


def _is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another process was in the way."""
    return (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY
