"""Words of requests that are taken once: a replay is known as one after a restart, too."""

import sqlite3


def take(connection: sqlite3.Connection, word: str, until: int) -> bool:
    """Keep a word for a while; false if it is there already."""
    row = connection.execute(
        "INSERT INTO once VALUES (?, ?) ON CONFLICT (word) DO NOTHING RETURNING word", (word, until)
    ).fetchone()
    return row is not None


def forget(connection: sqlite3.Connection, now: int) -> None:
    """Let go of words whose requests are too old by now to be taken at all."""
    connection.execute("DELETE FROM once WHERE until < ?", (now,))
