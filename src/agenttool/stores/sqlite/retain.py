"""Retention: the oldest facts go, and an anchor says where the chain goes on from."""

import sqlite3

from agenttool.stores.told import moment_of

PORTION = 5000
"""How many facts go in one transaction, so that nobody waits long behind it."""


def let_go(connection: sqlite3.Connection, before_ns: int) -> bool:
    """Let one portion of old facts go, inside a transaction; tell whether that was all.

    It ends at the first fact that is not old enough, or whose call is held open: facts go in order or not at all.
    """
    found = connection.execute(
        "SELECT position, hash, told, invocation_id IN (SELECT invocation_id FROM open_calls)"
        " FROM facts ORDER BY position LIMIT ?",
        (PORTION,),
    ).fetchall()
    last: tuple[int, bytes] | None = None
    count = 0
    for position, chained, told, is_open in found:
        if is_open or moment_of(told) >= before_ns:
            break
        last, count = (position, chained), count + 1
    if last is not None:
        _cut(connection, last, before_ns)
    return count < PORTION


def _cut(connection: sqlite3.Connection, last: tuple[int, bytes], before_ns: int) -> None:
    connection.execute("INSERT INTO anchors VALUES (?, ?, ?)", (*last, before_ns))
    connection.execute("DELETE FROM facts WHERE position <= ?", last[:1])
    # An answer whose call is gone only says that it was given; nobody will ask for it after this long.
    connection.execute(
        "DELETE FROM answers WHERE at_ns < ? AND approval_id NOT IN"
        " (SELECT approval_id FROM open_calls WHERE approval_id IS NOT NULL)",
        (before_ns,),
    )
