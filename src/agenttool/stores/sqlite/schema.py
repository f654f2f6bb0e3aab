"""The tables of the journal, and the numbered migrations by which an older file becomes a current one."""

import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agenttool.errors import ConfigError
from agenttool.stores.sqlite.connect import RESTORE, UNREADABLE, advice_on, create_private_file, open_connection

APPLICATION_ID = 0x41677454
"""Identifies the files of this package: `AgtT`."""

Shape: TypeAlias = dict[tuple[str, str], tuple[str, bytes | None]]
"""Everything in a schema by kind and name: the table it belongs to, and its SQL."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # The text is the evidence; the call beside it is only an index.
        "CREATE TABLE facts (position INTEGER PRIMARY KEY, invocation_id TEXT, hash BLOB NOT NULL, told BLOB NOT NULL)",
        "CREATE INDEX facts_of_call ON facts (invocation_id) WHERE invocation_id IS NOT NULL",
        # Where the chain begins, and after each retention where it continues. The newest row counts.
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
        # An edited input may contain secrets: the body of an answer is deleted once its call continues or ends.
        """CREATE TRIGGER call_went_on AFTER UPDATE OF approval_id ON open_calls
            WHEN old.approval_id IS NOT NULL AND old.approval_id IS NOT new.approval_id
            BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
        """CREATE TRIGGER call_ended AFTER DELETE ON open_calls WHEN old.approval_id IS NOT NULL
            BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
        # A random first hash distinguishes the chains of two logs.
        "INSERT INTO anchors VALUES (0, :first_hash, 0)",
    ),
    (
        # A call may be due long before it is too late to answer it.
        "ALTER TABLE open_calls ADD COLUMN due_at_ns INTEGER",
        "UPDATE open_calls SET due_at_ns = expires_at_ns",
        "DROP INDEX open_until",
        "CREATE INDEX open_due ON open_calls (due_at_ns) WHERE due_at_ns IS NOT NULL",
        "CREATE TABLE shelf (kind TEXT, key TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
    ),
    (
        # Facts that are committed together make one row, with the position of the last. Older rows have a single fact
        # and keep their hash, so that a pinned head stays valid.
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
        # Calls without a checkpoint that started in one commit, as a JSON list.
        """CREATE TABLE begun (owner TEXT NOT NULL, number INTEGER NOT NULL, calls TEXT NOT NULL,
            PRIMARY KEY (owner, number)) WITHOUT ROWID""",
    ),
    (
        # The lease by a monotonic clock, and the start of that clock.
        "ALTER TABLE owners ADD COLUMN since TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE owners ADD COLUMN steady_until_ns INTEGER NOT NULL DEFAULT 0",
    ),
    (
        # The newest indexed position of the chain, to detect rows that were cut from its end.
        """CREATE TABLE heads (number INTEGER PRIMARY KEY CHECK (number = 1), position INTEGER NOT NULL,
            hash BLOB NOT NULL)""",
    ),
    (
        # Rows behind the stored head are unindexed; such a row has the owner of its open call. Older rows are indexed.
        "ALTER TABLE facts ADD COLUMN holder TEXT",
        """REPLACE INTO heads SELECT 1, last, hash FROM facts WHERE last >= coalesce((SELECT position FROM heads), 0)
            ORDER BY last DESC LIMIT 1""",
        # An older process that still has the file open would store the head without indexing rows, and lose calls. All
        # it writes begins with this table, so after the rename it fails.
        "ALTER TABLE owners RENAME TO processes",
    ),
)


def create_store(path: Path) -> None:
    """Create the file, readable by its owner only, or migrate an older one; completely or not at all.

    Raises:
        ConfigError: there is no such folder, or the file is not a usable store.
    """
    try:
        create_private_file(path)
        with closing(open_connection(path)) as connection:
            check_version(connection, str(path))  # before anything is changed
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            migrate(connection, str(path))
            refuse_misshapen(connection, str(path))
    except OSError as error:
        raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; make its folder first") from error
    except UNREADABLE as error:
        raise ConfigError(
            f"cannot use {str(path)!r} as a store: {error}; {advice_on(error, path, 'give it another file')}"
        ) from error
    if mode != "wal":
        raise ConfigError(f"the file system of {str(path)!r} does not support a write-ahead log; use a local disk")


def migrate(connection: sqlite3.Connection, name: str, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Migrate a file to the newest schema in one transaction, or leave it as it was.

    Raises:
        ConfigError: the file belongs to another program, or to a newer agenttool.
    """
    if check_version(connection, name, newest=len(migrations)) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again: another process may have migrated it while we waited for the lock.
        for migration in migrations[check_version(connection, name, newest=len(migrations)) :]:
            for statement in migration:
                values = {"first_hash": secrets.token_bytes(32)} if ":first_hash" in statement else {}
                connection.execute(statement, values)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, name: str, *, newest: int = len(MIGRATIONS)) -> int:
    """Return the schema version of a file, 0 if it is new, without changing anything.

    Raises:
        ConfigError: the file belongs to another program, or to a newer agenttool.
    """
    # All in one transaction: another process may be creating the file right now.
    is_alone = not connection.in_transaction
    if is_alone:
        connection.execute("BEGIN")
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    finally:
        if is_alone:
            connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (application or version or tables):
        raise ConfigError(f"{name} is a database of something else; give the store a file of its own")
    if version > newest:
        raise ConfigError(
            f"{name} was written by a newer agenttool (schema {version}, this one knows {newest}); upgrade agenttool"
        )
    return version


def refuse_misshapen(connection: sqlite3.Connection, name: str) -> None:
    """Reject a file whose schema lacks something, was changed, or has additions that act on our tables.

    Raises:
        ConfigError: the first difference.
    """
    for what in (*missing(connection), *misshapen(connection)):
        raise ConfigError(f"{name} is not as agenttool made it: {what}; {RESTORE}")


def missing(connection: sqlite3.Connection) -> list[str]:
    """Return what the schema of a file lacks."""
    lacking = _current_shape().keys() - _shape_of(connection).keys()
    return [f"the {kind} {name!r} is missing" for kind, name in sorted(lacking)]


def misshapen(connection: sqlite3.Connection) -> list[str]:
    """Return what was changed in the schema, or added so that it acts on our tables; other tables do no harm."""
    ours, found = _current_shape(), _shape_of(connection)
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
def _current_shape() -> Shape:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, "a new file")
        return _shape_of(fresh)
