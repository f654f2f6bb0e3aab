"""Read and format timestamps as the standard writes them."""

from datetime import UTC, datetime, timedelta

from agenttool.records import Timestamp

_MILLISECOND = 1_000_000
_MICROS = [f"{micros:03d}Z" for micros in range(1000)]


class _Writer:
    """Format timestamps; the last second and millisecond are cached, since most calls are close together."""

    __slots__ = ("_begins", "_second", "_written")

    def __init__(self) -> None:
        self._begins = -_MILLISECOND
        self._second = (-1, "")
        self._written = ""

    def write(self, at_ns: int) -> Timestamp:
        nanos = at_ns - self._begins
        if not 0 <= nanos < _MILLISECOND:
            millis, nanos = divmod(at_ns, _MILLISECOND)
            seconds, rest = divmod(millis, 1000)
            self._begins = at_ns - nanos
            if seconds != self._second[0]:
                self._second = (seconds, f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.")
            self._written = f"{self._second[1]}{rest:03d}"
        return self._written + _MICROS[nanos // 1000]  # pyright: ignore[reportReturnType] -- spares the call of a NewType


timestamp = _Writer().write
"""Format nanoseconds since the epoch as RFC 3339 in UTC, to the microsecond."""


def nanoseconds(moment: datetime) -> int:
    """Return a time as nanoseconds since the epoch, to the microsecond."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
