"""Follow a journal file while other processes write it, or replace it by a copy.

The file is opened again for each read and closed in between. A reader that held it open would miss everything written
to a replacement, would mix two files, and could write the old write-ahead log into the new file when it closes.
"""

import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader

POLL_S = 0.1
"""How often the file is checked for changes."""

UNREADABLE_S = 30.0
"""A journal may be unreadable for this long, for example while a copy is written over it."""

MAX_HEADS = 1000
"""This many positions of the chain are remembered, to find where a replacement differs."""

_RECENT_S = 2.0
"""A file that was written this recently may be written again without a new modification time."""

_FileState: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class JournalFollower:
    """Reads a journal again whenever its file changes.

    Attributes:
        position: the position of the last fact that was read; the reader advances it.
    """

    def __init__(self, reader: SqliteReader, position: int) -> None:
        """Start with an open journal and the position to continue after."""
        self.position = position
        self._file = reader.path
        self._heads = deque(reader.heads(MAX_HEADS), maxlen=MAX_HEADS)

    def follow(self, read_new: Callable[[SqliteReader], bool]) -> None:
        """Call `read_new` after each change of the file, until it returns false.

        Raises:
            ConfigError, StoreError: the journal was unreadable for `UNREADABLE_S`.
        """
        readable_at = time.monotonic()
        state: _FileState = ()
        while True:
            _wait_for_change(self._file, state)
            state = _file_state(self._file)
            try:
                with SqliteReader.open(self._file, steps=STEPS) as reader:
                    self._check_chain(reader)
                    head = reader.head()
                    if not read_new(reader):
                        return
                    self._heads.append(head)
                    readable_at = time.monotonic()
            except (ConfigError, StoreError):
                if time.monotonic() - readable_at > UNREADABLE_S:
                    raise

    def _check_chain(self, reader: SqliteReader) -> None:
        """Detect a replaced journal: go back to the last position that both chains share, and print that."""
        read_up_to = self._heads[-1].position
        while self._heads and not reader.holds(self._heads[-1]):
            self._heads.pop()
        if self._heads and self._heads[-1].position == read_up_to:
            return
        known = self._heads[-1] if self._heads else reader.head()
        self._heads.append(known)
        self.position = min(self.position, known.position)
        sys.stdout.flush()
        problem = f"the journal was replaced: it is not the one that was read up to {read_up_to}"
        sys.stderr.write(f"{problem}; continuing after {self.position}, --after 0 prints all of it\n")


def _wait_for_change(file: Path, state: _FileState) -> None:
    time.sleep(POLL_S)
    while _file_state(file) == state and not any(each and each[2] > time.time_ns() - _RECENT_S * 1e9 for each in state):
        time.sleep(POLL_S)


def _file_state(file: Path) -> _FileState:
    """Return inode, size and modification time of the file and of its write-ahead log."""
    return tuple(_stat(each) for each in (file, file.with_name(f"{file.name}-wal")))


def _stat(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
