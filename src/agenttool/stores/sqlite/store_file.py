"""The identity of an open file: detects that it was deleted, replaced or truncated while this process uses it.

SQLite continues to write to a deleted file, and such writes are lost when the process ends. SQLite does not delete the
write-ahead log while a connection is open, so an open store has the same two files all the time.
"""

import os
import sqlite3
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import RESTORE, reading

_NO_HEADER = bytes(32)
"""The start of a write-ahead log that was truncated and then written to."""

_FRAME_HEADER = 24
_MAX_FRAMES = 10_000
"""The maximum number of frames that one check reads to find the last commit; the next check continues."""

_RESTART = f"stop every process that uses it, {RESTORE}, and start them again"


class StoreFileLost(StoreError):
    """The file is not the one that this process opened, so its writes would be lost."""


class _LastCommit(NamedTuple):
    """The frame of the last known commit in the write-ahead log; the search continues at `next_at`."""

    salts: bytes
    at: int = 0
    frame: bytes = b""
    next_at: int = len(_NO_HEADER)


class StoreFile:
    """The file of a store and its write-ahead log, as this process opened them."""

    def __init__(self, path: Path) -> None:
        """Identify both files; a connection of this process must have read the file and stay open.

        Raises:
            OSError: one of them cannot be opened.
        """
        self.path = path
        # Every commit checks these paths, and a text takes half the time of a `Path`.
        self._file_path, self._log_path, self._index_path = str(path), f"{path}-wal", f"{path}-shm"
        self._log = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
        self._log_link = f"/proc/self/fd/{self._log}"
        self._log_name = self._find_log_name()
        self._file_id, self._log_id = _identity(path.stat()), _identity(os.fstat(self._log))
        # Its locks end when any descriptor of it in this process is closed, so it is never opened here.
        self._index_id = _identity(os.stat(self._index_path))  # noqa: PTH116 -- see above
        self._index_size = self._size = 0
        self._last_commit = _LastCommit(b"")
        self._is_truncated = False

    def check(self) -> None:
        """Check that all files of the store are in their places, and that none was truncated.

        A file that was moved away and back is accepted again. A truncated one is not, because later writes to it cannot
        be trusted.

        Raises:
            StoreFileLost: a file is missing, replaced or truncated, so this process can store nothing.
        """
        file = self._stat(self._file_path)
        if _identity(file) != self._file_id:
            raise self.lost("was replaced by another file")
        # After a stat, the kernel stores the exact time of the next write to the file, which makes each commit slower.
        # So there is no stat of the log while the link to its descriptor shows that it has its name.
        name = self._find_log_name()
        if (name is None or name != self._log_name) and _identity(self._stat(self._log_path)) != self._log_id:
            raise self.lost("has another write-ahead log")
        index = self._stat(self._index_path)
        if _identity(index) != self._index_id:
            raise self.lost("has another shared-memory file")
        if index.st_size < self._index_size:
            self.check_index()
        self._index_size = index.st_size
        if self._is_truncated or file.st_size < self._size or self._is_log_damaged():
            self._is_truncated = True
            raise self.lost("was truncated")
        self._size = file.st_size

    def check_index(self) -> None:
        """Check the size of the shared-memory file: the kernel ends a process that reads beyond its end.

        A truncated file gets its size back, so that the connections can be closed.

        Raises:
            StoreFileLost: a file of the store was truncated.
        """
        with suppress(OSError):
            if os.stat(self._index_path).st_size < self._index_size:  # noqa: PTH116 -- a text is faster
                self._is_truncated = True
                os.truncate(self._index_path, self._index_size)
        if self._is_truncated:
            raise self.lost("was truncated")

    def _is_log_damaged(self) -> bool:
        """Return whether the last known commit is missing in the write-ahead log.

        A checkpoint empties the log, too, and the log begins again with other salts. After a truncation, writes
        continue at the same offset, so the log has zeros where it was cut.
        """
        header = os.pread(self._log, len(_NO_HEADER), 0)
        if header == _NO_HEADER:
            return True
        known = self._last_commit
        if header[16:24] != known.salts:
            known = _LastCommit(header[16:24])
        elif known.frame:
            frame = os.pread(self._log, len(known.frame), known.at)
            if frame != known.frame and self._is_cut(header, known, frame):
                return os.pread(self._log, len(_NO_HEADER), 0) == header  # else it was emptied meanwhile
        self._last_commit = self._find_last_commit(header, known)
        return False

    def _is_cut(self, header: bytes, known: _LastCommit, frame: bytes) -> bool:
        """Return whether a frame that differs from the known one was cut.

        The header differs if a writer failed and the next one overwrote its commit. The rest differs if the frame was
        read while another thread or process wrote it; a complete frame has a valid checksum.
        """
        start = frame[:_FRAME_HEADER]
        if start != known.frame[:_FRAME_HEADER]:
            return not any(start)
        end = len(frame.rstrip(b"\0"))
        if frame[:end] != known.frame[:end]:
            return False
        return len(frame) < len(known.frame) or not self._has_valid_checksum(header, known.at, frame)

    def _has_valid_checksum(self, header: bytes, at: int, frame: bytes) -> bool:
        """Return whether the checksum of a frame is valid; it continues the checksum of the frame before it."""
        before = header[24:32] if at == len(_NO_HEADER) else os.pread(self._log, 8, at - len(frame) + 16)
        words = struct.unpack(f"{'>' if header[3] & 1 else '<'}{len(frame) // 4}I", frame)
        first, second = struct.unpack(">2I", before)
        covered = words[:2] + words[_FRAME_HEADER // 4 :]
        for even, odd in zip(covered[::2], covered[1::2], strict=True):
            first = first + even + second & 0xFFFFFFFF
            second = second + odd + first & 0xFFFFFFFF
        return frame[16:24] == struct.pack(">2I", first, second)

    def _find_last_commit(self, header: bytes, known: _LastCommit) -> _LastCommit:
        """Return the last commit, searched from the known one on; the search ends at a frame with other salts."""
        size = _FRAME_HEADER + int.from_bytes(header[8:12])
        last, at = None, known.next_at
        for _ in range(_MAX_FRAMES):
            start = os.pread(self._log, _FRAME_HEADER, at)
            if start[8:16] != known.salts or not known.salts:
                break
            if any(start[4:8]):  # the size of the file after a commit; zero in other frames
                last = at
            at += size
        frame = b"" if last is None else os.pread(self._log, size, last)
        if last is None or len(frame) < size:
            return known
        return _LastCommit(known.salts, last, frame, last + size)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Check the files, and convert errors of the library while reading to `StoreError`."""
        self.check()
        try:
            with reading(self.path):
                yield
        except StoreError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ:
                raise self.lost("was truncated") from error
            raise

    def close(self) -> None:
        """Close the write-ahead log."""
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
