"""Connections to the file, set up the same way every time, and what their errors mean."""

import os
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from agenttool.errors import ConfigError, StoreError
from agenttool.records import ClosedEnum
from agenttool.stores.sqlite.loose import teach
from agenttool.stores.sqlite.schema import RESTORE, check_version, migrate, refuse_misshapen

PATIENCE_S = 10.0
"""How long to wait for another process that is writing."""

WAL_PAGES = 16_384
"""A bound on the write-ahead log, 64 MB, should our own checkpoints (see `writer`) not get through."""


LEAST_ROOM = 1 << 16
"""A disk with less is full: SQLite needs 32 kB beside the file before it reads a byte of it."""

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a file may raise; the second if the damage stands in words that the library wants to repeat."""


class Durability(ClosedEnum):
    """What it means that something is kept."""

    FULL = "full"
    """It is on the disk: neither a crash of the process nor of the machine takes it away."""
    NORMAL = "normal"
    """It is with the operating system: a crash of the process does not take it away, a power cut may."""


def create(path: Path) -> None:
    """Make the file, for its owner's eyes only, or bring an older one up to date; never half.

    Raises:
        ConfigError: there is no such folder, or the file is not one that we can use.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            sync_folder(path)
        with closing(connect(path)) as connection:
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
        raise ConfigError(f"the file system of {str(path)!r} cannot keep a write-ahead log; use a local disk")


def connect(
    path: Path, durability: Durability = Durability.FULL, *, patience_s: float = PATIENCE_S
) -> sqlite3.Connection:
    """Open one connection. Transactions are begun and ended by hand: the library's own way hides when a commit is.

    It may be used by several threads, one at a time, which is the user's duty.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=patience_s, check_same_thread=False)
    try:
        teach(connection)
        connection.execute(f"PRAGMA synchronous = {durability.value}")
        connection.execute("PRAGMA secure_delete = ON")  # what was let go, such as raw inputs, is overwritten
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_to_look(path: Path) -> sqlite3.Connection:
    """Open one connection to a file that is only looked at, and may lie where nothing can be written."""
    ahead = path.with_name(f"{path.name}-wal")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        # Without a write-ahead log nobody writes; and none can be made where nothing may be written.
        return _look_by(path, "mode=ro" if ahead.exists() else "mode=ro&immutable=1")
    looking = _look_by(path, "mode=rw")  # one that may only read leaves the two files behind that SQLite keeps there
    try:
        looking.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if not ahead.exists() or not ahead.stat().st_size:  # a full disk, and nobody is at work in the file
            looking.close()
            return _look_by(path, "mode=ro&immutable=1")
    except UNREADABLE:
        pass  # whoever reads on is told what is wrong
    return looking


def _look_by(path: Path, way_in: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{way_in}", uri=True, isolation_level=None, timeout=PATIENCE_S)


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Turn the library's errors while reading into ours."""
    try:
        yield
    except UNREADABLE as error:
        advice = advice_on(error, path, "look at the disk, then verify the log")
        raise StoreError(f"cannot read {str(path)!r}: {error}; {advice}") from error


def advice_on(error: Exception, path: Path, otherwise: str) -> str:
    """Say what to do about an error; a file that is damaged mends by no second try, and a full disk by room."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, UnicodeDecodeError) or code == sqlite3.SQLITE_CORRUPT:
        return f"{RESTORE}; or save what can be read with `sqlite3 FILE .recover`"
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return "its disk is full: make room, and try again; what was kept is still there"
    if code == sqlite3.SQLITE_IOERR:
        return "its disk fails: look at what the system says of it, and try again once it is mended"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) and not _is_writable(path):
        return "nothing can be written there: look at who may, and at whether the disk was mounted read-only"
    return otherwise


def _is_full(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < LEAST_ROOM
    return False


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def sync_folder(path: Path) -> None:
    """Make sure that the name of a new file is on the disk, too."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
