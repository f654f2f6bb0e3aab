"""Lists as values of a query: SQLite takes JSON apart, so that one statement serves many rows."""

from collections.abc import Mapping, Sequence

import msgspec

BEGUN_CALLS = "json_each(CASE WHEN json_valid(begun.calls) THEN begun.calls ELSE '[]' END)"
"""The calls of a row among those begun; one that somebody spoiled names none, and keeps nobody from the others."""

_encode = msgspec.json.Encoder().encode


def as_json(values: Sequence[str | int] | Mapping[int, str]) -> str:
    """Write a list, or names by number, for SQLite to take apart."""
    return _encode(values).decode()
