"""The identity of an open file: detects that it was deleted, replaced or truncated while this process uses it.

SQLite continues to write to a deleted file, and such writes are lost when the process ends. SQLite does not delete the
write-ahead log while a connection is open, so an open store has the same two files all the time.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple  # noqa: TID251 -- what the library names the values of a row

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import RESTORE, reading

_NO_HEADER = bytes(32)
"""The start of a write-ahead log that was truncated and then written to."""

_HEADER = 100
"""The size of the header of a SQLite file. It has the size of a page at 16, and the number of pages at 28."""

_FRAME_HEADER = 24
"""The size of what precedes each page in a write-ahead log."""

_ATTEMPTS, _PAUSE_S = 100, 0.01
"""How often a file that looks cut off is read again: another process may be writing its last pages."""

_RESTART = f"stop every process that uses it, {RESTORE}, and start them again"


class StoreFileLost(StoreError):
    """The file is not the one that this process opened, so its writes would be lost."""


class _Log(NamedTuple):
    """The write-ahead log as it was read last.

    Attributes:
        salts: what is different when the log begins again.
        size: its size in bytes.
        at: the offset of the last frame that ended a commit.
        frame: that frame. SQLite overwrites other frames while the transaction runs, also with zeros.
    """

    salts: bytes = b""
    size: int = 0
    at: int = 0
    frame: bytes = b""


class StoreFile:
    """The file of a store and its write-ahead log, as this process opened them."""

    def __init__(self, path: Path, reader: sqlite3.Connection) -> None:
        """Identify both files; the reader must have read the file and stay open.

        Raises:
            OSError: one of them cannot be opened.
        """
        self.path = path
        self.reader = reader
        # Every commit checks these paths, and a text takes half the time of a `Path`.
        self._file_path, self._log_path, self._index_path = str(path), f"{path}-wal", f"{path}-shm"
        self._log = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
        self._log_link = f"/proc/self/fd/{self._log}"
        self._log_name = self._find_log_name()
        self._file_id, self._log_id = _identity(path.stat()), _identity(os.fstat(self._log))
        # Its locks end when any descriptor of it in this process is closed, so it is never opened here.
        self._index_id = _identity(os.stat(self._index_path))  # noqa: PTH116 -- see above
        self._index_size = self._size = 0
        self._known_log = _Log()
        self._is_truncated = self._is_closed = False

    def check(self) -> None:
        """Check that all files of the store are in their places, and that none was truncated.

        A file that was moved away and back is accepted again. A truncated one is not, because later writes to it cannot
        be trusted.

        Raises:
            StoreFileLost: a file is missing, replaced or truncated, so this process can store nothing.
            StoreError: it was closed, so the descriptor of the log may be that of another file.
        """
        if self._is_closed:
            raise StoreError(f"the journal {str(self.path)!r} was closed with its runtime; open another one to read it")
        file = self._stat(self._file_path)
        if _identity(file) != self._file_id:
            raise self.lost("was replaced by another file")
        # After a stat, the kernel stores the exact time of the next write to the file, which makes each commit slower.
        # So there is no stat of the log while the link to its descriptor shows that it has its name.
        name = self._find_log_name()
        if (name is None or name != self._log_name) and _identity(self._stat(self._log_path)) != self._log_id:
            raise self.lost("has another write-ahead log")
        index_size = self._index_size  # before the stat, because another thread may store a later size
        index = self._stat(self._index_path)
        if _identity(index) != self._index_id:
            raise self.lost("has another shared-memory file")
        if index.st_size < index_size:
            # A process that reads the mapped file beyond its end is killed. At its old size, connections can be closed.
            self._is_truncated = True
            with suppress(OSError):
                os.truncate(self._index_path, index_size)
        self._index_size = index.st_size
        if self._is_truncated or (file.st_size < self._size and self._is_cut_off()):
            self._is_truncated = True
            raise self.lost("was truncated")
        self._size = file.st_size
        self.check_log()

    def _is_cut_off(self) -> bool:
        """Return whether the file has fewer pages than its header states; retention shrinks both.

        A checkpoint that extends the file writes its header before its last pages.
        """
        for _ in range(_ATTEMPTS):
            if not self._lacks_pages():
                return False
            time.sleep(_PAUSE_S)
        return True

    def _lacks_pages(self) -> bool:
        """Return whether the file has at this moment fewer pages than its header states.

        The header is read with a descriptor of a connection: closing another one would end the locks of all of them.
        """
        for name in os.listdir("/dev/fd"):  # noqa: PTH208 -- descriptors, not files
            with suppress(OSError):
                found = os.fstat(int(name))
                header = os.pread(int(name), _HEADER, 0) if _identity(found) == self._file_id else b""
                if len(header) == _HEADER:
                    page = int.from_bytes(header[16:18])
                    return found.st_size < int.from_bytes(header[28:32]) * (page if page > 1 else 65_536)
        return True

    @property
    def log_size(self) -> int:
        """The size of the write-ahead log in bytes, without a stat of it."""
        return os.lseek(self._log, 0, os.SEEK_END)

    def check_log(self) -> None:
        """Check that the write-ahead log was not truncated, and store what the next check compares.

        SQLite continues to write at its old offset. A log that was truncated meanwhile has zeros before that offset, so
        a known frame ends with zeros.

        Raises:
            StoreFileLost: it was truncated.
        """
        known = self._known_log  # before the log is read, because another thread may store a later state
        header = os.pread(self._log, len(_NO_HEADER), 0)
        size = self.log_size
        frame = os.pread(self._log, len(known.frame), known.at)
        is_cut = size < known.size or (frame != known.frame and known.frame.startswith(frame.rstrip(b"\0")))
        if header != os.pread(self._log, len(_NO_HEADER), 0):
            return  # another process just emptied it
        if header == _NO_HEADER or (is_cut and header[16:24] == known.salts):
            self._is_truncated = True
            raise self.lost("was truncated")
        self._known_log = self._read_log(header, size, known) if header else _Log()

    def _read_log(self, header: bytes, size: int, known: _Log) -> _Log:
        """Return the present state of a log with this header and size; an older frame if a transaction runs."""
        salts, frame_size = header[16:24], _FRAME_HEADER + int.from_bytes(header[8:12])
        size -= max(size - len(_NO_HEADER), 0) % frame_size  # another thread may be writing a frame
        at = max(size - frame_size, 0)
        frame = os.pread(self._log, frame_size, at)
        if frame[8:16] == salts and any(frame[4:8]):  # the size of the file after a commit; zero in other frames
            return _Log(salts, size, at, frame)
        return known._replace(size=size) if known.salts == salts else _Log(salts, size)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Check the files, yield the reader, and convert errors of the library meanwhile to `StoreError`."""
        self.check()
        try:
            with reading(self.path):
                yield self.reader
        except StoreError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ:
                raise self.lost("was truncated") from error
            raise

    def fetch(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.reading() as reader:
            return reader.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the write-ahead log."""
        self._is_closed = True
        os.close(self._log)

    def _stat(self, path: str) -> os.stat_result:
        try:
            return os.stat(path)  # noqa: PTH116 -- a text is faster
        except OSError as error:
            beside = {self._log_path: "lost its write-ahead log", self._index_path: "lost its shared-memory file"}
            what = beside.get(path, "is gone")
            raise self.lost(f"{what} ({error.strerror})") from error

    def _find_log_name(self) -> str | None:
        """Return the present path of the open write-ahead log; None on systems that do not list open files."""
        try:
            return os.readlink(self._log_link)  # noqa: PTH115 -- a text is faster
        except OSError:
            return None

    def lost(self, what: str) -> StoreFileLost:
        """Return the error of a store whose files are not those that this process opened."""
        return StoreFileLost(
            f"the journal {str(self.path)!r} {what} while this process uses it, so nothing can be stored;"
            f" put the same file back, or {_RESTART}"
        )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
