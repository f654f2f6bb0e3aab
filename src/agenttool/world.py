"""The real clock, the real source of ids, the user of this process, and tracebacks as text."""

import os
import pwd
import secrets
import time
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile
from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import TypeVar

import uuid_utils

from agenttool.ports.world import Moment, OsUser
from agenttool.records import IdKind

_Id = TypeVar("_Id", bound=str)


_BOOT = (Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/time"))


def _since() -> str:
    """Return an id of this boot and of the time namespace; empty if the system does not provide it."""
    boot, namespace = _BOOT
    try:
        return f"{boot.read_text().strip()} {namespace.readlink() if namespace.is_symlink() else ''}".rstrip()
    except OSError:
        return ""


class SystemClock:
    """The clocks of the machine: the wall clock, and the monotonic clock since boot."""

    now_ns = staticmethod(time.time_ns)
    """Return the time; the library function itself, because each call uses it several times."""

    def __init__(self) -> None:
        """Identify the start of the monotonic clock."""
        self._since = _since()

    def moment(self) -> Moment:
        """Return the time on both clocks; the monotonic one stops while the machine sleeps."""
        return Moment(self.now_ns(), time.monotonic_ns(), self._since)


@cache
def _user_name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


_PACKAGE = str(Path(__file__).parent)
_MAX_MESSAGE = 1_000_000
"""How many characters of a message are formatted; that is far more than a trace shows, so no secret is cut there."""


def format_crash(error: BaseException) -> str:
    """Return the traceback of an exception and its causes, each from the first frame outside of this package on."""
    whole = TracebackException.from_exception(error, compact=True)
    part: TracebackException | None = whole
    while part is not None:
        outside = [*dropwhile(lambda frame: frame.filename.startswith(_PACKAGE), part.stack)]
        part.stack = StackSummary.from_list(outside or list(part.stack))
        message = str(getattr(part, "_str", ""))  # there is no public way to shorten it before it is copied many times
        if len(message) > _MAX_MESSAGE:
            vars(part)["_str"] = f"{message[: _MAX_MESSAGE // 2]} … {message[-_MAX_MESSAGE // 2 :]}"
        part = part.__cause__ or part.__context__
    return "".join(whole.format()).rstrip()


def os_user() -> OsUser:
    """Return the user of this process from the system; environment variables have no effect."""
    uid = os.getuid()
    return OsUser(uid, _user_name(uid))


_uuid7 = uuid_utils.uuid7
_now_ns = time.time_ns
_MILLISECOND = 1_000_000
_COUNTED = [f"{number:03x}" for number in range(4096)]
"""The last three digits, in order."""


class UniqueIds:
    """Generates UUIDv7 ids: unique without coordination, and sorted by time.

    The library generates one id per millisecond. The others of that millisecond count up in the last twelve bits, as
    RFC 9562 (6.2) permits. That takes half the time and sorts them.
    """

    def __init__(self) -> None:
        """Start without an id; the first use generates one."""
        self._until = 0
        self._series: Iterator[str] = iter(())

    def unique(self) -> str:
        """Return a UUIDv7 in 32 hexadecimal digits; safe from any thread."""
        if _now_ns() < self._until:
            for unique in self._series:
                return unique
        self._until = (_now_ns() // _MILLISECOND + 1) * _MILLISECOND
        self._series = map(_uuid7().hex[:-3].__add__, _COUNTED)
        return next(self._series)

    def secret(self) -> bytes:
        """Return 32 random bytes that cannot be guessed."""
        return secrets.token_bytes(32)

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Return a new id of a kind."""
        return kind.compose(_uuid7().hex)
