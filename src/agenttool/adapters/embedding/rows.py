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

FIRST, GROWS = 2048, 8
"""How many rows there is room for at first, and how many times as many then: room that is not used takes no memory."""


class Rows:
    """A table that grows as it is filled; a number that has no vector is as if it were not there."""

    def __init__(self, dimensions: int) -> None:
        """Begin with nothing."""
        self._bytes = np.zeros((0, dimensions), np.int8)
        self._signs = [np.zeros(0, np.uint64) for _ in range(-(-dimensions // WORD))]
        self._lengths = np.zeros(0, np.float32)
        self._end = 0

    def put(self, number: int, row: bytes) -> None:
        """Take a vector in its short form."""
        if number >= len(self._lengths):
            self._grow(max(number + 1, FIRST, len(self._lengths) * GROWS))
        self._end = max(self._end, number + 1)
        found = np.frombuffer(row, np.int8)
        self._bytes[number] = found
        for column, signs in zip(self._signs, _signs(found), strict=True):
            column[number] = signs
        self._lengths[number] = max(1.0, float(np.linalg.norm(found.astype(np.float32))))

    def drop(self, number: int) -> None:
        """Forget a vector, if it is there."""
        if number < len(self._lengths):
            self._lengths[number] = 0

    def nearest(self, asked: np.ndarray, limit: int) -> list[int]:
        """Give the numbers whose vectors are most like the one asked for, the likest first."""
        lengths = self._lengths[: self._end]
        count = int(np.count_nonzero(lengths))
        known = self._agreeing(asked, limit * AHEAD) if count > LOOKED_AT else np.flatnonzero(lengths)
        near = self._compared(known, asked)
        return known[np.argsort(-near, kind="stable")[:limit]].tolist()

    def likeness(self, asked: np.ndarray, numbers: list[int]) -> dict[int, float]:
        """Compare some vectors with the one asked for; of those that are not there, nothing."""
        wanted = np.array([each for each in numbers if each < len(self._lengths) and self._lengths[each]], np.int64)
        return dict(zip(wanted.tolist(), self._compared(wanted, asked).tolist(), strict=True))

    def _grow(self, size: int) -> None:
        def longer(rows: np.ndarray) -> np.ndarray:
            wider = np.zeros((size, *rows.shape[1:]), rows.dtype)
            wider[: len(rows)] = rows
            return wider

        self._bytes, self._lengths = longer(self._bytes), longer(self._lengths)
        self._signs = [longer(column) for column in self._signs]

    def _agreeing(self, asked: np.ndarray, count: int) -> np.ndarray:
        """Choose by signs alone, and at least so many: a bit a dimension tells most of what a vector says."""
        apart = np.zeros(self._end, np.uint16)
        for column, signs in zip(self._signs, _signs(asked), strict=True):
            apart += np.bitwise_count(column[: self._end] ^ signs)
        farthest = len(self._signs) * WORD
        apart[self._lengths[: self._end] == 0] = farthest + 1
        so_far = np.cumsum(np.bincount(apart, minlength=farthest + 2)[: farthest + 1])
        return np.flatnonzero(apart <= np.searchsorted(so_far, min(count, so_far[-1])))

    def _compared(self, numbers: np.ndarray, asked: np.ndarray) -> np.ndarray:
        return self._bytes[numbers].astype(np.float32) @ asked / self._lengths[numbers]


def shortened(vector: np.ndarray) -> bytes:
    """Write a vector with a byte a dimension; which way it points is kept, not how long it is."""
    largest = float(np.abs(vector).max())
    return np.rint(vector * (FINEST / largest if largest else 0)).astype(np.int8).tobytes()


def _signs(vector: np.ndarray) -> np.ndarray:
    bits = np.packbits(vector > 0)
    return np.concatenate([bits, np.zeros(-len(bits) % 8, np.uint8)]).view(np.uint64)
