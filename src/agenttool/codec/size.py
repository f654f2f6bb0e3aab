"""Limit the depth of JSON documents, and decide which values are large."""

import re
from collections.abc import Iterable
from itertools import chain
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
_KNOWN = _CONTAINERS | {str}
_OUTERS = (dict, list)
_TEXTS = (str, bytes, bytearray)
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
    return _containers(chain.from_iterable([outer.values() if isinstance(outer, dict) else outer for outer in level]))


def _containers(values: Iterable[Json]) -> list[_Container]:
    return [value for value in values if isinstance(value, _OUTERS)]


def is_quick(value: object) -> bool:
    """Return whether a value is small enough to be read on the event loop."""
    return quick_levels(value) > 0


def quick_levels(value: object) -> int:
    """Return how many levels a value has, at least 1; 0 if it is too large to be read on the event loop."""
    if type(value) in _SCALARS and type(value) is not str:
        return 1
    room, level, levels = _QUICK_VALUES, [value], 0
    while level:
        levels += 1
        rest = [each for each in level if type(each) not in _SMALL]
        outers = cast("list[dict[str, object] | list[object]]", [each for each in rest if type(each) in _CONTAINERS])
        texts = [each for each in rest if type(each) is str]
        others: list[object] = []
        for each in rest if len(outers) + len(texts) < len(rest) else ():
            if isinstance(each, _TEXTS) and type(each) is not str:
                texts.append(cast("str", each))
            elif type(each) not in _KNOWN:
                others.append(each)
        room -= sum([len(each) // _CHARS_PER_VALUE for each in texts]) + sum(map(len, outers)) + len(others)
        if room < 0:
            return 0
        level = [*chain.from_iterable([each.values() if isinstance(each, dict) else each for each in outers])]
        level += chain.from_iterable(map(_parts, others))
    return levels


def _parts(value: object) -> Iterable[object]:
    """Yield the parts of an object, as far as its class names them."""
    kind = type(value)
    names = cast("tuple[str, ...]", getattr(kind, "__struct_fields__", getattr(kind, "__slots__", ())))
    yield from getattr(value, "__dict__", {}).values()
    yield from (getattr(value, name, None) for name in names)


MAX_DIGITS = 300
"""How many digits an integer may have: the time to read and write it grows with their square."""

_STRIDE = (MAX_DIGITS + 1) // 2
_TWO_DIGITS = re.compile(rb"\d\d")


def may_have_long_integer(encoded: bytes) -> bool:
    """Return whether JSON may have an integer of more than `MAX_DIGITS` digits.

    It reads only every `_STRIDE`-th byte: an integer of that length contains two of them in succession.
    """
    return _TWO_DIGITS.search(encoded[::_STRIDE]) is not None
