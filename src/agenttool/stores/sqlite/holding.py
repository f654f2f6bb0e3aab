"""Who has a call in hand that has not ended, as somebody sees it who only looks."""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from agenttool.ports.facts import Step
from agenttool.ports.world import Moment
from agenttool.records import InvocationId
from agenttool.stores.sqlite.begun import still_open
from agenttool.stores.sqlite.owners import is_alive, values_of

_HELD = (
    "SELECT owner, approval_id, EXISTS (SELECT 1 FROM answers WHERE answers.approval_id = open_calls.approval_id)"
    " FROM open_calls WHERE invocation_id = ?"
)


class Holding(NamedTuple):
    """How a call is held.

    Attributes:
        owner: the process that has it; none if it was left to whoever comes.
        is_alive: whether that process says that it lives.
        waits_for: the question whose answer it waits for, or what an answer from outside goes by.
        is_answered: whether that answer is there, and nobody has heard it yet.
    """

    owner: str | None
    is_alive: bool
    waits_for: str | None = None
    is_answered: bool = False


def find_holding(
    connection: sqlite3.Connection, steps: Mapping[str, Step], call: InvocationId, now: Moment
) -> Holding | None:
    """Find who has a call in hand; none if nobody has it."""
    found = connection.execute(_HELD, (call,)).fetchone()
    if found is not None:
        owner, waits_for, is_answered = found
        return Holding(owner, _lives(connection, owner, now), waits_for, bool(is_answered))
    for owner, _ in still_open(connection, steps, call):
        return Holding(owner, _lives(connection, owner, now))
    return None


def _lives(connection: sqlite3.Connection, owner: str | None, now: Moment) -> bool:
    return owner is not None and is_alive(connection, owner, values_of(now))
