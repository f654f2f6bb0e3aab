"""Lists as values of a query: SQLite takes JSON apart, so that one statement serves many rows."""

from collections.abc import Sequence

import msgspec

_encode = msgspec.json.Encoder().encode


def as_json(values: Sequence[str | int | tuple[str, int]]) -> str:
    """Write a list for SQLite to take apart."""
    return _encode(values).decode()
