"""The operations on a provider's tables: calls, messages, subscriptions, questions, grants and nonces.

Each takes the connection of the current transaction. The states of a call:

    accepted ──► started ──► settled
       │           │ ▲          ▲
       │           ▼ │          │
       │         asking ────────┤
       │                        │
       └──► subscribed ─────────┘

A `started` call may have acted. An `asking` call waits for its user and has not acted on the answer, so its function
may run again up to the question after a crash. A `subscribed` call has sent its result, and events follow.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from sqlite3 import Connection
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from agenttool.codec import json_bytes

CallState = Literal["accepted", "started", "asking", "subscribed", "settled"]
MessageKind = Literal["result", "event", "question", "view"]


class NewCall(Struct, frozen=True):
    """An invocation as it arrived, and its caller."""

    caller: str
    thread: str
    id: str
    call_id: str | None
    callback_url: str
    base_url: str
    body: bytes

    @property
    def key(self) -> str:
        """The identity of an invocation; its id alone is not unique across threads and runtimes."""
        return hashlib.sha256(json_bytes([self.callback_url, self.thread, self.id])).hexdigest()


class StoredCall(NewCall, frozen=True):
    """An accepted call."""

    number: int
    state: CallState = "accepted"
    is_canceled: bool = False


class OutgoingMessage(NamedTuple):
    """The next message of a call, and where it goes."""

    number: int
    call: int
    caller: str
    kind: MessageKind
    url: str
    body: bytes
    queued_at: int


class Subscriber(NamedTuple):
    """The call that an event is for."""

    call: int
    thread: str
    id: str


def insert_call(connection: Connection, call: NewCall, ancestors: Sequence[str] = ()) -> StoredCall | None:
    """Store a call, with the threads above its own; None if it is stored already, because it was sent again."""
    row = connection.execute(
        "INSERT INTO calls (key, caller, thread, id, call_id, callback_url, base_url, body, state, changed_at)"
        " VALUES (:key, :caller, :thread, :id, :call_id, :callback_url, :base_url, :body, 'accepted', :now)"
        " ON CONFLICT (key) DO NOTHING RETURNING number",
        {**asdict(call), "key": call.key, "now": time.time_ns()},
    ).fetchone()
    if row is None:
        return None
    connection.executemany("INSERT OR IGNORE INTO ancestors VALUES (?, ?)", [(each, row[0]) for each in ancestors])
    return StoredCall(*astuple(call), *row)


def insert_settled_call(connection: Connection, call: NewCall, result: bytes) -> OutgoingMessage | None:
    """Store a call together with its error result; None if it is stored already."""
    stored = insert_call(connection, replace(call, body=b""))  # no work needs the body
    return stored and settle_call(connection, stored.number, [("result", result)])


def mark_started(connection: Connection, call: int) -> bool:
    """Record that a call may act from now on; False if it was canceled."""
    updated = connection.execute(
        "UPDATE calls SET state = 'started' WHERE number = ? AND is_canceled = 0"
        " AND state IN ('accepted', 'started', 'asking') RETURNING number",
        (call,),
    )
    return updated.fetchone() is not None


def store_value_once(connection: Connection, call: int, value: str) -> str:
    """Store a value of a call until it is settled; return the value that was stored first."""
    statement = "UPDATE calls SET value = coalesce(value, ?) WHERE number = ? RETURNING value"
    return connection.execute(statement, (value, call)).fetchone()[0]


def settle_call(connection: Connection, call: int, last: list[tuple[MessageKind, bytes]]) -> OutgoingMessage | None:
    """Settle a call with its last messages, unless it is settled; return its next message to send."""
    if _end_pending(connection, call, "settled"):
        for kind, body in last:
            append_message(connection, call, kind, body)
    return next_message(connection, call)


def open_subscription(
    connection: Connection, call: int, confirmation: bytes, topic: str | None, expires_at: int
) -> OutgoingMessage | None:
    """Record that a call opened a subscription, with its confirmation; None if the call is settled."""
    if not _end_pending(connection, call, "subscribed"):
        return None
    connection.execute(
        "INSERT INTO subscriptions (call, topic, expires_at) VALUES (?, ?, ?)", (call, topic, expires_at)
    )
    return append_message(connection, call, "result", confirmation)


def _end_pending(connection: Connection, call: int, state: CallState) -> bool:
    """Move a call out of the states in which a result is pending; False if it is not in one."""
    connection.execute("DELETE FROM questions WHERE call = ?", (call,))
    updated = connection.execute(
        "UPDATE calls SET state = ?, value = NULL, changed_at = ?"
        " WHERE number = ? AND state IN ('accepted', 'started', 'asking') RETURNING number",
        (state, time.time_ns(), call),
    )
    return updated.fetchone() is not None


def cancel_calls(connection: Connection, caller: str, thread: str, call_id: str | None = None) -> list[int]:
    """Cancel one call of a caller, or all its questions and subscriptions in a thread; return the numbers of the calls.

    Subscriptions end here, and the runner stops the other calls. Without a call id, running work continues.
    """
    rows = connection.execute(
        "UPDATE calls SET is_canceled = 1 WHERE thread = :thread AND caller = :caller AND"
        " CASE WHEN :id IS NULL THEN state IN ('asking', 'subscribed') ELSE id = :id AND state <> 'settled' END"
        " RETURNING number",
        {"thread": thread, "caller": caller, "id": call_id},
    ).fetchall()
    for row in rows:
        cancel_subscription(connection, row[0])
    return [row[0] for row in rows]


def is_owned_by_other(connection: Connection, caller: str, thread: str) -> bool:
    """Return whether a thread belongs to another caller, who made the first call in it or below it."""
    row = connection.execute(
        "SELECT caller FROM calls WHERE number = (SELECT min(number) FROM"
        " (SELECT number FROM calls WHERE thread = ? UNION ALL SELECT call FROM ancestors WHERE thread = ?))",
        (thread, thread),
    ).fetchone()
    return row is not None and row[0] != caller


def unsettled_calls(connection: Connection) -> list[StoredCall]:
    """Return the calls that are not settled, in order of arrival."""
    rows = connection.execute(
        "SELECT caller, thread, id, call_id, callback_url, base_url, body, number, state, is_canceled"
        " FROM calls WHERE state <> 'settled' ORDER BY number"
    )
    return [StoredCall(*row) for row in rows]


def delete_settled_calls(connection: Connection, before: int) -> None:
    """Delete calls that were settled before a time; until then a repeated invocation is recognized."""
    deleted = connection.execute(
        "DELETE FROM calls WHERE state = 'settled' AND changed_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE call = calls.number) RETURNING number",
        (before,),
    ).fetchall()
    connection.executemany("DELETE FROM ancestors WHERE call = ?", deleted)


def append_message(connection: Connection, call: int, kind: MessageKind, body: bytes) -> OutgoingMessage | None:
    """Add a message behind the others of its call, and return the call's next message to send."""
    connection.execute(
        "INSERT INTO messages (call, kind, body, queued_at) VALUES (?, ?, ?, ?)", (call, kind, body, time.time_ns())
    )
    return next_message(connection, call)


