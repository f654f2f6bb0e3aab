"""Leases of processes, and the calls that they started and own.

A process renews its lease by the wall clock and by a monotonic clock. Where two processes share the monotonic clock it
decides, so wall-clock changes do not affect leases. Started calls without a checkpoint are listed in one row for all
of one commit. A row is deleted some time after all of its calls have ended; until then it also names ended calls, so
recovery reads in the log which of them are open.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from agenttool.errors import StoreError
from agenttool.ports.facts import Step
from agenttool.ports.stores import NO_CHECKPOINT
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import decode_fact
from agenttool.stores.sqlite.fact_rows import IS_UNINDEXED, STARTED_CALLS, UNINDEXED_OWNED, index_rows, lines_of

EXPIRED_LEASE_RETENTION_NS = 24 * 3600 * 10**9
"""How long the row of an expired lease is stored; a process that resumes after that has lost its lease, too."""

Values: TypeAlias = dict[str, str | int]

_IS_ALIVE = "CASE WHEN since <> '' AND since = :since THEN steady_until_ns > :steady ELSE alive_until_ns > :now END"
ALIVE_OWNERS = f"SELECT owner FROM processes WHERE {_IS_ALIVE}"  # noqa: S608 -- constants only
"""The owners with a lease at a moment, given as its `values_of`."""

_LEASES = f"SELECT owner, {_IS_ALIVE} FROM processes"  # noqa: S608 -- constants only
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
        has_expired: whether that process has a lease that it did not renew in time.
    """

    owner: str | None
    is_alive: bool
    waits_for: str | None = None
    is_answered: bool = False
    has_expired: bool = False

    @property
    def waits_for_tool(self) -> bool:
        """Whether it can continue as soon as a process that has its tool recovers it."""
        return not self.is_alive and (self.is_answered or self.waits_for is None)

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended; one on this machine may run without its lease, as on a full disk."""
        number, _, machine = (self.process or "").partition("@")
        if not self.has_expired or machine != os.uname().nodename or not number.isdecimal():
            return not self.is_alive
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return True
        except OSError:  # it belongs to another user
            return False
        return False

    @property
    def process(self) -> str | None:
        """The id of the process and its machine, as in `4711@host`; none without an owner."""
        return self.owner and self.owner.partition("#")[0]


def find_open_calls(
    connection: sqlite3.Connection, steps: Mapping[str, Step], now: Moment, one: InvocationId | None = None
) -> Iterator[tuple[InvocationId, Ownership]]:
    """Yield every open call with its owner, those with a checkpoint first; or only one of them."""
    leases = dict(connection.execute(_LEASES, values_of(now)).fetchall())
    which, values = ("", ()) if one is None else (" WHERE invocation_id = ?", (one,))
    for call, *owned in connection.execute(f"{_CHECKPOINT_OWNERS}{which} ORDER BY invocation_id", values):
        yield call, _ownership(leases, *owned)
    for owner, call in open_started(connection, steps, one):
        yield call, _ownership(leases, owner)


def _ownership(
    leases: Mapping[str, bool], owner: str | None, waits_for: str | None = None, is_answered: int = 0
) -> Ownership:
    """Return the owner of a call, which waits for an answer that may be stored, or for nothing."""
    is_valid = owner and leases.get(owner)
    return Ownership(
        owner, bool(is_valid), waits_for, bool(is_answered), has_expired=is_valid is not None and not is_valid
    )
