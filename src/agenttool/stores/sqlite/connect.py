"""SQLite connections: opened with the same settings every time, and errors with advice. Usable by any store.

Transactions are explicit, because the implicit ones of the library hide when a commit happens.
"""

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from agenttool.errors import StoreError

BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process that is writing."""

WAL_PAGES = 16_384
"""A bound on the write-ahead log, 64 MB, in case the checkpoints of `writer` fail."""

MIN_FREE_BYTES = 1 << 16
"""A disk with less is full: SQLite needs 32 kB beside the file before it reads a byte of it."""

RESTORE = "put the newest backup in its place, after taking away what lies beside it as -wal and -shm"
"""The remedy for a damaged file. A write-ahead log that is left would be written into the backup and damage it."""

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of reading a damaged file; the second if the library cannot decode the text that it quotes."""

_RETRY_S = 0.0003
_encode = msgspec.json.Encoder().encode


class StoreBusy(StoreError):
    """Another process was writing for longer than the writer wanted to wait; nothing was written."""


def open_connection(path: Path, *, timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Return a connection with explicit transactions; several threads may use it, one at a time.

    Once a commit returns, its data is on the disk: it survives a crash of the process and of the machine.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=timeout_s, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # deleted data, such as raw inputs, is overwritten
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that is only read, and that may be on a read-only disk."""
    ahead = path.with_name(f"{path.name}-wal")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        # Without a write-ahead log there is no writer; and none can be created on a read-only disk.
        return _open_by_uri(path, "mode=ro" if ahead.exists() else "mode=ro&immutable=1")
    connection = _open_by_uri(path, "mode=rw")  # a read-only connection would leave the -wal and -shm files behind
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if not ahead.exists() or not ahead.stat().st_size:  # a full disk, and no process is writing
            connection.close()
            return _open_by_uri(path, "mode=ro&immutable=1")
    except UNREADABLE:
        pass  # the next read reports it
    return connection


def _open_by_uri(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S)


def begin_immediate(connection: sqlite3.Connection, path: Path, *, deadline: float) -> None:
    """Begin a write transaction; retry until a time of the monotonic clock while another process writes.

    Raises:
        StoreBusy: another process was writing all the time.
    """
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                raise StoreBusy(f"another process locks {str(path)!r}; find it, or try again later") from error
        else:
            return
        time.sleep(random.uniform(0.2, 1.0) * _RETRY_S)  # noqa: S311 -- jitter, so that two waiting processes do not retry at the same time


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Generator[None]:
    """Commit the statements of the block together, or roll all of them back.

    Raises:
        StoreBusy: another process was writing all the time.
    """
    begin_immediate(connection, path, deadline=time.monotonic() + BUSY_TIMEOUT_S)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether the error is a lock of another process."""
    return (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY


def create_private_file(path: Path) -> None:
    """Create a file that only its owner can read; an existing one stays as it is, unless it is empty.

    Raises:
        OSError: it could not be created.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        sync_folder(path)
    except FileExistsError:
        if not path.stat().st_size:
            with suppress(PermissionError):  # another user owns it
                path.chmod(0o600)


def sync_folder(path: Path) -> None:
    """Sync the folder of a new file, so that its name is on the disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Convert errors of the library while reading to `StoreError`."""
    try:
        yield
    except UNREADABLE as error:
        advice = advice_on(error, path, "look at the disk, then verify the log")
        raise StoreError(f"cannot read {str(path)!r}: {error}; {advice}") from error


def advice_on(error: Exception, path: Path, otherwise: str) -> str:
    """Return the remedy for an error: restore a damaged file, free a full disk, or repair a failing one."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, UnicodeDecodeError) or code == sqlite3.SQLITE_CORRUPT:
        return f"{RESTORE}; or save what can be read with `sqlite3 FILE .recover`"
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return "its disk is full: free some space, and try again; what was stored is still there"
    if code == sqlite3.SQLITE_IOERR:
        return "its disk fails: read the system log, repair the disk, and try again"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) and not _is_writable(path):
        return "nothing can be written there: check the permissions, and whether the disk is mounted read-only"
    return otherwise


def _is_full(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < MIN_FREE_BYTES
    return False


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def as_json(values: Sequence[str | int] | Mapping[int, str]) -> str:
    """Return a list, or names by number, for `json_each`, so that one statement serves many rows."""
    return _encode(values).decode()
