"""How deep a document may go."""

from agenttool.records import Json, JsonObject

MAX_DEPTH = 500
"""Every Python we run on can read and write so many levels; what some can and others cannot is refused by all."""

SHALLOW = 2 * MAX_DEPTH
"""A level takes two characters at least, so that what is no longer than this is not too deep."""


def is_too_deep(value: Json) -> bool:
    """Tell whether a document has more than `MAX_DEPTH` levels."""
    level: list[JsonObject | list[Json]] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
