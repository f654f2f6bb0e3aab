"""Retention: the oldest facts go, and an anchor says where the chain goes on from."""

import sqlite3

from agenttool.stores.sqlite.lists import BEGUN_CALLS, as_json
from agenttool.stores.sqlite.loose import bind
from agenttool.stores.told import call_of, moment_of, written_apart

PORTION = 500
"""How many rows of facts are looked at in one transaction, so that nobody waits long behind it."""

_IS_OPEN = (
    "SELECT 1 FROM json_each(?) AS told"  # noqa: S608 -- constants only
    " WHERE EXISTS (SELECT 1 FROM open_calls WHERE invocation_id = told.value)"
    f" OR EXISTS (SELECT 1 FROM begun, {BEGUN_CALLS} AS one WHERE one.value = told.value) LIMIT 1"
)


def let_go(connection: sqlite3.Connection, before_ns: int) -> bool:
    """Let one portion of old facts go, inside a transaction; tell whether that was all.

    It ends at the first row with a fact that is not old enough, or whose call is held open: facts go in order or not at
    all, and what was written together goes together.
    """
    bind(connection)
    found = connection.execute(
        "SELECT last, CAST(hash AS BLOB), CAST(told AS BLOB) FROM facts ORDER BY last LIMIT ?", (PORTION,)
    ).fetchall()
    last: tuple[int, bytes] | None = None
    count = 0
    for position, chained, told in found:
        if _is_wanted(connection, told, before_ns):
            break
        last, count = (position, chained), count + 1
    if last is not None:
        _cut(connection, last, before_ns)
    return count < PORTION


def _is_wanted(connection: sqlite3.Connection, told: bytes, before_ns: int) -> bool:
    lines = written_apart(told)
    if any(moment_of(line) >= before_ns for line in lines):
        return True
    calls = as_json([call for call in {call_of(line) for line in lines} if call is not None])
    return connection.execute(_IS_OPEN, (calls,)).fetchone() is not None


def _cut(connection: sqlite3.Connection, last: tuple[int, bytes], before_ns: int) -> None:
    connection.execute("INSERT INTO anchors VALUES (?, ?, ?)", (*last, before_ns))
    for (told,) in connection.execute("SELECT CAST(told AS BLOB) FROM facts WHERE last <= ?", last[:1]).fetchall():
        calls = as_json([call for call in {call_of(line) for line in written_apart(told)} if call is not None])
        gone = "DELETE FROM facts_of_call WHERE invocation_id IN (SELECT value FROM json_each(?)) AND last <= ?"
        connection.execute(gone, (calls, last[0]))
    connection.execute("DELETE FROM facts WHERE last <= ?", last[:1])
    # An answer whose call is gone only says that it was given; nobody will ask for it after this long.
    connection.execute(
        "DELETE FROM answers WHERE at_ns < ? AND approval_id NOT IN"
        " (SELECT approval_id FROM open_calls WHERE approval_id IS NOT NULL)",
        (before_ns,),
    )
