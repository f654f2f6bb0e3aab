"""Moments as the standard writes them."""

from datetime import UTC, datetime
from functools import lru_cache

from agenttool.records import Timestamp


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def timestamp(at_ns: int) -> Timestamp:
    """Write a moment as RFC 3339 in UTC, to the microsecond."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return Timestamp(f"{_second(seconds)}.{rest // 1000:06d}Z")