def next_message(connection: Connection, call: int) -> OutgoingMessage | None:
    """Return the oldest message of a call."""
    return next(_messages(connection, "call = ? ORDER BY messages.number LIMIT 1", call), None)


def next_messages(connection: Connection) -> list[OutgoingMessage]:
    """Return the next message of every call that has one."""
    return list(_messages(connection, "messages.number IN (SELECT min(number) FROM messages GROUP BY call)"))


def _messages(connection: Connection, condition: str, *values: int) -> Iterator[OutgoingMessage]:
    columns = "messages.number, call, caller, kind, callback_url, messages.body, queued_at"
    query = f"SELECT {columns} FROM messages JOIN calls ON calls.number = call WHERE {condition}"  # noqa: S608 -- constants only
    return map(OutgoingMessage._make, connection.execute(query, values).fetchall())


def delete_message(connection: Connection, message: OutgoingMessage) -> OutgoingMessage | None:
    """Delete a message that needs no further delivery, and return the next one of its call."""
    connection.execute("DELETE FROM messages WHERE number = ?", (message.number,))
    following = next_message(connection, message.call)
    if following is None:
        _clear_secrets(connection, message.call)
    return following


def _clear_secrets(connection: Connection, call: int) -> None:
    """Clear the body and URLs of a settled call without messages; the rest identifies a repetition."""
    connection.execute(
        "UPDATE calls SET body = NULL, callback_url = NULL, base_url = NULL WHERE number = ? AND state = 'settled'"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE call = ?)",
        (call, call),
    )


