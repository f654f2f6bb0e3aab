"""Small documents, in the file beside the calls that they are about."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from agenttool.stores.sqlite.connect import reading
from agenttool.stores.sqlite.groups import GroupCommit

_LAST = "\U0010ffff"
"""No text that we use as a key goes on with this."""


class SqliteDocuments:
    """Documents by kind and key."""

    def __init__(self, path: Path, reader: sqlite3.Connection, group: GroupCommit) -> None:
        """Take the file, a connection to read by, and all that writes."""
        self._path = path
        self._reader = reader
        self._group = group

    async def get(self, kind: str, key: str) -> bytes | None:
        """Give a document."""
        with reading(self._path):
            return _get(self._reader, kind, key)

    async def put(self, kind: str, key: str, body: bytes | None) -> None:
        """Put a document."""
        await self._group.perform(lambda connection: _put(connection, kind, key, body))

    async def swap(
        self,
        kind: str,
        key: str,
        *,
        before: bytes | None,
        after: bytes | None,
        beside: Mapping[tuple[str, str], bytes] | None = None,
    ) -> bool:
        """Put a document if nobody was quicker, in whichever process."""

        def swap(connection: sqlite3.Connection) -> bool:
            if _get(connection, kind, key) != before:
                return False
            _put(connection, kind, key, after)
            for place, body in (beside or {}).items():
                _put(connection, *place, body)
            return True

        return await self._group.perform(swap)

    async def page(self, kind: str, *, prefix: str = "", after: str = "", limit: int) -> Sequence[tuple[str, bytes]]:
        """Give documents in the order of their keys."""
        query = "SELECT key, body FROM shelf WHERE kind = ? AND key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"
        with reading(self._path):
            return self._reader.execute(query, (kind, prefix, prefix + _LAST, after, limit)).fetchall()

    async def keys(self, kind: str, *, prefix: str = "", limit: int) -> Sequence[str]:
        """Give keys in order."""
        query = "SELECT key FROM shelf WHERE kind = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?"
        with reading(self._path):
            return [key for (key,) in self._reader.execute(query, (kind, prefix, prefix + _LAST, limit))]


def _get(connection: sqlite3.Connection, kind: str, key: str) -> bytes | None:
    found = connection.execute("SELECT body FROM shelf WHERE kind = ? AND key = ?", (kind, key)).fetchone()
    return None if found is None else found[0]


def _put(connection: sqlite3.Connection, kind: str, key: str, body: bytes | None) -> None:
    if body is None:
        connection.execute("DELETE FROM shelf WHERE kind = ? AND key = ?", (kind, key))
    else:
        connection.execute("REPLACE INTO shelf VALUES (?, ?, ?)", (kind, key, body))
