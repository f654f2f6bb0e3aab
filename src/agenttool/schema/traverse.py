"""Going through a schema: which keywords hold schemas, and which hold plain values.

A keyword that nobody knows is taken to hold schemas, so nothing hides from a view behind one.
"""

from collections.abc import Iterator
from typing import Protocol

from agenttool.records import Json, JsonObject

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
_COMPOSING = _IN_PLACE | {"$ref", "$dynamicRef"}
_COMPOSED = _IN_PLACE | {"$defs", "definitions"}

DATA_KEYWORDS = frozenset({"default", "example", "examples", "const", "enum"})
"""Keywords whose value is a document or a list of documents, and no schema."""


class Edit(Protocol):
    """Changes one schema in place, knowing whether it stands alone: no other schema judges the same value."""

    def __call__(self, schema: JsonObject, /, *, alone: bool) -> None:
        """Change it; the schemas inside were changed before."""


def is_composed(schema: JsonObject) -> bool:
    """Tell whether other schemas judge the same value together with this one."""
    return not _COMPOSING.isdisjoint(schema)


def members(schema: JsonObject, keyword: str) -> JsonObject:
    """Give the object that stands at a keyword, the very one; a new empty one if there is none."""
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Go through a schema and every schema inside it."""
    yield schema
    for keyword, value in schema.items():
        if keyword in DATA_KEYWORDS:
            continue
        held = list(value.values()) if keyword in _MAPS and isinstance(value, dict) else value
        for inner in objects_in(held):
            yield from subschemas(inner)


def properties_of(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    """Go through the properties on every level, those of definitions and branches included."""
    for inner in subschemas(schema):
        yield from members(inner, "properties").items()


def rebuild(schema: JsonObject, edit: Edit, *, alone: bool = True) -> JsonObject:
    """Copy a schema and let `edit` change each copied schema in place, the inner ones first."""
    stands_alone = alone and not is_composed(schema)
    copy: JsonObject = {}
    for keyword, value in schema.items():
        apart = keyword not in _COMPOSED and stands_alone
        if keyword in DATA_KEYWORDS:
            copy[keyword] = value
        elif keyword in _MAPS and isinstance(value, dict):
            copy[keyword] = {name: _rebuilt(inner, edit, alone=apart) for name, inner in value.items()}
        else:
            copy[keyword] = _rebuilt(value, edit, alone=apart)
    edit(copy, alone=stands_alone)
    return copy


def objects_in(value: Json) -> Iterator[JsonObject]:
    """Go through the objects in a list of any depth, or through the one object given."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from objects_in(each)


def _rebuilt(value: Json, edit: Edit, *, alone: bool) -> Json:
    if isinstance(value, list):
        return [_rebuilt(each, edit, alone=alone) for each in value]
    return rebuild(value, edit, alone=alone) if isinstance(value, dict) else value
