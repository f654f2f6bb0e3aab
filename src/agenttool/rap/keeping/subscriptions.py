"""Subscriptions that are active: an event, its bookmark and its message are kept together or not at all."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from agenttool.rap.keeping import messages
from agenttool.rap.keeping.messages import Kind, Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Whom an event is for."""

    call: int
    thread: str
    id: str


def of_topic(connection: sqlite3.Connection, topic: str) -> list[Subscriber]:
    """List everybody who is subscribed to a topic."""
    rows = connection.execute(
        "SELECT call, thread, id FROM subscriptions JOIN calls ON calls.number = call"
        " WHERE topic = ? AND is_canceled = 0 ORDER BY call",
        (topic,),
    )
    return [Subscriber(call=call, thread=thread, id=call_id) for call, thread, call_id in rows]


def publish(
    connection: sqlite3.Connection,
    topic: str,
    body_for: Callable[[Subscriber], bytes],
    last_for: Callable[[Subscriber], bytes],
    *,
    final: bool,
    most: int,
) -> tuple[list[Outgoing], list[Outgoing]]:
    """Keep one event for everybody who is subscribed to a topic; who has not taken so many is told the last instead.

    Gives what is to go next, to those who got the event, and to those whose subscription has ended with it.
    """
    sent: list[Outgoing] = []
    ended: list[Outgoing] = []
    for each in of_topic(connection, topic):
        is_behind = messages.count(connection, each.call, most) >= most
        body = last_for(each) if is_behind else body_for(each)
        message = emit(connection, each.call, body, None, final=final or is_behind)
        if message is not None:
            (ended if is_behind else sent).append(message)
    return sent, ended


def bookmark_of(connection: sqlite3.Connection, call: int) -> str | None:
    """Give where the last event of a subscription left off."""
    row = connection.execute("SELECT bookmark FROM subscriptions WHERE call = ?", (call,)).fetchone()
    return None if row is None else row[0]


def emit(
    connection: sqlite3.Connection, call: int, body: bytes, bookmark: str | None, *, final: bool
) -> Outgoing | None:
    """Keep one event of an active subscription; none if it ended, so that nothing follows a final event."""
    is_active = connection.execute(
        "UPDATE subscriptions SET bookmark = coalesce(?, bookmark)"
        " WHERE call = (SELECT number FROM calls WHERE number = ? AND is_canceled = 0) RETURNING call",
        (bookmark, call),
    ).fetchone()
    if is_active is None:
        return None
    messages.put(connection, call, Kind.EVENT, body)
    if final:
        _end(connection, call)
    return messages.next_of(connection, call)


def cancel(connection: sqlite3.Connection, call: int) -> None:
    """End a subscription at once: events that were not sent yet are not sent any more."""
    messages.withdraw(connection, call, Kind.EVENT)
    _end(connection, call)


def expired(connection: sqlite3.Connection, now: int) -> list[Subscriber]:
    """List the subscriptions whose time is over."""
    rows = connection.execute(
        "SELECT call, thread, id FROM subscriptions JOIN calls ON calls.number = call WHERE expires_at <= ?", (now,)
    )
    return [Subscriber(call=call, thread=thread, id=call_id) for call, thread, call_id in rows]


def _end(connection: sqlite3.Connection, call: int) -> None:
    connection.execute("DELETE FROM subscriptions WHERE call = ?", (call,))
    connection.execute(
        "UPDATE calls SET state = 'settled', changed_at = ? WHERE number = ? AND state = 'subscribed'",
        (time.time_ns(), call),
    )
    messages.forget_if_told(connection, call)
