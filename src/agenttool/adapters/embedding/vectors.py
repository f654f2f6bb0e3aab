"""Store vectors with one byte per dimension: a searchable table in memory and a cache file on disk."""
# pyright: basic
# The library of the optional extra may be missing where types are checked.

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

INT8_MAX = 127

EXACT_LIMIT = 1024
"""Up to this many vectors all are compared exactly. Beyond it, candidates are selected by the signs of dimensions."""

OVERSAMPLING = 16
"""How many times more candidates are selected by signs than are wanted."""

WORD_BITS = 64

FIRST_CAPACITY, GROWTH = 2048, 8
"""Rows allocated first, and the growth factor. Untouched rows take no memory."""

CACHE_FILE = "agenttool-vectors.sqlite"
"""Written into the folder of the model, so that deleting the model deletes its vectors."""

MAX_CACHED = 1_000_000
"""How many vectors the cache file stores; the oldest are deleted first."""

BUSY_TIMEOUT_S = 5.0
"""How long to wait for another process that writes."""

_CREATE = "CREATE TABLE IF NOT EXISTS vectors (content BLOB UNIQUE NOT NULL, vector BLOB NOT NULL)"
_TRIM = "DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?"


class VectorTable:
    """Quantized vectors by number. Not thread-safe."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.zeros((0, dimensions), np.int8)
        self._signs = [np.zeros(0, np.uint64) for _ in range(-(-dimensions // WORD_BITS))]
        self._lengths = np.zeros(0, np.float32)  # zero where there is no vector
        self._end = 0

    @staticmethod
    def quantized(vector: np.ndarray) -> bytes:
        """Return a vector with one signed byte per dimension; its direction is preserved, not its length."""
        largest = float(np.abs(vector).max())
        return np.rint(vector * (INT8_MAX / largest if largest else 0)).astype(np.int8).tobytes()

    def put(self, number: int, row: bytes) -> None:
        """Add a quantized vector, or replace the one with this number."""
        if number >= len(self._lengths):
            self._grow(max(number + 1, FIRST_CAPACITY, len(self._lengths) * GROWTH))
        self._end = max(self._end, number + 1)
        vector = np.frombuffer(row, np.int8)
        self._rows[number] = vector
        for column, signs in zip(self._signs, _sign_bits(vector), strict=True):
            column[number] = signs
        self._lengths[number] = max(1.0, float(np.linalg.norm(vector.astype(np.float32))))

    def remove(self, number: int) -> None:
        """Remove a vector, if there is one with this number."""
        if number < len(self._lengths):
            self._lengths[number] = 0

    def nearest(self, query: np.ndarray, limit: int) -> list[int]:
        """Return the numbers of the most similar vectors, best first."""
        lengths = self._lengths[: self._end]
        count = int(np.count_nonzero(lengths))
        selected = self._by_signs(query, limit * OVERSAMPLING) if count > EXACT_LIMIT else np.flatnonzero(lengths)
        similarity = self._cosine(selected, query)
        return selected[np.argsort(-similarity, kind="stable")[:limit]].tolist()

    def similarity(self, query: np.ndarray, numbers: list[int]) -> dict[int, float]:
        """Return the cosine similarity of the vectors with these numbers; numbers without a vector are left out."""
        wanted = np.array([each for each in numbers if each < len(self._lengths) and self._lengths[each]], np.int64)
        return dict(zip(wanted.tolist(), self._cosine(wanted, query).tolist(), strict=True))

    def _grow(self, size: int) -> None:
        def enlarged(rows: np.ndarray) -> np.ndarray:
            larger = np.zeros((size, *rows.shape[1:]), rows.dtype)
            larger[: len(rows)] = rows
            return larger

        self._rows, self._lengths = enlarged(self._rows), enlarged(self._lengths)
        self._signs = [enlarged(column) for column in self._signs]

    def _by_signs(self, query: np.ndarray, count: int) -> np.ndarray:
        """Select at least `count` vectors by Hamming distance over the sign of each dimension."""
        distance = np.zeros(self._end, np.uint16)
        for column, signs in zip(self._signs, _sign_bits(query), strict=True):
            distance += np.bitwise_count(column[: self._end] ^ signs)
        farthest = len(self._signs) * WORD_BITS
        distance[self._lengths[: self._end] == 0] = farthest + 1
        cumulative = np.cumsum(np.bincount(distance, minlength=farthest + 2)[: farthest + 1])
        return np.flatnonzero(distance <= np.searchsorted(cumulative, min(count, cumulative[-1])))

    def _cosine(self, numbers: np.ndarray, query: np.ndarray) -> np.ndarray:
        return self._rows[numbers].astype(np.float32) @ query / self._lengths[numbers]


def _sign_bits(vector: np.ndarray) -> np.ndarray:
    bits = np.packbits(vector > 0)
    return np.concatenate([bits, np.zeros(-len(bits) % 8, np.uint8)]).view(np.uint64)


class VectorCache:
    """A file of vectors by content key. If it cannot be used, vectors are cached in memory instead.

    Every error of the file is ignored: a missing vector is computed again.
    """

    def __init__(self, folder: Path | None) -> None:
        try:
            self._database = _open_database(str(folder / CACHE_FILE) if folder is not None else "")
        except sqlite3.Error:
            self._database = _open_database("")

    def find(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that are cached, by key."""
        with suppress(sqlite3.Error):
            found = (self._database.execute("SELECT * FROM vectors WHERE content = ?", (each,)) for each in keys)
            return {key: vector for rows in found for key, vector in rows}
        return {}

    def store(self, vectors: Mapping[bytes, bytes]) -> None:
        """Write vectors by key."""
        with suppress(sqlite3.Error), self._database:
            self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", vectors.items())

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _open_database(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        with database:
            database.execute(_CREATE)
            database.execute(_TRIM, (MAX_CACHED,))
    except sqlite3.Error:
        database.close()
        raise
    return database