def publish_event(
    connection: Connection,
    topic: str,
    body_for: Callable[[Subscriber], bytes],
    last_for: Callable[[Subscriber], bytes],
    *,
    final: bool,
    limit: int,
) -> tuple[list[OutgoingMessage], list[OutgoingMessage]]:
    """Store one event for every subscriber of a topic; one with `limit` waiting messages gets a final event instead.

    Returns:
        The next messages of subscribers that got the event, and of those whose subscription ended.
    """
    sent: list[OutgoingMessage] = []
    ended: list[OutgoingMessage] = []
    for each in _subscribers(connection, "topic = ? AND is_canceled = 0 ORDER BY call", topic):
        waiting = "SELECT 1 FROM messages WHERE call = ? LIMIT 1 OFFSET ?"
        is_behind = connection.execute(waiting, (each.call, limit - 1)).fetchone() is not None
        body = last_for(each) if is_behind else body_for(each)
        message = append_event(connection, each.call, body, None, final=final or is_behind)
        if message is not None:
            (ended if is_behind else sent).append(message)
    return sent, ended


def _subscribers(connection: Connection, condition: str, value: str | int) -> list[Subscriber]:
    query = "SELECT call, thread, id FROM subscriptions JOIN calls ON calls.number = call WHERE "
    return list(map(Subscriber._make, connection.execute(query + condition, (value,))))


def append_event(
    connection: Connection, call: int, body: bytes, bookmark: str | None, *, final: bool
) -> OutgoingMessage | None:
    """Store one event and its bookmark; None if the subscription has ended, so that nothing follows a final event."""
    is_active = connection.execute(
        "UPDATE subscriptions SET bookmark = coalesce(?, bookmark)"
        " WHERE call = (SELECT number FROM calls WHERE number = ? AND is_canceled = 0) RETURNING call",
        (bookmark, call),
    ).fetchone()
    if is_active is None:
        return None
    message = append_message(connection, call, "event", body)
    if final:
        _end_subscription(connection, call)
    return message


def bookmark_of(connection: Connection, call: int) -> str | None:
    """Return the bookmark of a subscription's last event."""
    row = connection.execute("SELECT bookmark FROM subscriptions WHERE call = ?", (call,)).fetchone()
    return row and row[0]


def cancel_subscription(connection: Connection, call: int) -> None:
    """End a subscription at once, and delete its unsent events."""
    connection.execute("DELETE FROM messages WHERE call = ? AND kind = 'event'", (call,))
    _end_subscription(connection, call)


def expired_subscriptions(connection: Connection, now: int) -> list[Subscriber]:
    """Return the subscriptions that have expired."""
    return _subscribers(connection, "expires_at <= ?", now)


def _end_subscription(connection: Connection, call: int) -> None:
    connection.execute("DELETE FROM subscriptions WHERE call = ?", (call,))
    connection.execute(
        "UPDATE calls SET state = 'settled', changed_at = ? WHERE number = ? AND state = 'subscribed'",
        (time.time_ns(), call),
    )
    _clear_secrets(connection, call)


class NewQuestion(NamedTuple):
    """A question of a tool to its user.

    Attributes:
        number: of the question within its call. A function that runs again after a crash asks in the same order.
        token: the digest of the token that an answer must present.
        secret: private data of the question, such as a code verifier.
        choices: how many there are; 0 for an authorization.
        limit_s: how long the user may take.
    """

    number: int
    token: str
    secret: str | None
    choices: int
    limit_s: float
    body: bytes


