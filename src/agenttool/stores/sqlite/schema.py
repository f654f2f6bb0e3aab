"""The tables of the journal, and the check that a file has exactly these."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agenttool.errors import ConfigError
from agenttool.stores.sqlite.connect import (
    RESTORE,
    UNREADABLE,
    StoreBusy,
    advice_on,
    create_private_file,
    open_connection,
    transaction,
)

APPLICATION_ID = 0x41677454
"""Identifies the files of this package: `AgtT`."""

Shape: TypeAlias = dict[tuple[str, str], tuple[str, bytes | None]]
"""Everything in a schema by kind and name: the table it belongs to, and its SQL."""

VERSION = 9
"""The version of the schema. A file of another version is rejected; versions 1 to 7 were never released."""

_SCHEMA = (
    # Facts of one commit share a row, with the position of the last of them. A row behind the stored head is unindexed
    # and has the owner of its open call.
    "CREATE TABLE facts (last INTEGER PRIMARY KEY, hash BLOB NOT NULL, lines BLOB NOT NULL, owner TEXT)",
    # Which rows have facts of a call.
    """CREATE TABLE facts_of_call (invocation_id TEXT NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (invocation_id, last)) WITHOUT ROWID""",
    # The newest indexed position of the chain, to detect rows that were cut from its end. There is always one row.
    "CREATE TABLE heads (number INTEGER PRIMARY KEY CHECK (number = 1), position INTEGER NOT NULL, hash BLOB NOT NULL)",
    # Where the chain begins, and after each retention where it continues. The newest row counts.
    "CREATE TABLE anchors (position INTEGER PRIMARY KEY, hash BLOB NOT NULL, deleted_before_ns INTEGER NOT NULL)",
    # Leases by the wall clock and by a monotonic clock, and the start of that clock.
    """CREATE TABLE processes (owner TEXT PRIMARY KEY, alive_until_ns INTEGER NOT NULL, since TEXT NOT NULL,
        steady_until_ns INTEGER NOT NULL) WITHOUT ROWID""",
    # Calls without a checkpoint that started in one commit, as a JSON list.
    """CREATE TABLE started_calls (owner TEXT NOT NULL, number INTEGER NOT NULL, calls TEXT NOT NULL,
        PRIMARY KEY (owner, number)) WITHOUT ROWID""",
    """CREATE TABLE open_calls (invocation_id TEXT PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL,
        approval_id TEXT, expires_at_ns INTEGER, due_at_ns INTEGER, owner TEXT) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX open_questions ON open_calls (approval_id) WHERE approval_id IS NOT NULL",
    "CREATE INDEX open_work ON open_calls (invocation_id) WHERE approval_id IS NULL",
    "CREATE INDEX open_due ON open_calls (due_at_ns) WHERE due_at_ns IS NOT NULL",
    """CREATE TABLE answers (number INTEGER PRIMARY KEY AUTOINCREMENT, approval_id TEXT NOT NULL UNIQUE,
        at_ns INTEGER NOT NULL, body BLOB)""",
    "CREATE INDEX open_answers ON answers (approval_id) WHERE body IS NOT NULL",
    # An edited input may contain secrets: the body of an answer is deleted once its call continues or ends.
    """CREATE TRIGGER call_continued AFTER UPDATE OF approval_id ON open_calls
        WHEN old.approval_id IS NOT NULL AND old.approval_id IS NOT new.approval_id
        BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
    """CREATE TRIGGER call_ended AFTER DELETE ON open_calls WHEN old.approval_id IS NOT NULL
        BEGIN UPDATE answers SET body = NULL WHERE approval_id = old.approval_id; END""",
    # The calls that were started under an id or a key of the caller's choice, each with the process that did so.
    """CREATE TABLE call_keys (key TEXT PRIMARY KEY, invocation_id TEXT NOT NULL, owner TEXT NOT NULL,
    request BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX keyed_calls ON call_keys (invocation_id)",
    "CREATE TABLE documents (kind TEXT, key TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
    # A random first hash distinguishes the chains of two logs.
    "INSERT INTO anchors VALUES (0, randomblob(32), 0)",
    "INSERT INTO heads SELECT 1, position, hash FROM anchors",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


def create_store(path: Path, on_create: Callable[[bytes], None] | None = None) -> None:
    """Create the file with its tables, readable by its owner only, or check an existing one.

    `on_create` is called with the first hash of a new file, before other processes can see it.

    Raises:
        ConfigError: there is no such folder, or the file is not a usable store.
    """
    try:
        create_private_file(path)
        with closing(open_connection(path)) as connection:
            is_new = is_empty(connection, str(path))  # before anything is changed
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if is_new:
                _create_tables(connection, path, on_create)
            refuse_misshapen(connection, str(path))
    except OSError as error:
        raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; make its folder first") from error
    except (StoreBusy, *UNREADABLE) as error:
        raise ConfigError(
            f"cannot use {str(path)!r} as a store: {error}; {advice_on(error, path, 'give it another file')}"
        ) from error
    if mode != "wal":
        raise ConfigError(f"the file system of {str(path)!r} does not support a write-ahead log; use a local disk")


def _create_tables(
    connection: sqlite3.Connection, path: Path, on_create: Callable[[bytes], None] | None = None
) -> None:
    """Create the tables in a new file, all of them or none, unless another process was faster."""
    with transaction(connection, path):
        if not is_empty(connection, str(path)):
            return
        for statement in _SCHEMA:
            connection.execute(statement)
        if on_create is not None:
            on_create(connection.execute("SELECT hash FROM anchors").fetchone()[0])


def is_empty(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a file is new, without changing anything; any other file has the schema of this version.

    Raises:
        ConfigError: the file belongs to another program, or to another version of agenttool.
    """
    # One statement, and so one moment: another process may be creating the tables right now.
    query = (
        "SELECT (SELECT count(*) FROM sqlite_master), application_id, user_version"
        " FROM pragma_application_id, pragma_user_version"
    )
    tables, application, version = connection.execute(query).fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise ConfigError(f"{name} is a database of something else; give the store a file of its own")
    if application == APPLICATION_ID and version != VERSION:
        raise ConfigError(
            f"{name} was written by another version of agenttool (schema {version}, this one has {VERSION});"
            " use that version, or name a new file"
        )
    return not application


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
        _create_tables(fresh, Path(":memory:"))
        return _shape_of(fresh)
