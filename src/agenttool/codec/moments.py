"""Read and format timestamps as the standard writes them."""

from datetime import UTC, datetime, timedelta

from agenttool.records import Timestamp

_MILLISECOND = 1_000_000
_MAX_SECONDS = 16
_MICROS = [f"{micros:03d}Z" for micros in range(1000)]


class _Writer:
    """Format timestamps; seconds and the last millisecond are cached, since most calls are close together."""

    __slots__ = ("_begins", "_seconds", "_written")

    def __init__(self) -> None:
        self._begins = -_MILLISECOND
        self._seconds: dict[int, str] = {}
        self._written = ""

    def write(self, at_ns: int) -> Timestamp:
        nanos = at_ns - self._begins
        if not 0 <= nanos < _MILLISECOND:
            millis, nanos = divmod(at_ns, _MILLISECOND)
            seconds, rest = divmod(millis, 1000)
            self._begins = at_ns - nanos
            if seconds not in self._seconds:
                if len(self._seconds) >= _MAX_SECONDS:
                    self._seconds.clear()
                self._seconds[seconds] = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}."
            self._written = f"{self._seconds[seconds]}{rest:03d}"
        return self._written + _MICROS[nanos // 1000]  # pyright: ignore[reportReturnType] -- spares the call of a NewType


later_timestamp = _Writer().write
"""Formats times in the future, such as expiries, with a cache of their own."""

timestamp = _Writer().write
"""Format nanoseconds since the epoch as RFC 3339 in UTC, to the microsecond."""


def nanoseconds(moment: datetime) -> int:
    """Return a time as nanoseconds since the epoch, to the microsecond."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
