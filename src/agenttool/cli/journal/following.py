"""A journal that is followed: opened anew whenever it was written, and let go in between.

Whoever holds on to a file that somebody replaces by a copy hears of nothing that is written from then on, or sees two
files mixed; and might, on leaving, write what lay beside the old one into the new.
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
"""How often a follower looks whether anybody wrote."""

PATIENCE_S = 30.0
"""For so long a journal may be unreadable, as one is while somebody copies another over it."""

MOST_HEADS = 1000
"""So many places of the chain are remembered, to know how far back a copy is that takes the journal's place."""

_RECENT_S = 2.0
"""A file that was written so lately may be written again without looking any different."""

_Look: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class Follower:
    """Who follows a journal, and how far they came.

    Attributes:
        position: the last fact that was told; whoever tells facts moves it on.
    """

    def __init__(self, reader: SqliteReader, position: int) -> None:
        """Take the journal as it is read first, and where to go on."""
        self.position = position
        self._file = reader.path
        self._heads = deque(reader.heads(MOST_HEADS), maxlen=MOST_HEADS)

    def follow(self, tell: Callable[[SqliteReader], bool]) -> None:
        """Have the journal told as long as there is more to come, which is what `tell` says.

        Raises:
            ConfigError, StoreError: it cannot be read any more.
        """
        readable_at = time.monotonic()
        look: _Look = ()
        while True:
            _wait(self._file, look)
            look = _look_of(self._file)
            try:
                with SqliteReader.open(self._file, steps=STEPS) as reader:
                    self._rejoin(reader)
                    head = reader.head()
                    if not tell(reader):
                        return
                    self._heads.append(head)
                    readable_at = time.monotonic()
            except (ConfigError, StoreError):
                if time.monotonic() - readable_at > PATIENCE_S:
                    raise

    def _rejoin(self, reader: SqliteReader) -> None:
        """Go back to the last place that is known to be in the chain, if that is another one by now, and say so."""
        came_to = self._heads[-1].position
        while self._heads and not reader.holds(self._heads[-1]):
            self._heads.pop()
        if self._heads and self._heads[-1].position == came_to:
            return
        known = self._heads[-1] if self._heads else reader.head()
        self._heads.append(known)
        self.position = min(self.position, known.position)
        sys.stdout.flush()
        told = f"the journal was replaced: it is not the one that was read up to {came_to}; going on after"
        sys.stderr.write(f"{told} {self.position}, --after 0 tells all of it\n")


def _wait(file: Path, look: _Look) -> None:
    """Wait until a journal may have been written since it looked so."""
    time.sleep(POLL_S)
    while _look_of(file) == look and not any(each and each[2] > time.time_ns() - _RECENT_S * 1e9 for each in look):
        time.sleep(POLL_S)


def _look_of(file: Path) -> _Look:
    return tuple(_seen(each) for each in (file, file.with_name(f"{file.name}-wal")))


def _seen(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
