"""The tables, and the numbered steps by which an older file becomes one of today."""

import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from typing import TypeAlias

from agenttool.errors import ConfigError

APPLICATION_ID = 0x41677454
"""Tells our files from those of others: `AgtT`."""

RESTORE = "put the newest backup in its place, after taking away what lies beside it as -wal and -shm"
"""What helps if a file is spoiled. A write-ahead log that is left would be written into the backup, and spoil that."""

Shape: TypeAlias = dict[tuple[str, str], tuple[str, bytes | None]]
"""Everything that a schema holds by kind and name: the table it is about, and how it was made."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # The told fact is the evidence; its call stands beside it only to be found by.
        "CREATE TABLE facts (position INTEGER PRIMARY KEY, invocation_id TEXT, hash BLOB NOT NULL, told BLOB NOT NULL)",
        "CREATE INDEX facts_of_call ON facts (invocation_id) WHERE invocation_id IS NOT NULL",
        # Where the chain begins, and after each retention where it goes on from. The newest row counts.
        "CREATE TABLE anchors (position INTEGER PRIMARY KEY, hash BLOB NOT NULL, let_go_before_ns INTEGER NOT NULL)",
        "CREATE TABLE owners (owner TEXT PRIMARY KEY, alive_until_ns INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TABLE open_calls (invocation_id TEXT PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL,
            approval_id TEXT, expires_at_ns INTEGER, owner TEXT) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX open_questions ON open_calls (approval_id) WHERE approval_id IS NOT NULL",
        "CREATE INDEX open_work ON open_calls (invocation_id) WHERE approval_id IS NULL",
        "CREATE INDEX open_until ON open_calls (expires_at_ns) WHERE expires_at_ns IS NOT NULL",
        """CREATE TABLE answers (number INTEGER PRIMARY KEY AUTOINCREMENT, approval_id TEXT NOT NULL UNIQUE,
            at_ns INTEGER NOT NULL, body BLOB)""",
        "CREATE INDEX open_answers ON answers (approval_id) WHERE body IS NOT NULL",
        # An edited input may hold secrets: an answer is emptied once its call goes on or ends. That it was given stays.
        """CREATE TRIGGER call_went_on AFTER UPDATE OF approval_id ON open_calls
            WHEN old.approval_id IS NOT NULL AND old.approval_id IS NOT new.approval_id
            BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
        """CREATE TRIGGER call_ended AFTER DELETE ON open_calls WHEN old.approval_id IS NOT NULL
            BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
        # A beginning of its own keeps the chain of one log from passing for another's.
        "INSERT INTO anchors VALUES (0, :beginning, 0)",
    ),
    (
        # There may be something to do for a call long before it is too late to answer it.
        "ALTER TABLE open_calls ADD COLUMN due_at_ns INTEGER",
        "UPDATE open_calls SET due_at_ns = expires_at_ns",
        "DROP INDEX open_until",
        "CREATE INDEX open_due ON open_calls (due_at_ns) WHERE due_at_ns IS NOT NULL",
        "CREATE TABLE shelf (kind TEXT, key TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
    ),
    (
        # Facts that are written together make one row, named by the position of the last; each row of before is one of
        # a single fact, and its hash stays what it was, so a head that was kept elsewhere is still good.
        "DROP INDEX facts_of_call",
        "ALTER TABLE facts RENAME TO single_facts",
        "CREATE TABLE facts (last INTEGER PRIMARY KEY, hash BLOB NOT NULL, told BLOB NOT NULL)",
        "INSERT INTO facts SELECT position, hash, told FROM single_facts ORDER BY position",
        # Which rows have facts of a call.
        """CREATE TABLE facts_of_call (invocation_id TEXT NOT NULL, last INTEGER NOT NULL,
            PRIMARY KEY (invocation_id, last)) WITHOUT ROWID""",
        """INSERT INTO facts_of_call SELECT invocation_id, position FROM single_facts
            WHERE invocation_id IS NOT NULL ORDER BY invocation_id, position""",
        "DROP TABLE single_facts",
        # Calls that began together, as JSON; before, each had a row among the open calls.
        """CREATE TABLE begun (owner TEXT NOT NULL, number INTEGER NOT NULL, calls TEXT NOT NULL,
            PRIMARY KEY (owner, number)) WITHOUT ROWID""",
    ),
    (
        # Until when an owner is alive, told by a clock that nobody sets, and since when that one counts.
        "ALTER TABLE owners ADD COLUMN since TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE owners ADD COLUMN steady_until_ns INTEGER NOT NULL DEFAULT 0",
    ),
    (
        # How far the chain had come when somebody said last that they live, or left: what is cut from its end shows.
        """CREATE TABLE heads (number INTEGER PRIMARY KEY CHECK (number = 1), position INTEGER NOT NULL,
            hash BLOB NOT NULL)""",
    ),
    (
        # Facts of few callers are not in the index, and their calls not among those begun, until the head is kept: a
        # row says who has its call in hand. All facts of before are in the index.
        "ALTER TABLE facts ADD COLUMN holder TEXT",
        """REPLACE INTO heads SELECT 1, last, hash FROM facts WHERE last >= coalesce((SELECT position FROM heads), 0)
            ORDER BY last DESC LIMIT 1""",
        # A process of before that still has the file open would keep the head whenever it says that it lives, and bind
        # nothing: it would lose the calls of others. Whatever it writes begins with this table, so it writes no more.
        "ALTER TABLE owners RENAME TO processes",
    ),
)


def migrate(connection: sqlite3.Connection, name: str, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring a file to the newest schema in one transaction, or leave it as it was.

    Raises:
        ConfigError: the file is somebody else's, or of a newer agenttool.
    """
    if check_version(connection, name, newest=len(migrations)) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have done it while we waited for the lock.
        for step in migrations[check_version(connection, name, newest=len(migrations)) :]:
            for statement in step:
                values = {"beginning": secrets.token_bytes(32)} if ":beginning" in statement else {}
                connection.execute(statement, values)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, name: str, *, newest: int = len(MIGRATIONS)) -> int:
    """Give the number of the schema that a file has, 0 if it is new, without changing anything.

    Raises:
        ConfigError: the file is somebody else's, or of a newer agenttool.
    """
    # All of one moment: another process may be making the file right now.
    looks_alone = not connection.in_transaction
    if looks_alone:
        connection.execute("BEGIN")
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    finally:
        if looks_alone:
            connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (application or version or tables):
        raise ConfigError(f"{name} is a database of something else; give the store a file of its own")
    if version > newest:
        raise ConfigError(
            f"{name} was written by a newer agenttool (schema {version}, this one knows {newest}); upgrade agenttool"
        )
    return version


