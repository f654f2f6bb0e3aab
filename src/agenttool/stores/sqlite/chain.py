"""The chain: each fact carries a hash over itself and the hash before it, so that any change shows."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import TypeAlias

ToldFact: TypeAlias = tuple[str | None, bytes]
"""A fact on its way to the disk: its call and what it tells."""

LinkedFact: TypeAlias = tuple[int, str | None, bytes, bytes]
"""A row of the table of facts."""


def link(previous: bytes, told: bytes) -> bytes:
    """Give the hash of a fact that follows another."""
    return hashlib.sha256(previous + told).digest()


def linked(facts: Iterable[ToldFact], position: int, previous: bytes) -> Iterator[LinkedFact]:
    """Put facts behind the one at a position."""
    for place, (invocation_id, told) in enumerate(facts, position + 1):
        previous = link(previous, told)
        yield place, invocation_id, previous, told


def find_head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Find the end of the chain: the newest fact, or where the chain goes on from if there is none."""
    found = connection.execute("SELECT position, hash FROM facts ORDER BY position DESC LIMIT 1").fetchone()
    return found or find_anchor(connection)


def find_anchor(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Find where the chain begins: behind the newest fact that retention took away."""
    return connection.execute("SELECT position, hash FROM anchors ORDER BY position DESC LIMIT 1").fetchone()
