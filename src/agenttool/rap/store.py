"""The provider's SQLite file: its schema, its lock, and one thread that commits waiting operations together."""

import asyncio
import fcntl
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Concatenate, ParamSpec, TypeVar, cast

from agenttool.errors import ConfigError, StoreError
from agenttool.stores.sqlite.connect import create_private_file, open_connection

FIRST_RETRY_S, MAX_RETRY_S = 0.1, 5.0

_APPLICATION_ID = 0x52415031  # "RAP1"
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

_LATER_TABLES = """
CREATE TABLE IF NOT EXISTS once (word TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS once_by_age ON once (until);

CREATE TABLE IF NOT EXISTS ancestors (
    thread TEXT NOT NULL,
    call INTEGER NOT NULL REFERENCES calls (number),
    PRIMARY KEY (thread, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ancestors_by_call ON ancestors (call);
"""
"""Tables that a file of the same version may lack; no row of the others depends on them."""

_CHECKPOINT_PAGES = 1000
_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Operation = Callable[[sqlite3.Connection], object]
_Job = tuple[_Operation, "asyncio.Future[object]"]
_JobResult = tuple["asyncio.Future[object]", object, BaseException | None]


class ProviderStore:
    """Runs operations on the provider's file; what `run` returned is on disk."""

    def __init__(self, path: Path) -> None:
        """Open the file; must be called in a running event loop.

        Raises:
            ConfigError: it cannot be used, or another process uses it.
        """
        self._connection, self._lock = _open_file(path)
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        (self.name,) = cast(
            "tuple[str]", self._connection.execute("SELECT value FROM facts WHERE name = 'file'").fetchone()
        )
        self._thread = threading.Thread(target=self._work, name="agenttool-rap-store", daemon=True)
        self._thread.start()

    async def run(
        self, operation: Callable[Concatenate[sqlite3.Connection, _P], _T], *arguments: _P.args, **keywords: _P.kwargs
    ) -> _T:
        """Run an operation in a transaction, and return its value once it is committed.

        Raises:
            StoreError: the disk failed.
        """
        result: asyncio.Future[object] = self._loop.create_future()
        self._jobs.put((lambda connection: operation(connection, *arguments, **keywords), result))
        return cast("_T", await result)

    async def run_until_stored(
        self, operation: Callable[Concatenate[sqlite3.Connection, _P], _T], *arguments: _P.args, **keywords: _P.kwargs
    ) -> _T:
        """Run an operation that must not be lost, such as storing a result, and retry while the disk fails."""
        delay_s = FIRST_RETRY_S
        while True:
            with suppress(StoreError):
                return await self.run(operation, *arguments, **keywords)
            _log.error("the store cannot be written; trying again in %g seconds", delay_s)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_RETRY_S)

    async def close(self) -> None:
        """Finish the waiting operations and close the file."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()
        self._lock.close()

    def _work(self) -> None:
        is_open = True
        while is_open:
            jobs = self._next_jobs()
            is_open = None not in jobs
            results = self._commit([job for job in jobs if job is not None])
            with suppress(RuntimeError):  # the event loop is closed, and no caller waits
                self._loop.call_soon_threadsafe(partial(_complete, results))

    def _next_jobs(self) -> list[_Job | None]:
        """Return all waiting jobs, at least one."""
        jobs = [self._jobs.get()]
        with suppress(Empty):
            while jobs[-1] is not None:
                jobs.append(self._jobs.get_nowait())
        return jobs

    def _commit(self, jobs: list[_Job]) -> list[_JobResult]:
        """Run all jobs in one transaction; if one fails, run them again, each in a savepoint of its own."""
        try:
            try:
                return self._transact(jobs, self._run_job)
            except sqlite3.OperationalError:
                raise  # the disk failed, so every job fails
            except Exception:  # noqa: BLE001 -- raised again to the caller of that job
                return self._transact(jobs, self._run_in_savepoint)
        except sqlite3.Error as error:
            failure = StoreError(f"the provider's store cannot be written: {error}; check the disk")
            return [(result, None, failure) for _, result in jobs]

    def _transact(self, jobs: list[_Job], run: Callable[[_Job], _JobResult]) -> list[_JobResult]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [run(job) for job in jobs]
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # the disk may fail here, too; uncommitted changes are lost anyway
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise
        return results

    def _run_job(self, job: _Job) -> _JobResult:
        operation, result = job
        return result, operation(self._connection), None

    def _run_in_savepoint(self, job: _Job) -> _JobResult:
        """Run one job; if it fails, its changes are undone and the others continue."""
        operation, result = job
        self._connection.execute("SAVEPOINT job")
        try:
            value, error = operation(self._connection), None
        except sqlite3.OperationalError:
            raise  # the disk failed, so every job fails
        except Exception as failure:  # noqa: BLE001 -- raised again to the caller of this job
            value, error = None, failure
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
        return result, value, error


def _complete(results: list[_JobResult]) -> None:
    for result, value, error in results:
        if result.done():
            continue
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)


def _open_file(path: Path) -> tuple[sqlite3.Connection, IO[bytes]]:
    """Open or create a provider's file for its owner only; also return its lock, which lasts until it is closed.

    Raises:
        ConfigError: it cannot be used, or another process uses it.
    """
    try:
        create_private_file(path)
        lock = _lock_file(path)
    except OSError as error:
        raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; create its folder first") from error
    try:
        return _connect(path), lock
    except sqlite3.Error as error:
        lock.close()
        raise ConfigError(f"cannot use {str(path)!r} as a store: {error}; give it another file") from error
    except ConfigError:
        lock.close()
        raise


def _lock_file(path: Path) -> IO[bytes]:
    lock = path.with_name(path.name + ".lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(f"another provider uses {str(path)!r}; stop it, or give this one another file") from None
    return lock


def _connect(path: Path) -> sqlite3.Connection:
    connection = open_connection(path)
    try:
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and (application_id, version) != (_APPLICATION_ID, _VERSION):
        raise ConfigError(f"{str(path)!r} is not a store of this version of a provider; give it another file")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")  # this store runs no checkpoints of its own
    if is_new:
        marks = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_VERSION};"
        connection.executescript(f"BEGIN; {_TABLES} {marks} COMMIT;")
    connection.executescript(f"BEGIN; {_LATER_TABLES} COMMIT;")
