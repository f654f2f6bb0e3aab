"""Which fields of a generated schema are internal, sensitive, or what rules about paths, URLs and commands look at.

Fields are told by name, and a name means that member on every level, as in `views`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from agenttool.records import Json, JsonObject
from agenttool.schema.markers import MARKERS, CommandArg, Internal, Marker, PathArg, Sensitive, UrlArg
from agenttool.schema.traverse import DATA_KEYWORDS, members, objects_in, properties_of, rebuild

_FORMATS = {
    "path": PathArg,
    "file-path": PathArg,
    "directory-path": PathArg,
    "uri": UrlArg,
    "multi-host-uri": UrlArg,
    "password": Sensitive,
}
"""What the types of pydantic say about a string without a mark of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names of fields by what is special about them."""

    internal: tuple[str, ...]
    sensitive: tuple[str, ...]
    path: tuple[str, ...]
    url: tuple[str, ...]
    command: tuple[str, ...]
    both: tuple[str, ...]
    """Internal in one place and open in another, so that no view could be right."""


def read_fields(schema: JsonObject) -> Fields:
    """Find the marks on every level; a mark inside of a list or a union belongs to the field around it."""
    found: dict[Marker, dict[str, None]] = {marker: {} for marker in MARKERS}
    unhidden: set[str] = set()
    for name, inner in properties_of(schema):
        marks = set(_marks(inner, members(schema, "$defs")))
        for marker in marks:
            found[marker][name] = None
        if Internal not in marks:
            unhidden.add(name)
    return Fields(
        internal=tuple(found[Internal]),
        sensitive=tuple(found[Sensitive]),
        path=tuple(found[PathArg]),
        url=tuple(found[UrlArg]),
        command=tuple(found[CommandArg]),
        both=tuple(name for name in found[Internal] if name in unhidden),
    )


def without_marks(schema: JsonObject, sensitive: frozenset[str]) -> JsonObject:
    """Give the schema without marks but those that rules look for, and without examples of sensitive values."""
    return rebuild(schema, partial(_unmark, sensitive))


def _unmark(sensitive: frozenset[str], node: JsonObject, *, alone: bool) -> None:
    for marker in (Internal, Sensitive):
        if node.get(marker.keyword) == marker.value:
            del node[marker.keyword]
    properties = members(node, "properties")
    for name in sensitive & properties.keys():
        for keyword in ("default", "example", "examples"):
            members(properties, name).pop(keyword, None)


def _marks(schema: Json, definitions: JsonObject) -> Iterator[Marker]:
    for node in _made_of(schema, definitions, set()):
        yield from (marker for marker in MARKERS if node.get(marker.keyword) == marker.value)
        form = node.get("format")
        if isinstance(form, str) and form in _FORMATS:
            yield _FORMATS[form]


def _made_of(value: Json, definitions: JsonObject, seen: set[str]) -> Iterator[JsonObject]:
    """Go through a schema and what it is made of, up to the properties of objects, which speak for themselves."""
    for node in objects_in(value):
        yield node
        for keyword, inner in node.items():
            if keyword == "$ref" and isinstance(inner, str) and inner not in seen:
                seen.add(inner)
                yield from _made_of(definitions.get(inner.removeprefix("#/$defs/")), definitions, seen)
            elif keyword != "properties" and keyword not in DATA_KEYWORDS:
                yield from _made_of(inner, definitions, seen)
