"""Messages on their way out: per call in order, each until it is taken or never will be."""

import sqlite3
import time
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a message is about."""

    RESULT = "result"
    EVENT = "event"
    QUESTION = "question"
    VIEW = "view"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The next message of a call, and where it goes."""

    number: int
    call: int
    caller: str
    kind: Kind
    url: str
    body: bytes
    put_at: int


def put(connection: sqlite3.Connection, call: int, kind: Kind, body: bytes) -> int:
    """Add a message behind the others of its call."""
    row = connection.execute(
        "INSERT INTO messages (call, kind, body, put_at) VALUES (?, ?, ?, ?) RETURNING number",
        (call, kind, body, time.time_ns()),
    ).fetchone()
    return row[0]


def put_next(connection: sqlite3.Connection, call: int, kind: Kind, body: bytes) -> Outgoing | None:
    """Add a message, and give the one that is to go next."""
    put(connection, call, kind, body)
    return next_of(connection, call)


def next_of(connection: sqlite3.Connection, call: int) -> Outgoing | None:
    """Give the oldest message of a call."""
    row = connection.execute(
        "SELECT messages.number, caller, kind, callback_url, messages.body, put_at"
        " FROM messages JOIN calls ON calls.number = call WHERE call = ? ORDER BY messages.number LIMIT 1",
        (call,),
    ).fetchone()
    if row is None:
        return None
    number, caller, kind, url, body, put_at = row
    return Outgoing(number=number, call=call, caller=caller, kind=Kind(kind), url=url, body=body, put_at=put_at)


def count(connection: sqlite3.Connection, call: int, most: int) -> int:
    """Tell how many messages of a call wait; nobody counts further than asked."""
    rows = connection.execute("SELECT count(*) FROM (SELECT 1 FROM messages WHERE call = ? LIMIT ?)", (call, most))
    return rows.fetchone()[0]


def done(connection: sqlite3.Connection, message: Outgoing) -> Outgoing | None:
    """Let go of a message, and give the next."""
    connection.execute("DELETE FROM messages WHERE number = ?", (message.number,))
    following = next_of(connection, message.call)
    if following is None:
        forget_if_told(connection, message.call)
    return following


def forget_if_told(connection: sqlite3.Connection, call: int) -> None:
    """Let go of a call's secrets once it is settled and nothing more is to be sent; what is left tells a repetition."""
    connection.execute(
        "UPDATE calls SET body = NULL, callback_url = NULL, base_url = NULL WHERE number = ?1 AND state = 'settled'"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE call = ?1)",
        (call,),
    )


def withdraw(connection: sqlite3.Connection, call: int, kind: Kind) -> None:
    """Let go of messages that nobody wants any more."""
    connection.execute("DELETE FROM messages WHERE call = ? AND kind = ?", (call, kind))


def all_next(connection: sqlite3.Connection) -> list[Outgoing]:
    """Give the next message of every call that has one."""
    calls = connection.execute("SELECT DISTINCT call FROM messages").fetchall()
    found = [next_of(connection, call) for (call,) in calls]
    return [message for message in found if message is not None]
