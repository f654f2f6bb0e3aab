"""Calls of which nothing is kept but that they have begun: one row for all that began together.

Most calls end soon after. A row is let go of once all of its calls have ended; until then it also names some that have,
so whoever goes through the rows of a dead process asks the log which of them are still open.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from agenttool.errors import StoreError
from agenttool.ports.facts import Step
from agenttool.ports.stores import NO_CHECKPOINT
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import decode_fact
from agenttool.stores.sqlite.lists import BEGUN_CALLS, as_json
from agenttool.stores.sqlite.loose import IS_LOOSE, LOOSELY_HELD, bind
from agenttool.stores.sqlite.owners import ALIVE, values_of
from agenttool.stores.sqlite.query import lines_of

_INSERT = "REPLACE INTO begun VALUES (?, ?, ?)"
_EMPTY = "DELETE FROM begun WHERE owner = ? AND number IN (SELECT value FROM json_each(?))"
_DEAD = f"owner NOT IN ({ALIVE})"
_CALLS = (
    f"SELECT owner, call FROM (SELECT begun.owner AS owner, value AS call FROM begun, {BEGUN_CALLS}"  # noqa: S608 -- constants
    f" UNION SELECT owner, invocation_id FROM ({LOOSELY_HELD}))"
    " WHERE call NOT IN (SELECT invocation_id FROM open_calls)"
)
_ORPHANS = (
    f"SELECT 1 FROM begun WHERE {_DEAD}"  # noqa: S608 -- constants only
    f" UNION ALL SELECT 1 FROM (SELECT holder AS owner FROM facts WHERE {IS_LOOSE} AND owner NOT NULL) WHERE {_DEAD}"
    " LIMIT 1"
)


class Together:
    """Calls that began together and have not ended.

    Attributes:
        number: that of their row among those of this process.
        is_put: whether there is such a row, or will be with the transaction under way.
        is_written: whether that transaction is over.
        is_loose: whether loose rows of facts say that the calls have begun, and nothing else.
    """

    __slots__ = ("calls", "is_loose", "is_put", "is_written", "number")

    def __init__(self, number: int) -> None:
        """Begin with none."""
        self.number = number
        self.calls: dict[str, None] = {}
        self.is_put = self.is_written = self.is_loose = False


def rows_of(begun: Iterable[Together], ended: list[int]) -> list[tuple[int, str]]:
    """Put down what is to be written of calls that have begun; one may end while that is on its way to disk.

    Numbers of rows whose calls have `ended` are taken from there and used again.
    """
    rows: list[tuple[int, str]] = []
    for each in begun:
        if each.calls:
            if ended and not each.is_put:
                each.number = ended.pop()
            each.is_put, each.is_loose = True, False
            rows.append((each.number, as_json(list(each.calls))))
    return rows


def write_begun(connection: sqlite3.Connection, owner: str, rows: Iterable[tuple[int, str]]) -> None:
    """Write that calls have begun."""
    for number, calls in rows:
        connection.execute(_INSERT, (owner, number, calls))


def write_ended(connection: sqlite3.Connection, owner: str, numbers: Iterable[int]) -> None:
    """Let go of rows whose calls have all ended."""
    connection.execute(_EMPTY, (owner, as_json(list(numbers))))


def has_orphans(connection: sqlite3.Connection, now: Moment) -> bool:
    """Tell whether a dead process left any row behind."""
    return connection.execute(_ORPHANS, values_of(now)).fetchone() is not None


def adopt(connection: sqlite3.Connection, steps: Mapping[str, Step], now: Moment) -> None:
    """Put what dead processes had begun among the calls under way, inside a transaction.

    Their names are struck off: should one only have slept, it can write nothing when it wakes up.
    """
    bind(connection)
    found = connection.execute(f"{_CALLS} AND {_DEAD}", values_of(now)).fetchall()
    for owner, call in found:
        if is_open(connection, steps, call):
            row = (call, NO_CHECKPOINT, b"", owner)
            connection.execute("INSERT INTO open_calls (invocation_id, kind, body, owner) VALUES (?, ?, ?, ?)", row)
            connection.execute("DELETE FROM processes WHERE owner = ?", (owner,))
    connection.execute(f"DELETE FROM begun WHERE {_DEAD}", values_of(now))  # noqa: S608 -- constants only


def still_open(
    connection: sqlite3.Connection, steps: Mapping[str, Step], one: InvocationId | None = None
) -> Iterator[tuple[str, InvocationId]]:
    """Give the calls that have begun and not ended, or one of them, each after its owner.

    Those kept for more are not among them.
    """
    for owner, call in connection.execute(f"{_CALLS} AND call = coalesce(?, call)", (one,)).fetchall():
        if is_open(connection, steps, call):
            yield owner, call


def is_open(connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId) -> bool:
    """Tell whether a call has no end; one of whose facts cannot be read stays open, and holds nobody else up."""
    try:
        return not has_ended(connection, steps, call)
    except StoreError:
        return True


def has_ended(connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId) -> bool:
    """Tell whether the log has the end of a call."""
    return any(decode_fact(line, steps).step.ends for _, line in lines_of(connection, call))
