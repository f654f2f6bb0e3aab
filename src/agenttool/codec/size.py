"""Limit the depth of JSON documents, and decide which values are large."""

from collections.abc import Iterable
from typing import TypeAlias, cast

from agenttool.records import Json, JsonObject, UnsetType

MAX_DEPTH = 500
"""Every supported Python can decode and encode this many levels."""

SHALLOW = 2 * MAX_DEPTH
"""A text of this length cannot be too deep: each level takes at least two characters."""

QUICK_CHARS = 100_000
"""How many characters are read on the event loop; more are read in a worker thread."""

_QUICK_VALUES = 1000
_CHARS_PER_VALUE = QUICK_CHARS // _QUICK_VALUES
_SCALARS = frozenset({str, int, float, bool, type(None)})
_SMALL = _SCALARS - {str} | {UnsetType}
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_Container: TypeAlias = JsonObject | list[Json]


def is_too_deep(value: Json, limit: int = MAX_DEPTH) -> bool:
    """Return whether a document has more than `limit` levels."""
    level = _containers([value])
    for _ in range(limit):
        level = _inside(level)
        if not level:
            return False
    return True


def has_more_values(value: Json, limit: int) -> bool:
    """Return whether a document has more than `limit` members and items; the count stops there."""
    level, count = _containers([value]), 0
    while level:
        count += sum(map(len, level))
        level = _inside(level) if count <= limit else []
    return count > limit


def _inside(level: list[_Container]) -> list[_Container]:
    return _containers(inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))


def _containers(values: Iterable[Json]) -> list[_Container]:
    return [value for value in values if isinstance(value, dict | list)]


def is_quick(value: object) -> bool:
    """Return whether a value is small enough to be read on the event loop; the count stops at the limit."""
    if type(value) in _SCALARS and type(value) is not str:
        return True
    room, rest = _QUICK_VALUES, [value]
    while rest and room >= 0:
        each = rest.pop()
        kind = type(each)
        if isinstance(each, str | bytes | bytearray):
            room -= len(each) // _CHARS_PER_VALUE
        elif kind in _CONTAINERS:
            items = cast("list[object]", each)
            room -= len(items)
            rest += () if room < 0 else cast("dict[str, object]", each).values() if kind is dict else items
        elif kind not in _SCALARS:
            names = cast("tuple[str, ...]", getattr(kind, "__struct_fields__", getattr(kind, "__slots__", ())))
            room -= 1
            members = (getattr(each, name, None) for name in names)
            rest += [*getattr(each, "__dict__", {}).values(), *(part for part in members if type(part) not in _SMALL)]
    return room >= 0
