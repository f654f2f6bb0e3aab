"""Accepted calls: known once, begun once, settled once.

    accepted ──► started ──► settled
       │           │ ▲          ▲
       │           ▼ │          │
       │         asking ────────┤
       │                        │
       └──► subscribed ─────────┘

A call that is `started` may have acted. One that is `asking` waits for its user and has acted on no answer yet, so that
its function may run again after a crash, up to the question. `subscribed` has its result out, and events to come.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from agenttool.codec import json_bytes
from agenttool.rap.keeping import messages, subscriptions
from agenttool.rap.keeping.messages import Kind, Outgoing

_WORD = "call {}"


class State(StrEnum):
    """How far a call is."""

    ACCEPTED = "accepted"
    STARTED = "started"
    ASKING = "asking"
    SUBSCRIBED = "subscribed"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """An invocation as it came in, and from whom.

    Attributes:
        ancestors: the threads above its own; of a call that was kept they are in its body.
    """

    caller: str
    thread: str
    id: str
    call_id: str | None
    callback_url: str
    base_url: str
    body: bytes
    ancestors: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What makes two invocations the same: ids repeat across threads and runtimes, so no id alone does."""
        return hashlib.sha256(json_bytes([self.callback_url, self.thread, self.id])).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall(NewCall):
    """An accepted call."""

    number: int
    state: State = State.ACCEPTED
    is_canceled: bool = False


def accept(connection: sqlite3.Connection, call: NewCall) -> KeptCall | None:
    """Keep a call; none if it was kept before, because its acknowledgement was lost or somebody replays it."""
    row = connection.execute(
        "INSERT INTO calls (key, caller, thread, id, call_id, callback_url, base_url, body, state, changed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING RETURNING number",
        (
            call.key,
            call.caller,
            call.thread,
            call.id,
            call.call_id,
            call.callback_url,
            call.base_url,
            call.body,
            State.ACCEPTED,
            time.time_ns(),
        ),
    ).fetchone()
    if row is None:
        return None
    for thread in call.ancestors:
        connection.execute("INSERT OR IGNORE INTO ancestors VALUES (?, ?)", (thread, row[0]))
    return _kept(call, row[0])


def accept_settled(connection: sqlite3.Connection, call: NewCall, body: bytes) -> Outgoing | None:
    """Keep a call together with its result, which is an error that needed no work; none if it was kept before."""
    kept = accept(connection, replace(call, body=b""))  # there is no work to do that would need it
    return None if kept is None else settle(connection, kept.number, [(Kind.RESULT, body)])


def begin(connection: sqlite3.Connection, number: int) -> bool:
    """Note that a call may act from now on; false if it was canceled meanwhile."""
    begun = connection.execute(
        "UPDATE calls SET state = 'started' WHERE number = ? AND is_canceled = 0"
        " AND state IN ('accepted', 'started', 'asking') RETURNING number",
        (number,),
    )
    return begun.fetchone() is not None


