"""The chain: facts written together carry one hash over them and the hash before, so that any change shows."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from agenttool.errors import StoreError
from agenttool.stores.fact_codec import lines_with, split_lines
from agenttool.stores.sqlite.schema import RESTORE

ToldFact: TypeAlias = tuple[str | None, bytes]
"""A fact on its way to the disk: its call and what it tells."""

Row: TypeAlias = tuple[int, bytes]
"""Facts as they are kept together: the position of the last of them, and a line for each."""

End: TypeAlias = tuple[int, bytes, int]
"""The position and hash of the newest fact, and the position of the head that was kept last."""

_KNOWN = "EXISTS (SELECT 1 FROM processes WHERE owner = ?)"
_BOUND = f"CAST(coalesce((SELECT position FROM heads), 0) AS INTEGER), {_KNOWN}"  # noqa: S608 -- constants only
_END = f"SELECT last, CAST(hash AS BLOB), {_BOUND} FROM facts ORDER BY last DESC LIMIT 1"  # noqa: S608 -- constants only
_NO_END = f"SELECT {_BOUND}"

GO_ON = (
    "INSERT INTO facts VALUES (?, iif((SELECT hash FROM facts ORDER BY last DESC LIMIT 1) = ?"  # noqa: S608 -- constants only
    f" AND {_KNOWN}, ?, NULL), ?, ?)"
)
"""Writes a fact behind one whose hash is given, for an owner who is known; else it has no hash, which is refused."""


def link(previous: bytes, told: bytes) -> bytes:
    """Give the hash of what follows in the chain."""
    return hashlib.sha256(previous + told).digest()


def unfold(rows: Iterable[Row]) -> Iterator[tuple[int, bytes]]:
    """Give facts one by one, each with its position."""
    for last, told in rows:
        lines = split_lines(told)
        yield from enumerate(lines, last - len(lines) + 1)


def unfold_about(rows: Iterable[Row], word: str) -> Iterator[tuple[int, bytes]]:
    """Give the facts that hold a word, each with its position; the others are passed over."""
    for last, told in rows:
        first = last - told.count(b"\n")
        for place, line in lines_with(told, word.encode()):
            yield first + place, line


def find_head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Find the end of the chain: the newest fact, or where the chain goes on from if there is none."""
    found = connection.execute("SELECT last, CAST(hash AS BLOB) FROM facts ORDER BY last DESC LIMIT 1").fetchone()
    return found or find_anchor(connection)


def find_end(connection: sqlite3.Connection, owner: str) -> tuple[End, bool]:
    """Find the end of the chain for somebody who is about to go on with it, and whether they are known as an owner.

    Raises:
        StoreError: it ends before the head that was kept: to go on would hide that somebody cut it.
    """
    found = connection.execute(_END, (owner,)).fetchone()
    if found is None:
        found = (*find_anchor(connection), *connection.execute(_NO_END, (owner,)).fetchone())
    last, chained, bound, is_known = found
    if bound > last:
        raise StoreError(f"the log ends at {last}, though it had come to {bound}; verify it, then {RESTORE}")
    return (last, chained, bound), is_known


def keep_head(connection: sqlite3.Connection, head: tuple[int, bytes] | None = None) -> None:
    """Put down how far the chain has come, apart from it, inside a transaction."""
    connection.execute("REPLACE INTO heads VALUES (1, ?, ?)", head or find_head(connection))


def find_kept_head(connection: sqlite3.Connection) -> tuple[int, bytes] | None:
    """Find how far the chain had come when that was put down last; none if it never was."""
    query = "SELECT CAST(coalesce(position, -1) AS INTEGER), CAST(coalesce(hash, '') AS BLOB) FROM heads"
    return connection.execute(query).fetchone()


def find_anchor(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Find where the chain begins: behind the newest fact that retention took away.

    Raises:
        StoreError: somebody took that away.
    """
    query = "SELECT position, CAST(hash AS BLOB) FROM anchors ORDER BY position DESC LIMIT 1"
    found = connection.execute(query).fetchone()
    if found is None:
        raise StoreError(f"the log does not say any more where its chain begins; {RESTORE}")
    return found
