"""Traversal of schemas: which keywords hold schemas, and which hold plain values.

An unknown keyword counts as one that holds schemas, so no view misses a schema behind it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from agenttool.records import Json, JsonObject

_T = TypeVar("_T")

DEFINITION = "#/$defs/"
"""What a reference to a definition begins with, before its name."""

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose schemas apply to the same value."""

_COMPOSING = IN_PLACE | {"$ref", "$dynamicRef"}
_COMPOSED = IN_PLACE | {"$defs", "definitions"}

DATA_KEYWORDS = frozenset({"default", "example", "examples", "const", "enum"})
"""Keywords whose value is a document or a list of documents, not a schema."""


class SchemaEdit(Protocol):
    """Changes one schema in place; `alone` means that no other schema applies to the same value."""

    def __call__(self, schema: JsonObject, /, *, alone: bool) -> None:
        """Change the schema; the schemas inside it were changed before."""


def is_composed(schema: JsonObject) -> bool:
    """Return whether other schemas apply to the same value together with this one."""
    return not _COMPOSING.isdisjoint(schema)


def members(schema: JsonObject, keyword: str) -> JsonObject:
    """Return the object at a keyword, not a copy; a new empty one if there is none."""
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def definition_at(reference: str, definitions: JsonObject) -> JsonObject:
    """Return the definition that `#/$defs/NAME` refers to; an empty schema if there is none."""
    return members(definitions, reference.removeprefix(DEFINITION))


def choices_but_null(schema: JsonObject, keyword: str = "anyOf") -> list[JsonObject]:
    """Return the alternatives of a schema that are no schemas of null."""
    return [each for each in objects_in(schema.get(keyword)) if each.get("type") != "null"]


def steps_of(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901)."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def value_at(value: Json, pointer: str) -> Json:
    """Return what a JSON pointer leads to; none if it leads to nothing."""
    for step in steps_of(pointer):
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def reachable(starts: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> set[_T]:
    """Return all that any number of steps leads to from some starts, the starts included."""
    found: set[_T] = set()
    waiting = [*starts]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += following(each)
    return found


def subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a schema and every schema inside it."""
    yield schema
    for keyword, value in schema.items():
        if keyword in DATA_KEYWORDS:
            continue
        held = list(value.values()) if keyword in _MAPS and isinstance(value, dict) else value
        for inner in objects_in(held):
            yield from subschemas(inner)


def properties_of(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    """Yield the properties on every level, those of definitions and branches included."""
    for inner in subschemas(schema):
        yield from members(inner, "properties").items()


def rebuild(schema: JsonObject, edit: SchemaEdit, *, alone: bool = True) -> JsonObject:
    """Return a copy of a schema after `edit` changed each copied schema in place, the inner ones first."""
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
    """Yield the objects in a list of any depth, or the one given object."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from objects_in(each)


def _rebuilt(value: Json, edit: SchemaEdit, *, alone: bool) -> Json:
    if isinstance(value, list):
        return [_rebuilt(each, edit, alone=alone) for each in value]
    return rebuild(value, edit, alone=alone) if isinstance(value, dict) else value
