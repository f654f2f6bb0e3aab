"""Retention: the oldest facts go, and an anchor says where the chain goes on from."""

import sqlite3
from collections.abc import Mapping

from agenttool.ports.facts import Step
from agenttool.stores.fact_codec import call_of, split_lines, time_of
from agenttool.stores.sqlite.begun import is_open
from agenttool.stores.sqlite.lists import BEGUN_CALLS, as_json
from agenttool.stores.sqlite.loose import bind

PORTION = 500
"""How many rows of facts are looked at in one transaction, so that nobody waits long behind it."""

_IS_HELD = "SELECT 1 FROM json_each(?) WHERE value IN (SELECT invocation_id FROM open_calls) LIMIT 1"
# Some of those that stand among the begun have ended since.
_HAS_BEGUN = (
    "SELECT value FROM json_each(?) AS told"  # noqa: S608 -- constants only
    f" WHERE EXISTS (SELECT 1 FROM begun, {BEGUN_CALLS} AS one WHERE one.value = told.value)"
)
# Nobody could tell any more that they have ended, and whoever comes after their process would take them up.
_STRIKE = (
    f"UPDATE begun SET calls = (SELECT json_group_array(one.value) FROM {BEGUN_CALLS} AS one"  # noqa: S608 -- constants
    " WHERE one.value NOT IN (SELECT value FROM json_each(:gone)))"
    f" WHERE EXISTS (SELECT 1 FROM {BEGUN_CALLS} AS one WHERE one.value IN (SELECT value FROM json_each(:gone)))"
)


def let_go(connection: sqlite3.Connection, steps: Mapping[str, Step], before_ns: int) -> bool:
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
        if _is_wanted(connection, steps, told, before_ns):
            break
        last, count = (position, chained), count + 1
    if last is not None:
        _cut(connection, last, before_ns)
    return count < PORTION


def _is_wanted(connection: sqlite3.Connection, steps: Mapping[str, Step], told: bytes, before_ns: int) -> bool:
    lines = split_lines(told)
    if any(time_of(line) >= before_ns for line in lines):
        return True
    calls = as_json([call for call in {call_of(line) for line in lines} if call is not None])
    if connection.execute(_IS_HELD, (calls,)).fetchone() is not None:
        return True
    return any(is_open(connection, steps, call) for (call,) in connection.execute(_HAS_BEGUN, (calls,)).fetchall())


def _cut(connection: sqlite3.Connection, last: tuple[int, bytes], before_ns: int) -> None:
    connection.execute("INSERT INTO anchors VALUES (?, ?, ?)", (*last, before_ns))
    gone: set[str] = set()
    for (told,) in connection.execute("SELECT CAST(told AS BLOB) FROM facts WHERE last <= ?", last[:1]).fetchall():
        gone.update(call for call in map(call_of, split_lines(told)) if call is not None)
    calls = as_json([*gone])
    places = "DELETE FROM facts_of_call WHERE invocation_id IN (SELECT value FROM json_each(?)) AND last <= ?"
    connection.execute(places, (calls, last[0]))
    connection.execute(_STRIKE, {"gone": calls})
    connection.execute("DELETE FROM begun WHERE calls = '[]'")
    connection.execute("DELETE FROM facts WHERE last <= ?", last[:1])
    # An answer whose call is gone only says that it was given; nobody will ask for it after this long.
    connection.execute(
        "DELETE FROM answers WHERE at_ns < ? AND approval_id NOT IN"
        " (SELECT approval_id FROM open_calls WHERE approval_id IS NOT NULL)",
        (before_ns,),
    )
