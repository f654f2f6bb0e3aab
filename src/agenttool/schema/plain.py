"""Readers of plain inputs, which most tools have.

A decoder that knows the types of an input reads and checks it in half the time that a JSON parser and a schema
validator take.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal, TypeAlias, Union, cast

from agenttool.codec import closed_object, json_bytes, parse_object, typed_reader_of
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members

TypedReader: TypeAlias = Callable[[bytes], JsonObject]
"""Reads an object that fits its schema; raises one of `UNREADABLE` for any other, and for `1.0` as an integer."""

_TYPES: dict[str, type] = {"integer": int, "string": str, "boolean": bool, "number": int | float, "null": type(None)}  # pyright: ignore[reportAssignmentType] -- a union is a type to the decoder
"""Types that a schema and a decoder check alike."""

_ANNOTATIONS = {"title", "description", "examples", "default"}
_DEFINITION = "#/$defs/"
_Tag: TypeAlias = tuple[str, str | int]


class _UntypedError(Exception):
    """No type accepts just the values of a schema."""


def typed_reader(schema: JsonObject) -> TypedReader | None:
    """Return the reader of a schema; none if the schema asks for more than a decoder can check.

    A schema of closed objects, lists, mappings, plain values and their unions has one.
    """
    return _reader_of(json_bytes(schema))


@lru_cache(maxsize=1024)
def _reader_of(spelling: bytes) -> TypedReader | None:
    schema = parse_object(spelling)
    definitions = schema.pop("$defs", {})
    if schema.get("type") != "object" or "properties" not in schema or not isinstance(definitions, dict):
        return None
    try:
        return typed_reader_of(_Types(definitions).type_of(schema))
    except (_UntypedError, TypeError, ValueError, OverflowError, NotImplementedError):
        return None


class _Types:
    """The types of the schemas in one document; those of its definitions are made once."""

    def __init__(self, definitions: JsonObject) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, _Tag | None], type | None] = {}

    def type_of(  # noqa: C901, PLR0911, PLR0912 -- one case for each form of a schema
        self, schema: Json, tag: _Tag | None = None
    ) -> type:
        """Return the type of the values that fit a schema.

        Raises:
            _UntypedError, TypeError, ValueError, OverflowError, NotImplementedError: no type has just these values.
        """
        match _keywords(schema):
            case {"$ref": str(name), **rest} if not rest:
                return self._type_at(name, tag)
            case {"const": value, **rest}:
                return _literal([value], rest)
            case {"enum": list(values), **rest}:
                return _literal(values, rest)
            case {"anyOf": list(choices), **rest} if not rest:
                return _union(map(self.type_of, choices, self._tags(choices)))
            case {"oneOf": list(choices), **rest} if rest.keys() <= {"discriminator"}:
                tags = self._tags(choices)
                if None in tags:  # a value may fit several of them
                    raise _UntypedError
                return _union(map(self.type_of, choices, tags))
            case {"type": "array", "items": item, **rest} if not rest:
                return list[self.type_of(item)]
            case {"type": "object", "properties": dict(given), "additionalProperties": False, **rest} if (
                rest.keys() <= {"required"}
            ):
                required = {*cast("list[str]", rest.get("required", ()))}
                if not required <= given.keys():
                    raise _UntypedError
                own = {name: self.type_of(each) for name, each in given.items()}
                if tag is not None:
                    del own[tag[0]]
                return closed_object(own, required, tag)
            case {"type": "object", "additionalProperties": dict(item), **rest} if not rest:
                return dict[str, self.type_of(item)]
            case {"type": str(kind), **rest} if kind in _TYPES and not rest:
                return _TYPES[kind]
            case _:
                raise _UntypedError

    def _type_at(self, name: str, tag: _Tag | None) -> type:
        if (name, tag) not in self._known:
            self._known[name, tag] = None
            self._known[name, tag] = self.type_of(self._definitions.get(name.removeprefix(_DEFINITION)), tag)
        found = self._known[name, tag]
        if found is None:  # it refers to itself
            raise _UntypedError
        return found

    def _tags(self, choices: list[Json]) -> list[_Tag | None]:
        """Return for each alternative the member and the constant that distinguish it; None if there is none."""
        given = [members(self._resolved(each), "properties") for each in choices]
        objects = [each for each in given if each]
        for name in objects[0] if len(objects) > 1 else ():
            constants = [members(each, name).get("const") for each in objects]
            if len({*map(str, constants)}) == len(objects) and all(type(each) in (str, int) for each in constants):
                return [(name, cast("str", members(each, name)["const"])) if each else None for each in given]
        return [None] * len(choices)

    def _resolved(self, schema: Json) -> JsonObject:
        found = schema if isinstance(schema, dict) else {}
        name = found.get("$ref")
        return members(self._definitions, name.removeprefix(_DEFINITION)) if isinstance(name, str) else found


def _keywords(schema: Json) -> JsonObject:
    members = schema if isinstance(schema, dict) else {}
    return {name: value for name, value in members.items() if name not in _ANNOTATIONS}


def _union(types: Iterable[type]) -> type:
    """Return the union of types; the decoder rejects types that it cannot distinguish."""
    return cast("type", Union[tuple(types)])  # noqa: UP007 -- made at run time


def _literal(values: list[Json], others: JsonObject) -> type:
    """Return the type of listed texts or integers; `others` are the other keywords of the schema."""
    kinds = {type(value) for value in values}
    declared = {_TYPES.get(str(each)) for each in others.values()} or kinds
    if not kinds <= {str, int} or not others.keys() <= {"type"} or declared != kinds:
        raise _UntypedError
    return cast("type", Literal[tuple(values)])
