"""Rows that few callers wrote: each is of one call, and stands neither in the index nor among calls begun until later.

Whoever commits for few pays for every page that is touched. So such a row says by itself which call it is of, and who
has that call in hand; many rows are bound together, into the pages where they are looked for. All rows behind the head
that was kept last are loose, and there are never many.
"""

import sqlite3

from agenttool.errors import StoreError
from agenttool.stores.fact_codec import call_of
from agenttool.stores.sqlite.chain import keep_head
from agenttool.stores.sqlite.lists import BEGUN_CALLS, as_json

MOST_LOOSE = 128
"""So many facts may be loose before they are bound."""

MOST_ENDED = 128
"""So many calls may have ended and still stand among those begun; whoever takes them up asks the log."""

CALL = "call_in(CAST(told AS BLOB))"  # whoever edits the file may leave text or numbers where bytes were
"""The call that a loose row is of."""

IS_LOOSE = "last > CAST(coalesce((SELECT position FROM heads), 0) AS INTEGER)"
"""Chooses loose rows from among the facts."""

LOOSE_CALLS = f"SELECT DISTINCT {CALL} AS invocation_id FROM facts WHERE {IS_LOOSE}"  # noqa: S608 -- constants only
"""The calls that loose rows are of."""

LOOSELY_HELD = (
    f"SELECT holder AS owner, {CALL} AS invocation_id, max(last) AS last"  # noqa: S608 -- constants only
    f" FROM facts WHERE {IS_LOOSE} GROUP BY invocation_id HAVING holder NOT NULL"
)
"""The calls under way of which only loose rows say so: the newest row of a call knows."""

_BYTES = "iif(typeof(told) = 'blob', told, CAST(told AS BLOB))"  # a cast copies what is bytes already
_ROWS = f"SELECT last, {_BYTES}, CAST(holder AS BLOB) FROM facts WHERE {IS_LOOSE} ORDER BY last"  # noqa: S608 -- constants only
_BEGIN = "REPLACE INTO begun VALUES (?, ?, json_array(?))"
_COUNT = "SELECT count(*) FROM begun WHERE owner = ? AND number < 0"
_INDEX = "INSERT OR IGNORE INTO facts_of_call SELECT value, CAST(key AS INTEGER) FROM json_each(?)"
_LET_GO = (
    "DELETE FROM begun WHERE owner = ? AND number < 0 AND NOT EXISTS"  # noqa: S608 -- constants only
    f" (SELECT 1 FROM {BEGUN_CALLS} AS one WHERE one.value IN (SELECT value FROM json_each(?)))"
)


def teach(connection: sqlite3.Connection) -> None:
    """Teach a connection to read which call a loose row is of."""
    connection.create_function("call_in", 1, _call_in, deterministic=True)


def bind(connection: sqlite3.Connection) -> None:
    """Put all loose rows where they are looked for, inside a transaction, and keep the head."""
    places: list[tuple[str, int]] = []
    newest: dict[str, tuple[bytes | None, int]] = {}
    for last, told, holder in connection.execute(_ROWS).fetchall():
        call = _call_in(told)
        if call is not None:
            places.append((call, last))
            newest[call] = (holder, -last)
    found = [(holder, number, call) for call, (holder, number) in newest.items() if holder is not None]
    held = [(holder.decode(errors="replace"), number, call) for holder, number, call in found]
    if held:
        connection.executemany(_BEGIN, held)
    if places:
        places.sort()  # which an index takes best
        connection.execute(_INDEX, (as_json({last: call for call, last in places}),))
    keep_head(connection)


def let_go_of_ended(connection: sqlite3.Connection, owner: str, under_way: list[str]) -> None:
    """Let go of rows that were bound as begun and whose calls have ended, once that is worth a look at all of them."""
    (count,) = connection.execute(_COUNT, (owner,)).fetchone()
    if count > len(under_way) + MOST_ENDED:
        connection.execute(_LET_GO, (owner, as_json(under_way)))


def _call_in(told: bytes) -> str | None:
    """Read which call a row is of; one that somebody spoiled is of none."""
    try:
        return call_of(told.partition(b"\n")[0])
    except StoreError:
        return None
