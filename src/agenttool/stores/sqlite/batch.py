"""What is written together, in one transaction."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import TypeAlias

from agenttool.ports.stores import BEGUN
from agenttool.stores.sqlite.chain import LinkedFact, ToldFact, find_head, linked

Change: TypeAlias = Callable[[sqlite3.Connection], None]

HeldCall: TypeAlias = tuple[str, str, bytes, str | None, int | None, int | None, str | None]

_HOLD = (
    "INSERT INTO open_calls (invocation_id, kind, body, approval_id, expires_at_ns, due_at_ns, owner)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (invocation_id) DO UPDATE SET kind = excluded.kind,"
    " body = excluded.body, approval_id = excluded.approval_id, expires_at_ns = excluded.expires_at_ns,"
    " due_at_ns = excluded.due_at_ns, owner = excluded.owner"
)
_BEGIN = "INSERT INTO open_calls (invocation_id, kind, body, owner) VALUES (?, ?, x'', ?) ON CONFLICT DO NOTHING"
_RELEASE = "DELETE FROM open_calls WHERE invocation_id = ?"

# One statement for many rows: each statement gives up the interpreter's lock once and has to get it back, which costs
# more than the row itself while an event loop is busy.
_INSERTS = tuple((rows, "INSERT INTO facts VALUES " + ", ".join(["(?, ?, ?, ?)"] * rows)) for rows in (64, 8, 1))  # noqa: S608 -- constants only


class Batch:
    """Facts, calls begun, held and released, and changes that somebody waits for the outcome of."""

    __slots__ = ("begun", "changes", "facts", "held", "released")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.facts: list[ToldFact] = []
        self.begun: dict[str, str] = {}
        self.held: list[HeldCall] = []
        self.released: list[tuple[str]] = []
        self.changes: list[Change] = []

    def __bool__(self) -> bool:
        """Tell whether there is anything to write."""
        return bool(self.facts or self.changes or self.held or self.released)

    def before(self, later: "Batch") -> "Batch":
        """Put what could not be written in front of what came since; changes are not tried twice."""
        self.facts += later.facts
        self.begun |= later.begun
        self.held += later.held
        self.released += later.released
        self.changes = later.changes
        return self

    def write(self, connection: sqlite3.Connection) -> None:
        """Write everything inside the transaction that is open."""
        if self.facts:
            _insert(connection, linked(self.facts, *find_head(connection)))
        if self.begun:
            connection.executemany(_BEGIN, [(call, BEGUN, owner) for call, owner in self.begun.items()])
        if self.held:
            connection.executemany(_HOLD, self.held)
        if self.released:
            connection.executemany(_RELEASE, self.released)
        for change in self.changes:
            change(connection)


def _insert(connection: sqlite3.Connection, facts: Iterable[LinkedFact]) -> None:
    values = [value for fact in facts for value in fact]
    start, width = 0, 4
    for rows, statement in _INSERTS:
        while len(values) - start >= rows * width:
            connection.execute(statement, values[start : start + rows * width])
            start += rows * width
