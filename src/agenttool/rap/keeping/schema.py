"""The tables of a provider's file, and who may use it: one process at a time, its owner only."""

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import IO

from agenttool.errors import ConfigError

_OURS = 0x52415031  # "RAP1"
_VERSION = 1
_TABLES = """
CREATE TABLE calls (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    caller TEXT NOT NULL,
    thread TEXT NOT NULL,
    id TEXT NOT NULL,
    call_id TEXT,
    callback_url TEXT,
    base_url TEXT,
    body BLOB,
    state TEXT NOT NULL,
    is_canceled INTEGER NOT NULL DEFAULT 0,
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX calls_by_name ON calls (thread, id);
CREATE INDEX calls_open ON calls (number) WHERE state <> 'settled';
CREATE INDEX calls_by_age ON calls (changed_at) WHERE state = 'settled';

CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    call INTEGER NOT NULL REFERENCES calls (number),
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    put_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_by_call ON messages (call, number);

CREATE TABLE questions (
    call INTEGER NOT NULL REFERENCES calls (number),
    place INTEGER NOT NULL,
    token TEXT NOT NULL UNIQUE,
    secret TEXT,
    choices INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer TEXT,
    PRIMARY KEY (call, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscriptions (
    call INTEGER PRIMARY KEY REFERENCES calls (number),
    topic TEXT,
    bookmark TEXT,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX subscriptions_by_topic ON subscriptions (topic);

CREATE TABLE grants (
    client TEXT NOT NULL,
    user_id TEXT NOT NULL,
    tokens BLOB NOT NULL,
    PRIMARY KEY (client, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO facts VALUES ('file', lower(hex(randomblob(8))));
"""

_ADDED = """
CREATE TABLE IF NOT EXISTS once (word TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS once_by_age ON once (until);

CREATE TABLE IF NOT EXISTS ancestors (
    thread TEXT NOT NULL,
    call INTEGER NOT NULL REFERENCES calls (number),
    PRIMARY KEY (thread, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ancestors_by_call ON ancestors (call);
"""
"""Tables that a file of the same version may lack: nothing that is in the others depends on them."""


def open_file(path: Path) -> tuple[sqlite3.Connection, IO[bytes]]:
    """Open a provider's file, or make it; what is given besides holds the lock until it is closed.

    Raises:
        ConfigError: it cannot be used, or another process uses it.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        lock = _locked(path)
    except OSError as error:
        raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; make its folder first") from error
    try:
        return _connect(path), lock
    except sqlite3.Error as error:
        lock.close()
        raise ConfigError(f"cannot use {str(path)!r} as a store: {error}; give it another file") from error
    except ConfigError:
        lock.close()
        raise


def _locked(path: Path) -> IO[bytes]:
    lock = path.with_name(path.name + ".lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(f"another provider uses {str(path)!r}; stop it, or give this one another file") from None
    return lock


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _set_up(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and (owner, version) != (_OURS, _VERSION):
        raise ConfigError(f"{str(path)!r} is no store of this version of a provider; give it another file")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # callback URLs and tokens are secrets
    if is_new:
        marks = f"PRAGMA application_id = {_OURS}; PRAGMA user_version = {_VERSION};"
        connection.executescript(f"BEGIN; {_TABLES} {marks} COMMIT;")
    connection.executescript(f"BEGIN; {_ADDED} COMMIT;")
