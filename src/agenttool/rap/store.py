"""The provider's SQLite file: its schema, its lock, and one thread that commits waiting operations together."""

import asyncio
import fcntl
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar, cast

from agenttool.errors import ConfigError, StoreError
from agenttool.http.client import backoff_s
from agenttool.stores.sqlite.connect import create_private_file, open_connection, transaction

_APPLICATION_ID = 0x52415031  # "RAP1"
_VERSION = 2
_TABLES = """
CREATE TABLE provider (name TEXT NOT NULL) STRICT;
INSERT INTO provider VALUES (lower(hex(randomblob(8))));

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
    value TEXT,
    is_canceled INTEGER NOT NULL DEFAULT 0,
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX calls_by_name ON calls (thread, id);
CREATE INDEX calls_open ON calls (number) WHERE state <> 'settled';
CREATE INDEX calls_by_age ON calls (changed_at) WHERE state = 'settled';

CREATE TABLE ancestors (
    thread TEXT NOT NULL,
    call INTEGER NOT NULL REFERENCES calls (number),
    PRIMARY KEY (thread, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX ancestors_by_call ON ancestors (call);

CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    call INTEGER NOT NULL REFERENCES calls (number),
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    queued_at INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_by_call ON messages (call, number);

CREATE TABLE questions (
    call INTEGER NOT NULL REFERENCES calls (number),
    number INTEGER NOT NULL,
    token TEXT NOT NULL UNIQUE,
    secret TEXT,
    choices INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer TEXT,
    PRIMARY KEY (call, number)
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

CREATE TABLE nonces (nonce TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX nonces_by_age ON nonces (expires_at);
"""

FIRST_RETRY_S, MAX_RETRY_S = 0.1, 5.0
_CHECKPOINT_PAGES = 1000
_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Operation = Callable[[sqlite3.Connection], object]
_Job = tuple[_Operation, "asyncio.Future[object]"]
_JobResult = tuple["asyncio.Future[object]", object, BaseException | None]


class ProviderStore:
    """Runs operations on the provider's file; what `run` returned is on disk.

    Attributes:
        name: unique, and the same for as long as the file exists.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it for its owner only; must be called in a running event loop.

        Raises:
            ConfigError: it cannot be used, or another process uses it.
        """
        self._path = path
        self._file = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._connection, self.name = _open_file(path, self._file)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
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
        attempts = 0
        while True:
            with suppress(StoreError):
                return await self.run(operation, *arguments, **keywords)
            attempts += 1
            delay_s = backoff_s(attempts, first_s=FIRST_RETRY_S, max_s=MAX_RETRY_S)
            _log.error("the store cannot be written; trying again in %g seconds", delay_s)
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Finish the waiting operations and close the file."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._file.close()

    def _work(self) -> None:
        """Commit all waiting jobs together, until the store is closed."""
        is_open = True
        while is_open:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():  # no other thread removes jobs
                jobs.append(self._jobs.get())
            is_open = None not in jobs
            results = self._commit([job for job in jobs if job is not None])
            with suppress(RuntimeError):  # the event loop is closed, and no caller waits
                self._loop.call_soon_threadsafe(partial(_complete, results))

    def _commit(self, jobs: list[_Job]) -> list[_JobResult]:
        """Run jobs in one transaction; if one of them fails, each in a transaction of its own."""
        try:
            with transaction(self._connection, self._path):
                return [(result, operation(self._connection), None) for operation, result in jobs]
        except Exception as error:  # noqa: BLE001 -- raised again to the caller of its job
            if len(jobs) > 1:
                return [each for job in jobs for each in self._commit([job])]
            failure = error
            if isinstance(error, sqlite3.OperationalError | StoreError):
                failure = StoreError(f"the provider's store cannot be written: {error}; check the disk")
            return [(jobs[0][1], None, failure)]


def _complete(results: list[_JobResult]) -> None:
    for result, value, error in results:
        if result.done():
            continue
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)


def _open_file(path: Path, opened: ExitStack) -> tuple[sqlite3.Connection, str]:
    """Lock and open a provider's file; return it and the provider's name. `opened` closes and unlocks it."""
    with ExitStack() as stack:
        try:
            create_private_file(path)
            lock = stack.enter_context(path.with_name(path.name + ".lock").open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            connection = stack.enter_context(closing(open_connection(path)))
            _create_tables(connection, path)
            (name,) = connection.execute("SELECT name FROM provider").fetchone()
        except BlockingIOError:
            raise ConfigError(f"another provider uses {str(path)!r}; stop it, or give this one another file") from None
        except OSError as error:
            advice = "create its folder first"
            raise ConfigError(f"cannot open the store {str(path)!r}: {error.strerror}; {advice}") from error
        except sqlite3.Error as error:
            raise ConfigError(f"cannot use {str(path)!r} as a store: {error}; give it another file") from error
        opened.push(stack.pop_all())
        return connection, name


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
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
