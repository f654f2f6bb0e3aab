"""Who is alive: processes that share the file say until when they are, by the clock on the wall and by a steady one."""

import sqlite3
from typing import TypeAlias

from agenttool.ports.world import Moment

FORGET_NS = 24 * 3600 * 10**9
"""How long the name of an owner that died is kept; who wakes up later is taken for dead as well."""

Values: TypeAlias = dict[str, str | int]

_LIVES = "CASE WHEN since <> '' AND since = :since THEN steady_until_ns > :steady ELSE alive_until_ns > :now END"
ALIVE = f"SELECT owner FROM processes WHERE {_LIVES}"  # noqa: S608 -- constants only
"""The owners that are alive at a moment, given as its `values_of`."""

_RENEW = (
    "REPLACE INTO processes (owner, alive_until_ns, since, steady_until_ns)"
    " VALUES (:owner, :until, :since, :steady_until)"
)
_FORGET = f"DELETE FROM processes WHERE alive_until_ns < :now AND NOT ({_LIVES})"  # noqa: S608 -- constants only
_IS_ALIVE = f"SELECT 1 WHERE :owner IN ({ALIVE})"


def values_of(now: Moment) -> Values:
    """Give a moment as the values of a query."""
    return {"now": now.now_ns, "steady": now.steady_ns, "since": now.since}


def renew(connection: sqlite3.Connection, owner: str, until: Moment) -> None:
    """Say until when an owner is alive, and forget those that have long been dead."""
    long_ago = values_of(until.after(-FORGET_NS))
    ends: Values = {"owner": owner, "until": until.now_ns, "steady_until": until.steady_ns}
    connection.execute(_RENEW, {**ends, "since": until.since})
    connection.execute(_FORGET, long_ago)


def retire(connection: sqlite3.Connection, owner: str) -> None:
    """Say that an owner is no more."""
    connection.execute("DELETE FROM processes WHERE owner = ?", (owner,))


def is_alive(connection: sqlite3.Connection, owner: str, now: Values) -> bool:
    """Tell whether an owner is alive at a moment."""
    return connection.execute(_IS_ALIVE, {**now, "owner": owner}).fetchone() is not None
