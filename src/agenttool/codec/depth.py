"""Limit the depth of JSON documents."""

from agenttool.records import Json, JsonObject

MAX_DEPTH = 500
"""Every supported Python can decode and encode this many levels."""

SHALLOW = 2 * MAX_DEPTH
"""A text of this length cannot be too deep: each level takes at least two characters."""


def is_too_deep(value: Json, limit: int = MAX_DEPTH) -> bool:
    """Return whether a document has more than `limit` levels."""
    level: list[JsonObject | list[Json]] = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