def keep_word(connection: sqlite3.Connection, number: int, word: str) -> str:
    """Keep a word about a call until it is settled, and give it; the first one stands."""
    name = _WORD.format(number)
    connection.execute("INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, word))
    return connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()[0]


def settle(connection: sqlite3.Connection, number: int, last: list[tuple[Kind, bytes]]) -> Outgoing | None:
    """Note how a call ended, with the last messages about it; the first settling stands. Gives what is to go next."""
    if _leave(connection, number, State.SETTLED):
        for kind, body in last:
            messages.put(connection, number, kind, body)
    return messages.next_of(connection, number)


def subscribe(
    connection: sqlite3.Connection, number: int, confirmation: bytes, topic: str | None, expires_at: int
) -> Outgoing | None:
    """Note that a call opened a subscription, and its confirmation; none if the call is over."""
    if not _leave(connection, number, State.SUBSCRIBED):
        return None
    connection.execute(
        "INSERT INTO subscriptions (call, topic, expires_at) VALUES (?, ?, ?)", (number, topic, expires_at)
    )
    messages.put(connection, number, Kind.RESULT, confirmation)
    return messages.next_of(connection, number)


def _leave(connection: sqlite3.Connection, number: int, state: State) -> bool:
    """Leave the states in which a result is owed."""
    connection.execute("DELETE FROM questions WHERE call = ?", (number,))
    connection.execute("DELETE FROM facts WHERE name = ?", (_WORD.format(number),))
    left = connection.execute(
        "UPDATE calls SET state = ?, changed_at = ? WHERE number = ? AND state IN ('accepted', 'started', 'asking')"
        " RETURNING number",
        (state, time.time_ns(), number),
    )
    return left.fetchone() is not None


def cancel(connection: sqlite3.Connection, caller: str, thread: str, call_id: str) -> list[int]:
    """Note that the caller no longer wants a call, and give its number; of another caller's calls nothing is told."""
    rows = connection.execute(
        "UPDATE calls SET is_canceled = 1"
        " WHERE thread = ? AND id = ? AND caller = ? AND state <> 'settled' RETURNING number",
        (thread, call_id, caller),
    )
    return _stopped(connection, rows)


def close_thread(connection: sqlite3.Connection, caller: str, thread: str) -> list[int]:
    """Note that nobody is there any more to answer a question or to take an event; work under way comes to its end."""
    rows = connection.execute(
        "UPDATE calls SET is_canceled = 1"
        " WHERE thread = ? AND caller = ? AND state IN ('asking', 'subscribed') RETURNING number",
        (thread, caller),
    )
    return _stopped(connection, rows)


def is_of_another(connection: sqlite3.Connection, caller: str, thread: str) -> bool:
    """Tell whether a thread is somebody else's: it belongs to whoever called first in it, or in one below it."""
    row = connection.execute(
        "SELECT caller FROM calls WHERE number = (SELECT min(number) FROM"
        " (SELECT number FROM calls WHERE thread = ?1 UNION ALL SELECT call FROM ancestors WHERE thread = ?1))",
        (thread,),
    ).fetchone()
    return row is not None and row[0] != caller


def _stopped(connection: sqlite3.Connection, rows: sqlite3.Cursor) -> list[int]:
    """End the subscriptions among calls that nobody wants any more; the others are for whoever runs them to stop."""
    numbers = [number for (number,) in rows.fetchall()]
    for number in numbers:
        subscriptions.cancel(connection, number)
    return numbers


def open_calls(connection: sqlite3.Connection) -> list[KeptCall]:
    """List the calls that are not settled, in the order they came."""
    return list(_read(connection))


def _read(connection: sqlite3.Connection) -> Iterator[KeptCall]:
    rows = connection.execute(
        "SELECT number, caller, thread, id, call_id, callback_url, base_url, body, state, is_canceled"
        " FROM calls WHERE state <> 'settled' ORDER BY number"
    )
    for number, caller, thread, call, call_id, callback_url, base_url, body, state, is_canceled in rows:
        yield KeptCall(
            number=number,
            caller=caller,
            thread=thread,
            id=call,
            call_id=call_id,
            callback_url=callback_url,
            base_url=base_url,
            body=body,
            state=State(state),
            is_canceled=bool(is_canceled),
        )


def forget(connection: sqlite3.Connection, before: int) -> int:
    """Let go of calls that ended before a moment; until then a repeated invocation is known as one."""
    gone = connection.execute(
        "DELETE FROM calls WHERE state = 'settled' AND changed_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE call = calls.number) RETURNING number",
        (before,),
    ).fetchall()
    connection.executemany("DELETE FROM ancestors WHERE call = ?", gone)
    return len(gone)


def _kept(call: NewCall, number: int) -> KeptCall:
    return KeptCall(
        number=number,
        caller=call.caller,
        thread=call.thread,
        id=call.id,
        call_id=call.call_id,
        callback_url=call.callback_url,
        base_url=call.base_url,
        body=call.body,
    )
