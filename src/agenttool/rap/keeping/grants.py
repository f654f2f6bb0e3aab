"""What users granted: tokens by OAuth client and user."""

import sqlite3


def keep(connection: sqlite3.Connection, client: str, user_id: str, tokens: bytes) -> None:
    """Keep a user's tokens in place of those before."""
    connection.execute(
        "INSERT INTO grants VALUES (?, ?, ?) ON CONFLICT (client, user_id) DO UPDATE SET tokens = excluded.tokens",
        (client, user_id, tokens),
    )


def find(connection: sqlite3.Connection, client: str, user_id: str) -> bytes | None:
    """Give a user's tokens; none if there are none."""
    row = connection.execute("SELECT tokens FROM grants WHERE client = ? AND user_id = ?", (client, user_id)).fetchone()
    return None if row is None else row[0]


def drop(connection: sqlite3.Connection, client: str, user_id: str) -> None:
    """Let go of a user's tokens."""
    connection.execute("DELETE FROM grants WHERE client = ? AND user_id = ?", (client, user_id))