class QuestionState(NamedTuple):
    """The state of a question.

    Attributes:
        answer: as JSON; None while it is open.
        expires_at: until when the answer is awaited.
        is_last: whether it is the last question of its call, so that the work continues from it.
    """

    answer: str | None
    expires_at: int
    is_last: bool


class OpenQuestion(NamedTuple):
    """An open question, found by the token of its answer."""

    call: int
    number: int
    id: str
    secret: str | None
    choices: int


def ask_question(connection: Connection, call: int, question: NewQuestion) -> QuestionState:
    """Store a question and its message, unless it was asked before; an open one makes the call `asking`."""
    state = find_question(connection, call, question.number)
    if state is None:
        expires_at = time.time_ns() + int(question.limit_s * 1e9)
        connection.execute(
            "INSERT INTO questions (call, number, token, secret, choices, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
            (call, *question[:-2], expires_at),
        )
        append_message(connection, call, "question", question.body)
        state = QuestionState(answer=None, expires_at=expires_at, is_last=True)
    if state.answer is None:
        connection.execute(
            "UPDATE calls SET state = 'asking' WHERE number = ? AND state IN ('accepted', 'started')", (call,)
        )
    return state


def find_question(connection: Connection, call: int, number: int) -> QuestionState | None:
    """Return a question that was asked before."""
    row = connection.execute(
        "SELECT answer, expires_at, number = (SELECT max(number) FROM questions WHERE call = ?)"
        " FROM questions WHERE call = ? AND number = ?",
        (call, call, number),
    ).fetchone()
    return row and QuestionState(*row)


def find_open_question(connection: Connection, token: str, now: int) -> OpenQuestion | None:
    """Return the question of a token; None if it is answered, expired or unknown."""
    row = connection.execute(
        "SELECT call, questions.number, id, secret, choices FROM questions JOIN calls ON calls.number = call"
        " WHERE token = ? AND answer IS NULL AND expires_at > ? AND is_canceled = 0",
        (token, now),
    ).fetchone()
    return row and OpenQuestion(*row)


def store_answer(connection: Connection, call: int, answer: str, number: int | None = None) -> list[int]:
    """Store the answer to one open question of a call, or to all; return the numbers of those that it answered."""
    rows = connection.execute(
        "UPDATE questions SET answer = ?, secret = NULL"
        " WHERE call = ? AND number = coalesce(?, number) AND answer IS NULL RETURNING number",
        (answer, call, number),
    )
    return [row[0] for row in rows.fetchall()]


def store_grant(connection: Connection, client: str, user_id: str, tokens: bytes) -> None:
    """Store a user's tokens in place of the previous ones."""
    connection.execute(
        "INSERT INTO grants VALUES (?, ?, ?) ON CONFLICT (client, user_id) DO UPDATE SET tokens = excluded.tokens",
        (client, user_id, tokens),
    )


def find_grant(connection: Connection, client: str, user_id: str) -> bytes | None:
    """Return a user's tokens; None if there are none."""
    row = connection.execute("SELECT tokens FROM grants WHERE client = ? AND user_id = ?", (client, user_id)).fetchone()
    return row and row[0]


def delete_grant(connection: Connection, client: str, user_id: str) -> None:
    """Delete a user's tokens."""
    connection.execute("DELETE FROM grants WHERE client = ? AND user_id = ?", (client, user_id))


def claim_nonce(connection: Connection, nonce: str, expires_at: int) -> bool:
    """Store the nonce of a request; False if it is stored already."""
    row = connection.execute(
        "INSERT INTO nonces VALUES (?, ?) ON CONFLICT (nonce) DO NOTHING RETURNING nonce", (nonce, expires_at)
    ).fetchone()
    return row is not None


def delete_expired_nonces(connection: Connection, now: int) -> None:
    """Delete nonces whose requests are too old to be admitted."""
    connection.execute("DELETE FROM nonces WHERE expires_at < ?", (now,))
