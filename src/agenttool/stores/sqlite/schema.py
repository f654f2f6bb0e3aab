"""The tables of the journal, made by numbered migrations, and the check that a file has exactly these.

A new file is made by the same statements that upgrade an old one, so both have the same tables.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from itertools import chain
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
    reading,
    transaction,
)

APPLICATION_ID = 0x41677454
"""Identifies the files of this package: `AgtT`."""

Shape: TypeAlias = dict[tuple[str, str], tuple[str, bytes | None]]
"""Everything in a schema by kind and name: the table it belongs to, and its SQL."""

LARGE_BYTES = 1 << 30
"""The size from which only a command upgrades a file: a server that starts would not answer meanwhile."""

_FIRST = 9
_FIRST_SCHEMA = (
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
)

_MIGRATIONS: dict[int, tuple[str, ...]] = {
    _FIRST: _FIRST_SCHEMA,
    10: (
        # Which program gave the file each version of its schema, for the message of an older program.
        "CREATE TABLE upgrades (version INTEGER PRIMARY KEY, at_s INTEGER NOT NULL, program TEXT NOT NULL)",
        # Answers that no process has used have another form, and the journal has the digest of the old one. So their
        # questions are asked again; results of remote sides are not touched.
        "DELETE FROM answers WHERE body IS NOT NULL AND substr(approval_id, 1, 4) = 'apr_'",
        # The suggestions of a question have another name.
        """UPDATE open_calls SET body = CAST(json_remove(json_set(CAST(body AS TEXT), '$.question.suggestions',
            json_extract(CAST(body AS TEXT), '$.question.suggested_updates')), '$.question.suggested_updates') AS BLOB)
            WHERE CASE WHEN json_valid(CAST(body AS TEXT))
            THEN json_type(CAST(body AS TEXT), '$.question.suggested_updates') END IS NOT NULL""",
    ),
}
"""The statements that make each version of the schema from the version before; released ones never change."""

VERSION = max(_MIGRATIONS)
"""The version of the schema. Older files are upgraded, newer ones and those before the first are rejected."""

_RUNNING = "SELECT owner FROM processes WHERE alive_until_ns / 1000000000 > unixepoch()"


def create_store(path: Path, on_create: Callable[[bytes], None] | None = None) -> None:
    """Create the file with its tables, readable by its owner only, or check an existing one.

    `on_create` is called with the first hash of a new file, before other processes can see it.

    Raises:
        ConfigError: there is no such folder, or the file is not a usable store.
    """
    try:
        create_private_file(path)
        with closing(open_connection(path)) as connection:
            version = version_of(connection, str(path))  # before anything is changed
            if not version:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # possible only before the first page is written
            elif version < VERSION and path.stat().st_size >= LARGE_BYTES:
                raise ConfigError(_outdated(str(path), version))
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if version < VERSION:
                _migrate(connection, path, on_create)
            refuse_misshapen(connection, str(path))
    except OSError as error:
        raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; make its folder first") from error
    except (StoreBusy, *UNREADABLE) as error:
        raise ConfigError(
            f"cannot use {str(path)!r} as a store: {error}; {advice_on(error, path, 'give it another file')}"
        ) from error
    if mode != "wal":
        raise ConfigError(f"the file system of {str(path)!r} does not support a write-ahead log; use a local disk")


def upgrade_store(path: Path) -> tuple[int, int]:
    """Give a file the tables of this version; return its version before and after.

    Raises:
        ConfigError: it is not a store, a newer program wrote it, or another process uses it.
        StoreError: it cannot be read or written; then it is as it was.
    """
    with reading(path), closing(open_connection(path)) as connection:
        version = version_of(connection, str(path))
        if 0 < version < VERSION:
            _migrate(connection, path)
        return version, version and VERSION


def _migrate(connection: sqlite3.Connection, path: Path, on_create: Callable[[bytes], None] | None = None) -> None:
    """Run the migrations that a file lacks in one transaction; do nothing if another process has done so."""
    from importlib import metadata  # noqa: PLC0415 -- slow to load, and most files are current

    with transaction(connection, path):
        version = version_of(connection, str(path))
        if version and (running := connection.execute(_RUNNING).fetchone()):
            raise ConfigError(
                f"{str(path)!r} has schema {version} and needs {VERSION}, and process {running[0].partition('#')[0]}"
                " uses it; stop that process, and try again"
            )
        program = f"agenttool {metadata.version('agenttool')}"
        for number in range(version + 1 if version else _FIRST, VERSION + 1):
            for statement in _MIGRATIONS[number]:
                connection.execute(statement)
            if number > _FIRST:
                connection.execute("INSERT INTO upgrades VALUES (?, unixepoch(), ?)", (number, program))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        if not version and on_create is not None:
            on_create(connection.execute("SELECT hash FROM anchors").fetchone()[0])


def version_of(connection: sqlite3.Connection, name: str) -> int:
    """Return the version of the schema of a file, 0 if the file is new, without changing anything.

    Raises:
        ConfigError: the file belongs to another program, or to a version of agenttool that this one cannot read.
    """
    # One statement, and so one moment: another process may be creating the tables right now.
    query = (
        "SELECT (SELECT count(*) FROM sqlite_master), application_id, user_version"
        " FROM pragma_application_id, pragma_user_version"
    )
    tables, application, version = connection.execute(query).fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise ConfigError(f"{name} is a database of something else; give the store a file of its own")
    if application == APPLICATION_ID and version > VERSION:
        (program,) = connection.execute("SELECT program FROM upgrades ORDER BY version DESC LIMIT 1").fetchone()
        raise ConfigError(
            f"{name} was written by {program} (schema {version}, this one has {VERSION});"
            " use that version or a newer one, or name another file"
        )
    if application == APPLICATION_ID and version < _FIRST:
        raise ConfigError(f"{name} has schema {version} of a version that was never released; name another file")
    return version


def require_current(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a file has the schema of this version; one that is new does not.

    Raises:
        ConfigError: the file is no store, or has another version.
    """
    version = version_of(connection, name)
    if 0 < version < VERSION:
        raise ConfigError(_outdated(name, version))
    return version == VERSION


def _outdated(name: str, version: int) -> str:
    return (
        f"{name} has schema {version} of an older agenttool, and this one has {VERSION};"
        f" upgrade it with: agenttool store upgrade --store {name}"
    )


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
        for statement in chain.from_iterable(_MIGRATIONS.values()):
            fresh.execute(statement)
        return _shape_of(fresh)
