"""One SQLite file as a whole: the log, the open calls and the documents in it."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from agenttool.ports.facts import Step
from agenttool.ports.stores import DocumentStore, LeaseLost
from agenttool.stores.sqlite.connect import open_connection, reading
from agenttool.stores.sqlite.fact_rows import register_functions
from agenttool.stores.sqlite.group_commit import GroupCommit
from agenttool.stores.sqlite.leases import new_owner
from agenttool.stores.sqlite.log import SqliteLog
from agenttool.stores.sqlite.open_calls import SqliteOpenCalls
from agenttool.stores.sqlite.schema import create_store
from agenttool.stores.sqlite.store_file import StoreFile
from agenttool.stores.sqlite.withdrawals import Withdrawals
from agenttool.stores.sqlite.writer import Writer

_LAST = "\U0010ffff"
"""A character that follows in no key."""


class SqliteStore:
    """One file. Belongs to one event loop; other loops and processes open the same file for themselves."""

    def __init__(self, path: Path, steps: Mapping[str, Step], owner: str) -> None:
        """Join the parts around an existing file; use `open`."""
        self.path = path
        with ExitStack() as opened:
            self._reader = opened.enter_context(closing(open_connection(path)))
            register_functions(self._reader)
            with reading(path):
                self._reader.execute("SELECT 1 FROM heads").fetchone()  # from now on the write-ahead log stays in place
            self._file = file = StoreFile(path, self._reader)
            opened.pop_all()
        writer = Writer(file, owner)
        self.log = SqliteLog(file, writer, steps)
        self.open_calls = SqliteOpenCalls(file, writer, self.log.group, steps)
        self.documents = SqliteDocuments(file, self.log.group)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        steps: Mapping[str, Step],
        owner: str | None = None,
        on_create: Callable[[bytes], None] | None = None,
    ) -> Self:
        """Open the file, or create it.

        Args:
            path: the file, or a link to it; two more appear beside the file while it is in use.
            steps: every step by its name, to decode facts.
            owner: the owner name of this process; a unique one if it is not given.
            on_create: called with the first hash of a new file, before other processes can see it.

        Raises:
            ConfigError: the file is not a usable store; it is left as it was.
        """
        path = Path(path).resolve()  # SQLite puts its other files beside the target of a link
        create_store(path, on_create)
        return cls(path, steps, owner or new_owner())

    async def close(self) -> None:
        """Write what is left and close the file; other processes may claim its open calls at once.

        Raises:
            StoreError: what was left could not be written.
        """
        try:
            await self.open_calls.release_lease()
        except LeaseLost:  # other processes own its calls, and only facts without a call are left
            self.open_calls.replace_owner()
            await self.open_calls.release_lease()
        finally:
            try:
                await self.log.group.close()
            finally:
                self._reader.close()
                self._file.close()


class SqliteDocuments(DocumentStore):
    """Documents by kind and key."""

    def __init__(self, file: StoreFile, group: GroupCommit) -> None:
        self._file = file
        self._group = group
        self._withdrawals = Withdrawals(file.path)

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a document."""
        with self._file.reading() as reader:
            return self._get(reader, kind, key)

    def _get(self, connection: sqlite3.Connection, kind: str, key: str) -> bytes | None:
        found = connection.execute("SELECT body FROM documents WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return None if found is None or self._withdrawals.hides(kind, key, found[0]) else found[0]

    async def put(self, kind: str, key: str, body: bytes | None, *, erases: bool = False) -> None:
        """Write or delete a document."""
        await self._group.perform(lambda connection: _put(connection, kind, key, body), erases=erases)

    async def swap(
        self,
        kind: str,
        key: str,
        *,
        before: bytes | None,
        after: bytes | None,
        beside: Mapping[tuple[str, str], bytes | None] | None = None,
        erases: bool = False,
    ) -> bool:
        """Write a document if the present one equals `before`."""

        def swap(connection: sqlite3.Connection) -> bool:
            if self._get(connection, kind, key) != before:
                return False
            _put(connection, kind, key, after)
            for place, body in (beside or {}).items():
                _put(connection, *place, body)
            return True

        return await self._group.perform(swap, erases=erases)

    async def withdraw(self, kind: str, key: str, *, before: bytes, after: bytes | None) -> bool:
        """Write the last version of a document, also to the file beside the store."""
        is_written = await self.swap(kind, key, before=before, after=after)
        if is_written:
            await asyncio.to_thread(self._withdrawals.add, kind, key, after)
        return is_written

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Return documents in the order of their keys."""
        query = (
            "SELECT key, body FROM documents WHERE kind = ? AND key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"
        )
        found = self._file.fetch(query, (kind, prefix, prefix + _LAST, after, limit))
        return [(key, body) for key, body in found if not self._withdrawals.hides(kind, key, body)]


def _put(connection: sqlite3.Connection, kind: str, key: str, body: bytes | None) -> None:
    if body is None:
        connection.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (kind, key))
    else:
        connection.execute("REPLACE INTO documents VALUES (?, ?, ?)", (kind, key, body))
