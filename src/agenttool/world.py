"""The real clock and the real source of ids."""

import secrets
import time
from collections.abc import Iterator
from typing import TypeVar

import uuid_utils

from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


class SystemClock:
    """The machine's wall clock."""

    now_ns = staticmethod(time.time_ns)
    """Give the time; the library's own function, because a call asks for it several times."""


_uuid7 = uuid_utils.uuid7
_now_ns = time.time_ns
_MILLISECOND = 1_000_000
_COUNTED = [f"{number:03x}" for number in range(4096)]
"""The last three digits, in order."""


class UniqueIds:
    """UUIDv7: unique without asking anyone, and sorted by time.

    One of each millisecond comes from the library; the others differ from it in their last twelve bits, which count,
    as RFC 9562 (6.2) provides: that takes half the time, and sorts them, too.
    """

    def __init__(self) -> None:
        """Begin with the next millisecond."""
        self._until = 0
        self._series: Iterator[str] = iter(())

    def unique(self) -> str:
        """Give a UUIDv7 in 32 hexadecimal digits; safe from any thread."""
        if _now_ns() < self._until:
            for unique in self._series:
                return unique
        self._until = (_now_ns() // _MILLISECOND + 1) * _MILLISECOND
        self._series = map(_uuid7().hex[:-3].__add__, _COUNTED)
        return next(self._series)

    def secret(self) -> bytes:
        """Give 32 bytes that nobody can guess."""
        return secrets.token_bytes(32)

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Give a fresh id of a kind."""
        return kind.compose(_uuid7().hex)
