"""Moments as the standard writes them."""

from datetime import UTC, datetime
from functools import lru_cache

from agenttool.records import Timestamp

_MICROS = [f"{micros:03d}Z" for micros in range(1000)]


@lru_cache(maxsize=1024)
def _to_the_millisecond(millis: int) -> str:
    seconds, rest = divmod(millis, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}"


def timestamp(at_ns: int) -> Timestamp:
    """Write a moment as RFC 3339 in UTC, to the microsecond; moments asked for one after the other share their work."""
    millis, nanos = divmod(at_ns, 1_000_000)
    return _to_the_millisecond(millis) + _MICROS[nanos // 1000]  # pyright: ignore[reportReturnType] -- spares the call of a NewType
