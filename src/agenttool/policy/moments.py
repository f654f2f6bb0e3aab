"""Moments in time, compared and never asked for."""

from datetime import UTC, datetime

from agenttool.records import Timestamp


def has_passed(moment: Timestamp, now: Timestamp) -> bool:
    """Tell whether a moment is over; it is so from the very moment on."""
    return read_moment(moment) <= read_moment(now)


def read_moment(text: str) -> datetime:
    """Read a moment; one without an offset is in UTC.

    Raises:
        ValueError: it is not RFC 3339.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
