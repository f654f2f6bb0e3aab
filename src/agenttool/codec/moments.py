"""Moments as the standard writes them."""

from datetime import UTC, datetime

from agenttool.records import Timestamp

_MILLISECOND = 1_000_000
_MICROS = [f"{micros:03d}Z" for micros in range(1000)]


class _Writer:
    """Remembers how the present millisecond is written, since most moments lie in the same one as the last."""

    __slots__ = ("_begins", "_written")

    def __init__(self) -> None:
        self._begins = -_MILLISECOND
        self._written = ""

    def write(self, at_ns: int) -> Timestamp:
        nanos = at_ns - self._begins
        if not 0 <= nanos < _MILLISECOND:
            millis, nanos = divmod(at_ns, _MILLISECOND)
            seconds, rest = divmod(millis, 1000)
            self._begins = at_ns - nanos
            self._written = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}"
        return self._written + _MICROS[nanos // 1000]  # pyright: ignore[reportReturnType] -- spares the call of a NewType


timestamp = _Writer().write
"""Write a moment as RFC 3339 in UTC, to the microsecond."""
