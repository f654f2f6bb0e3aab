"""Vectors kept by content, so that the same text is put to the same model once, also after a restart."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

FILE = "agenttool-vectors.sqlite"
"""Lies in the folder of the model: whoever throws the model away throws its vectors away."""

MOST = 1_000_000
"""How many vectors are kept; the oldest go first."""

PATIENCE_S = 5.0
"""How long another process may be writing."""

_MAKE = "CREATE TABLE IF NOT EXISTS vectors (content BLOB UNIQUE NOT NULL, vector BLOB NOT NULL)"
_TRIM = "DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?"


def content_of(model: str, text: str) -> bytes:
    """Tell a text as one model reads it from every other."""
    return sha256(f"{model}\n{text}".encode(errors="surrogatepass")).digest()


class Kept:
    """A file of vectors; where none can be written, or it is damaged, they are kept for as long as this lives.

    A cache may be thrown away at any time, so that nothing about it is ever an error.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the file of a folder, or make it."""
        try:
            self._file = _opened(str(folder / FILE) if folder is not None else "")
        except sqlite3.Error:
            self._file = _opened("")

    def find(self, contents: Iterable[bytes]) -> dict[bytes, bytes]:
        """Give the vectors that are known."""
        with suppress(sqlite3.Error):
            found = (self._file.execute("SELECT * FROM vectors WHERE content = ?", (each,)) for each in contents)
            return {content: vector for rows in found for content, vector in rows}
        return {}

    def keep(self, vectors: Mapping[bytes, bytes]) -> None:
        """Remember vectors."""
        with suppress(sqlite3.Error), self._file:
            self._file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", vectors.items())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _opened(file: str) -> sqlite3.Connection:
    opened = sqlite3.connect(file, timeout=PATIENCE_S, check_same_thread=False)
    try:
        with opened:
            opened.execute(_MAKE)
            opened.execute(_TRIM, (MOST,))
    except sqlite3.Error:
        opened.close()
        raise
    return opened