def refuse_misshapen(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a file that says it is of today and lacks what today's has, or does more than ours would.

    Raises:
        ConfigError: something is missing, is not as it was made, or was added to our tables.
    """
    for what in (*missing(connection), *misshapen(connection)):
        raise ConfigError(f"{name} is not as agenttool made it: {what}; {RESTORE}")


def missing(connection: sqlite3.Connection) -> list[str]:
    """Tell what a file of today lacks."""
    gone = _shape_of_today().keys() - _shape_of(connection).keys()
    return [f"the {kind} {name!r} is missing" for kind, name in sorted(gone)]


def misshapen(connection: sqlite3.Connection) -> list[str]:
    """Tell what is not as it was made, and what was added that acts on our tables; tables of others do no harm."""
    ours, found = _shape_of_today(), _shape_of(connection)
    tables = {table for table, _ in ours.values()}
    changed = [each for each in ours.keys() & found.keys() if ours[each] != found[each]]
    added = [each for each in found.keys() - ours.keys() if each[0] == "trigger" or found[each][0] in tables]
    return [
        *(f"the {kind} {name!r} was changed" for kind, name in sorted(changed)),
        *(f"the {kind} {name!r} was added" for kind, name in sorted(added)),
    ]


def _shape_of(connection: sqlite3.Connection) -> Shape:
    found = connection.execute("SELECT type, name, tbl_name, CAST(sql AS BLOB) FROM sqlite_master").fetchall()
    return {(kind, name): (table, made) for kind, name, table, made in found}


@cache
def _shape_of_today() -> Shape:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, "a new file")
        return _shape_of(fresh)
