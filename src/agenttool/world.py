"""The real clock and the real source of ids."""

import secrets
import time
from typing import TypeVar

import uuid_utils

from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


class SystemClock:
    """The machine's wall clock."""

    now_ns = staticmethod(time.time_ns)
    """Give the time; the library's own function, because a call asks for it several times."""


_uuid7 = uuid_utils.uuid7


class UniqueIds:
    """UUIDv7: unique without asking anyone, and sorted by time."""

    def unique(self) -> str:
        """Give a UUIDv7 in 32 hexadecimal digits."""
        return _uuid7().hex

    def secret(self) -> bytes:
        """Give 32 bytes that nobody can guess."""
        return secrets.token_bytes(32)

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Give a fresh id of a kind."""
        return kind.compose(_uuid7().hex)
