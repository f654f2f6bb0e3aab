"""The real clock and the real source of ids."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import uuid_utils

from agenttool.ports.world import Moment
from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


_BOOT = (Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/time"))


def _since() -> str:
    """Name the start of this machine, and the namespace of its clock; empty where the system does not tell."""
    boot, namespace = _BOOT
    try:
        return f"{boot.read_text().strip()} {namespace.readlink() if namespace.is_symlink() else ''}".rstrip()
    except OSError:
        return ""


class SystemClock:
    """The machine's clocks: the one on the wall, and the one that counts since the machine was started."""

    now_ns = staticmethod(time.time_ns)
    """Give the time; the library's own function, because a call asks for it several times."""

    def __init__(self) -> None:
        """Find out since when the steady clock counts."""
        self._since = _since()

    def moment(self) -> Moment:
        """Give the time by both clocks; the steady one stands still while the machine sleeps."""
        return Moment(self.now_ns(), time.monotonic_ns(), self._since)


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
