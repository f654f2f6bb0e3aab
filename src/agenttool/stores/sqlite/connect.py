"""Connections to the file, set up the same way every time, and what their errors mean."""

import os
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
            f"cannot use {str(path)!r} as a store: {error}; {advice_on(error, 'give it another file')}"
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
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        way_in = "mode=rw"  # one that may only read leaves the two files behind that SQLite keeps beside this one
    else:
        # Without them, nobody writes; and they cannot be made where nothing may be written.
        way_in = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    place = f"{path.absolute().as_uri()}?{way_in}"
    return sqlite3.connect(place, uri=True, isolation_level=None, timeout=PATIENCE_S)


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Turn the library's errors while reading into ours."""
    try:
        yield
    except UNREADABLE as error:
        advice = advice_on(error, "look at the disk, then verify the log")
        raise StoreError(f"cannot read {str(path)!r}: {error}; {advice}") from error


def advice_on(error: Exception, otherwise: str) -> str:
    """Say what to do about an error; a file that is damaged mends by no second try."""
    if isinstance(error, UnicodeDecodeError) or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
        return f"{RESTORE}; or save what can be read with `sqlite3 FILE .recover`"
    return otherwise


def sync_folder(path: Path) -> None:
    """Make sure that the name of a new file is on the disk, too."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
