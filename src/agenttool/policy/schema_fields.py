"""Where a JSON Schema has arguments that rules look at, and whether it leaves room for more than it names."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from agenttool.policy.field_names import MatchingField, field_hinted, field_named
from agenttool.policy.pointers import steps_of
from agenttool.records import Json, JsonObject

Steps = tuple[str, ...]

MAX_DEPTH = 8
"""How deep a schema is looked through; what lies deeper counts as room for anything."""

MAX_VISITS = 2000
"""How many places of a schema are looked at; one that leads in circles has no end of them."""

_SAME_PLACE = ("anyOf", "oneOf", "allOf", "if", "then", "else", "dependentSchemas")
_EACH_MEMBER = ("items", "prefixItems", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties")
_SAID_ELSEWHERE = frozenset({"enum", "const", "$ref", *_SAME_PLACE})


@dataclass(slots=True)
class SchemaFields:
    """What was found in the schemas of one tool.

    Attributes:
        is_open: whether arguments may have members that no schema names, and that so can be told only from a call.
    """

    places: list[tuple[MatchingField, Steps]] = field(default_factory=list["tuple[MatchingField, Steps]"])
    is_open: bool = False


def search_schemas(schemas: Iterable[JsonObject]) -> SchemaFields:
    """Look through the schemas of a tool's input, each of which may know something."""
    found = SchemaFields()
    for schema in schemas:
        _Search(schema, found).look(schema, ())
    return found


class _Search:
    """Walks one schema; what it cannot follow leaves room for anything."""

    def __init__(self, root: JsonObject, found: SchemaFields) -> None:
        self._root = root
        self._found = found
        self._seen: set[tuple[int, Steps]] = set()

    def look(self, schema: Json, steps: Steps, *, is_closed: bool = False) -> None:
        """Look at one place of the arguments and below it; `is_closed` if a schema around this one names all of it."""
        visit = (id(schema), steps)
        if visit in self._seen:
            return
        if not isinstance(schema, dict) or len(steps) > MAX_DEPTH or len(self._seen) >= MAX_VISITS:
            self._found.is_open = self._found.is_open or schema is not False
            return
        self._seen.add(visit)
        kind = field_hinted(schema) or (field_named(steps[-1]) if steps and _may_be_text(schema) else None)
        if kind is not None:
            self._found.places.append((kind, steps))
        is_closed = is_closed or False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
        self._found.is_open = self._found.is_open or _leaves_room(schema, is_closed=is_closed)
        for inner in self._beside(schema):
            self.look(inner, steps, is_closed=is_closed)
        for name, inner in _below(schema):
            self.look(inner, (*steps, name))

    def _beside(self, schema: JsonObject) -> Iterator[Json]:
        """Give the schemas that speak of the same place."""
        if "$ref" in schema:
            yield self._target(schema["$ref"])
        if "$dynamicRef" in schema:
            yield None
        for keyword in _SAME_PLACE:
            if keyword in schema:
                yield from _listed(schema[keyword], keyword == "dependentSchemas")

    def _target(self, ref: Json) -> Json:
        """Follow a reference inside the same document; one that leads elsewhere is nothing."""
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            return None
        target: Json = self._root
        for step in steps_of(ref[1:]):
            target = target.get(step) if isinstance(target, dict) else None
        return target


def _below(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    """Give the schemas of members, each with the step that leads there; `*` is any."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        yield from properties.items()
    for keyword in _EACH_MEMBER:
        if keyword in schema:
            yield from (("*", each) for each in _listed(schema[keyword]) if not isinstance(each, bool))
    if "patternProperties" in schema:
        yield from (("*", each) for each in _listed(schema["patternProperties"], is_map=True))


def _listed(value: object, is_map: bool = False) -> Iterable[Json]:  # noqa: FBT001, FBT002 -- read beside its keyword
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        return members.values() if is_map else (members,)
    return cast("list[Json]", value) if isinstance(value, list) else ()


def _may_be_text(schema: JsonObject) -> bool:
    kinds = schema.get("type")
    return kinds is None or kinds in ("string", "array") or (isinstance(kinds, list) and "string" in kinds)


def _leaves_room(schema: JsonObject, *, is_closed: bool) -> bool:
    """Tell whether a value that fits may have members or items that this schema says nothing of."""
    said = schema.get("type")
    kinds: list[Json] = said if isinstance(said, list) else [said]
    if said is None:
        untold: list[Json] = [] if _SAID_ELSEWHERE & schema.keys() else ["object", "array"]
        kinds = ["object"] if "properties" in schema else untold
    untold_items = "array" in kinds and not {"items", "prefixItems"} & schema.keys()
    return ("object" in kinds and not is_closed) or untold_items
