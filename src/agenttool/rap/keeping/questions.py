"""Questions to users: asked once, answered once, remembered until their call ends.

A function that runs again after a crash asks its questions again, in the same order; `place` tells which is which.
"""

import sqlite3
from dataclasses import dataclass

from agenttool.rap.keeping import messages
from agenttool.rap.keeping.messages import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it stands.

    Attributes:
        answer: as JSON; none while it is open.
        is_last: whether no later question of the same call was asked, so that this one is where the work goes on.
        expires_at: when nobody waits for the answer any more.
    """

    answer: str | None
    is_last: bool
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuestion:
    """A question as its tool asks it.

    Attributes:
        token: the digest of what an answer must bring along.
        secret: what only we know of it, such as a code verifier.
        choices: how many there are; 0 for an authorization.
    """

    place: int
    token: str
    secret: str | None
    choices: int
    expires_at: int
    body: bytes


def ask(connection: sqlite3.Connection, call: int, question: NewQuestion) -> Asked:
    """Ask, unless this very question was asked before; the call is `asking` until somebody acts on the answer."""
    known = find(connection, call, question.place)
    if known is not None:
        if known.answer is None:
            _park(connection, call)
        return known
    connection.execute(
        "INSERT INTO questions (call, place, token, secret, choices, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        (call, question.place, question.token, question.secret, question.choices, question.expires_at),
    )
    messages.put(connection, call, Kind.QUESTION, question.body)
    _park(connection, call)
    return Asked(answer=None, is_last=True, expires_at=question.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An open question, found by what its answer brought along."""

    call: int
    place: int
    id: str
    secret: str | None
    choices: int


def find_open(connection: sqlite3.Connection, token: str, now: int) -> Open | None:
    """Find the question that a token belongs to; none if it was answered, has expired or never was."""
    row = connection.execute(
        "SELECT call, place, id, secret, choices FROM questions JOIN calls ON calls.number = call"
        " WHERE token = ? AND answer IS NULL AND expires_at > ? AND is_canceled = 0",
        (token, now),
    ).fetchone()
    if row is None:
        return None
    call, place, call_id, secret, choices = row
    return Open(call=call, place=place, id=call_id, secret=secret, choices=choices)


def answer(connection: sqlite3.Connection, call: int, place: int, given: str) -> bool:
    """Keep an answer; false if there was one."""
    row = connection.execute(
        "UPDATE questions SET answer = ?, secret = NULL WHERE call = ? AND place = ? AND answer IS NULL RETURNING call",
        (given, call, place),
    )
    return row.fetchone() is not None


def answer_all(connection: sqlite3.Connection, call: int, given: str) -> list[int]:
    """Keep one answer to all open questions of a call, and give their places."""
    rows = connection.execute(
        "UPDATE questions SET answer = ?, secret = NULL WHERE call = ? AND answer IS NULL RETURNING place",
        (given, call),
    )
    return [place for (place,) in rows.fetchall()]


def find(connection: sqlite3.Connection, call: int, place: int) -> Asked | None:
    """Give a question that was asked before."""
    row = connection.execute(
        "SELECT answer, expires_at, place = (SELECT max(place) FROM questions WHERE call = ?1)"
        " FROM questions WHERE call = ?1 AND place = ?2",
        (call, place),
    ).fetchone()
    return None if row is None else Asked(answer=row[0], is_last=bool(row[2]), expires_at=row[1])


def _park(connection: sqlite3.Connection, call: int) -> None:
    connection.execute(
        "UPDATE calls SET state = 'asking' WHERE number = ? AND state IN ('accepted', 'started')", (call,)
    )
