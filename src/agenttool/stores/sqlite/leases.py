"""Leases of processes, and the calls that they started and own.

A process renews its lease by the wall clock and by a monotonic clock. Where two processes share the monotonic clock it
decides, so wall-clock changes do not affect leases. Started calls without a checkpoint are listed in one row for all
that started in one commit. A row is deleted once all of its calls have ended; until then it also names some that have,
so recovery asks the log which of them are open.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from agenttool.errors import StoreError
from agenttool.ports.facts import Step
from agenttool.ports.stores import NO_CHECKPOINT
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import decode_fact
from agenttool.stores.sqlite.connect import as_json
from agenttool.stores.sqlite.fact_rows import IS_UNINDEXED, STARTED_CALLS, UNINDEXED_OWNED, index_rows, lines_of

EXPIRED_LEASE_RETENTION_NS = 24 * 3600 * 10**9
"""How long the row of an expired lease is stored; a process that resumes after that has lost its lease, too."""

Values: TypeAlias = dict[str, str | int]

_IS_ALIVE = "CASE WHEN since <> '' AND since = :since THEN steady_until_ns > :steady ELSE alive_until_ns > :now END"
ALIVE_OWNERS = f"SELECT owner FROM processes WHERE {_IS_ALIVE}"  # noqa: S608 -- constants only
"""The owners with a lease at a moment, given as its `values_of`."""

_RENEW = (
    "REPLACE INTO processes (owner, alive_until_ns, since, steady_until_ns)"
    " VALUES (:owner, :until, :since, :steady_until)"
)
_FORGET = f"DELETE FROM processes WHERE alive_until_ns < :now AND NOT ({_IS_ALIVE})"  # noqa: S608 -- constants only
_HAS_LEASE = f"SELECT 1 WHERE :owner IN ({ALIVE_OWNERS})"

_IS_DEAD = f"owner NOT IN ({ALIVE_OWNERS})"
_STARTED = (
    f"SELECT owner, call FROM (SELECT started_calls.owner AS owner, value AS call FROM started_calls, {STARTED_CALLS}"  # noqa: S608 -- constants
    f" UNION SELECT owner, invocation_id FROM ({UNINDEXED_OWNED}))"
    " WHERE call NOT IN (SELECT invocation_id FROM open_calls)"
)
_STARTED_OF_EXPIRED = (
    f"SELECT 1 FROM started_calls WHERE {_IS_DEAD}"  # noqa: S608 -- constants only
    f" UNION ALL SELECT 1 FROM facts WHERE {IS_UNINDEXED} AND owner NOT NULL AND {_IS_DEAD} LIMIT 1"
)
_CHECKPOINT_OWNERS = (
    "SELECT invocation_id, owner, approval_id,"
    " EXISTS (SELECT 1 FROM answers WHERE answers.approval_id = open_calls.approval_id) FROM open_calls"
)


def values_of(now: Moment) -> Values:
    """Return a moment as the values of a query."""
    return {"now": now.now_ns, "steady": now.steady_ns, "since": now.since}


def renew_lease(connection: sqlite3.Connection, owner: str, until: Moment) -> None:
    """Extend the lease of an owner, and delete leases that expired long ago."""
    long_ago = values_of(until.after(-EXPIRED_LEASE_RETENTION_NS))
    ends: Values = {"owner": owner, "until": until.now_ns, "steady_until": until.steady_ns}
    connection.execute(_RENEW, {**ends, "since": until.since})
    connection.execute(_FORGET, long_ago)


def delete_lease(connection: sqlite3.Connection, owner: str) -> None:
    """End the lease of an owner."""
    connection.execute("DELETE FROM processes WHERE owner = ?", (owner,))


def has_lease(connection: sqlite3.Connection, owner: str, now: Values) -> bool:
    """Return whether an owner has a lease at a moment."""
    return connection.execute(_HAS_LEASE, {**now, "owner": owner}).fetchone() is not None


class StartedGroup:
    """Calls that started in one commit and have not ended.

    Attributes:
        number: the number of their row among those of this process.
        is_put: whether the row is stored, or is part of the running commit.
        is_written: whether that commit is complete.
        is_unindexed: whether only unindexed rows of facts list the calls.
    """

    __slots__ = ("calls", "is_put", "is_unindexed", "is_written", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls: dict[str, None] = {}
        self.is_put = self.is_written = self.is_unindexed = False


def started_rows(groups: Iterable[StartedGroup], ended: list[int]) -> list[tuple[int, str]]:
    """Return the rows to write for started calls; a call may end while its row is being written.

    Numbers of rows whose calls have `ended` are removed from there and used again.
    """
    rows: list[tuple[int, str]] = []
    for group in groups:
        if group.calls:
            if ended and not group.is_put:
                group.number = ended.pop()
            group.is_put, group.is_unindexed = True, False
            rows.append((group.number, as_json(list(group.calls))))
    return rows


def write_started(connection: sqlite3.Connection, owner: str, rows: Iterable[tuple[int, str]]) -> None:
    """Write rows of started calls."""
    for number, calls in rows:
        connection.execute("REPLACE INTO started_calls VALUES (?, ?, ?)", (owner, number, calls))


def delete_started(connection: sqlite3.Connection, owner: str, numbers: Iterable[int]) -> None:
    """Delete rows whose calls have all ended."""
    statement = "DELETE FROM started_calls WHERE owner = ? AND number IN (SELECT value FROM json_each(?))"
    connection.execute(statement, (owner, as_json(list(numbers))))


def has_calls_to_recover(connection: sqlite3.Connection, now: Moment) -> bool:
    """Return whether a dead process left started calls."""
    return connection.execute(_STARTED_OF_EXPIRED, values_of(now)).fetchone() is not None


def recover_started_calls(connection: sqlite3.Connection, steps: Mapping[str, Step], now: Moment) -> None:
    """Move the started calls of dead processes to the open calls, inside a transaction.

    Their leases are deleted, so that a process that was only suspended can write nothing when it resumes.
    """
    index_rows(connection)
    found = connection.execute(f"{_STARTED} AND {_IS_DEAD}", values_of(now)).fetchall()
    for owner, call in found:
        if is_open(connection, steps, call):
            row = (call, NO_CHECKPOINT, b"", owner)
            connection.execute("INSERT INTO open_calls (invocation_id, kind, body, owner) VALUES (?, ?, ?, ?)", row)
            delete_lease(connection, owner)
    connection.execute(f"DELETE FROM started_calls WHERE {_IS_DEAD}", values_of(now))  # noqa: S608 -- constants only


def open_started(
    connection: sqlite3.Connection, steps: Mapping[str, Step], one: InvocationId | None = None
) -> Iterator[tuple[str, InvocationId]]:
    """Yield the started calls that have no checkpoint and have not ended, or one of them, each after its owner."""
    for owner, call in connection.execute(f"{_STARTED} AND call = coalesce(?, call)", (one,)).fetchall():
        if is_open(connection, steps, call):
            yield owner, call


def is_open(connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId) -> bool:
    """Return whether a call has no end; a call with an unreadable fact stays open."""
    try:
        return not has_ended(connection, steps, call)
    except StoreError:
        return True


def has_ended(connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId) -> bool:
    """Return whether the log has the end of a call."""
    return any(decode_fact(line, steps).step.ends for _, line in lines_of(connection, call))


def new_owner() -> str:
    """Return a new owner name for this process: unique, and with its id and the name of its machine."""
    return f"{os.getpid()}@{os.uname().nodename}#{secrets.token_hex(4)}"


class Ownership(NamedTuple):
    """The owner of an open call.

    Attributes:
        owner: the process that runs it; none if the process that receives the answer shall claim it.
        is_alive: whether that process has a lease.
        waits_for: the approval or deferred result that it waits for.
        is_answered: whether that answer is stored and not yet used.
    """

    owner: str | None
    is_alive: bool
    waits_for: str | None = None
    is_answered: bool = False

    @property
    def waits_for_tool(self) -> bool:
        """Whether it can continue as soon as a process that has its tool recovers it."""
        return not self.is_alive and (self.is_answered or self.waits_for is None)

    @property
    def process(self) -> str | None:
        """The id of the process and its machine, as in `4711@host`; none without an owner."""
        return None if self.owner is None else self.owner.partition("#")[0]


def find_ownership(
    connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId, now: Moment
) -> Ownership | None:
    """Return the owner of a call; none if it is not open."""
    found = connection.execute(f"{_CHECKPOINT_OWNERS} WHERE invocation_id = ?", (call,)).fetchone()
    if found is not None:
        _, owner, waits_for, is_answered = found
        return Ownership(owner, _is_alive(connection, owner, now), waits_for, bool(is_answered))
    for owner, _ in open_started(connection, steps, call):
        return Ownership(owner, _is_alive(connection, owner, now))
    return None


def find_open_calls(
    connection: sqlite3.Connection, steps: Mapping[str, Step], now: Moment
) -> Iterator[tuple[InvocationId, Ownership]]:
    """Yield every open call with its owner, those with a checkpoint first."""
    alive = {owner for (owner,) in connection.execute(ALIVE_OWNERS, values_of(now))}
    for call, owner, waits_for, is_answered in connection.execute(f"{_CHECKPOINT_OWNERS} ORDER BY invocation_id"):
        yield call, Ownership(owner, owner in alive, waits_for, bool(is_answered))
    for owner, call in open_started(connection, steps):
        yield call, Ownership(owner, owner in alive)


def _is_alive(connection: sqlite3.Connection, owner: str | None, now: Moment) -> bool:
    return owner is not None and has_lease(connection, owner, values_of(now))
