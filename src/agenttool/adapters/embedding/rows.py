"""Vectors by number, a byte a dimension: small enough for 100,000 tools, and quick to look through."""
# pyright: basic
# The library of an optional extra may be missing where types are checked.

import numpy as np

FINEST = 127
"""The largest step of a byte."""

LOOKED_AT = 4096
"""So many vectors are compared one by one; of more, those whose signs agree most are chosen first."""

AHEAD = 16
"""How many times as many are chosen by their signs as are wanted."""

WORD = 64


class Rows:
    """A table that grows as it is filled; a number that has no vector is as if it were not there."""

    def __init__(self, dimensions: int) -> None:
        """Begin with nothing."""
        self._bytes = np.zeros((0, dimensions), np.int8)
        self._signs = np.zeros((0, -(-dimensions // WORD)), np.uint64)
        self._lengths = np.zeros(0, np.float32)

    def put(self, number: int, row: bytes) -> None:
        """Take a vector in its short form."""
        if number >= len(self._lengths):
            self._grow(max(number + 1, WORD, len(self._lengths) * 5 // 4))
        found = np.frombuffer(row, np.int8)
        self._bytes[number] = found
        self._signs[number] = _signs(found)
        self._lengths[number] = max(1.0, float(np.linalg.norm(found.astype(np.float32))))

    def drop(self, number: int) -> None:
        """Forget a vector, if it is there."""
        if number < len(self._lengths):
            self._lengths[number] = 0

    def nearest(self, asked: np.ndarray, limit: int) -> list[int]:
        """Give the numbers whose vectors are most like the one asked for, the likest first."""
        known = np.flatnonzero(self._lengths)
        if len(known) > LOOKED_AT:
            known = self._agreeing(known, asked, limit * AHEAD)
        near = self._compared(known, asked)
        return known[np.argsort(-near, kind="stable")[:limit]].tolist()

    def likeness(self, asked: np.ndarray, numbers: list[int]) -> dict[int, float]:
        """Compare some vectors with the one asked for; of those that are not there, nothing."""
        wanted = np.array([each for each in numbers if each < len(self._lengths) and self._lengths[each]], np.int64)
        return dict(zip(wanted.tolist(), self._compared(wanted, asked).tolist(), strict=True))

    def _grow(self, size: int) -> None:
        more = size - len(self._lengths)
        self._bytes, self._signs, self._lengths = (
            np.concatenate([each, np.zeros((more, *each.shape[1:]), each.dtype)])
            for each in (self._bytes, self._signs, self._lengths)
        )

    def _agreeing(self, known: np.ndarray, asked: np.ndarray, count: int) -> np.ndarray:
        """Choose by signs alone: a bit a dimension tells most of what a vector says."""
        apart = np.bitwise_count(self._signs ^ _signs(asked)).sum(axis=1, dtype=np.uint16)[known]
        return known[np.argpartition(apart, min(count, len(apart) - 1))[:count]]

    def _compared(self, numbers: np.ndarray, asked: np.ndarray) -> np.ndarray:
        return self._bytes[numbers].astype(np.float32) @ asked / self._lengths[numbers]


def shortened(vector: np.ndarray) -> bytes:
    """Write a vector with a byte a dimension; which way it points is kept, not how long it is."""
    largest = float(np.abs(vector).max())
    return np.rint(vector * (FINEST / largest if largest else 0)).astype(np.int8).tobytes()


def _signs(vector: np.ndarray) -> np.ndarray:
    bits = np.packbits(vector > 0)
    return np.concatenate([bits, np.zeros(-len(bits) % 8, np.uint8)]).view(np.uint64)
