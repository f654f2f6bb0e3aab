"""Members that JSON objects have twice: a parser keeps the last one, so an operation could be lost without a trace."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from agenttool.codec import RawJson

LEVELS = 3
"""Members of the document, of its paths, and of each path are compared."""

_NAME = re.compile(rb"""[ \t\r\n]*[{,][ \t\r\n]*"(?:[^"\\]|\\.)*"[ \t\r\n]*:[ \t\r\n]*""")
_END = re.compile(rb"[ \t\r\n]*[{]?[ \t\r\n]*}[ \t\r\n]*")


class _Members(list[tuple[str, object]]):
    """The members of an object, in order."""


def has_each_once(text: bytes, members: Mapping[str, RawJson]) -> bool:
    """Return whether the members of an object, one after the other, are its whole text: then it has none twice."""
    position = 0
    for each in members.values():
        name = _NAME.match(text, position)
        if name is None or not text.startswith(value := bytes(each), name.end()):
            return False
        position = name.end() + len(value)
    return _END.fullmatch(text, position) is not None


def repeated_members(data: bytes) -> list[tuple[str, ...]]:
    """Return the places of members that a JSON document, its paths or one of its paths has twice."""
    try:
        return [*_repeated(json.loads(data, object_pairs_hook=_Members))]
    except (ValueError, RecursionError):
        return []  # the parser reports that it is no JSON


def _repeated(value: object, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(value, _Members):
        return
    seen: set[str] = set()
    for name, each in cast("list[tuple[str, object]]", value):
        if name in seen:
            yield (*place, name)
        seen.add(name)
        if len(place) + 1 < LEVELS and (place or name == "paths"):
            yield from _repeated(each, (*place, name))
