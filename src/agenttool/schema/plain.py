"""Readers of plain inputs, which most tools have.

A decoder that knows the types of an input reads and checks it in half the time that a JSON parser and a schema
validator take.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias, Union, cast

from agenttool.codec import closed_object, json_bytes, parse_object, typed_reader_of
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import definition_at

TypedReader: TypeAlias = Callable[[bytes], JsonObject]
"""Reads an object that fits its schema; raises one of `UNREADABLE` for any other, and for `1.0` as an integer."""

_TYPES: dict[str, type] = {"integer": int, "string": str, "boolean": bool, "number": int | float, "null": type(None)}  # pyright: ignore[reportAssignmentType] -- a union is a type to the decoder
"""Types that a schema and a decoder check alike."""

_ANNOTATIONS = {"title", "description", "examples", "default"}


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
        self._known: dict[str, type | None] = {}

    def type_of(self, schema: Json) -> type:  # noqa: PLR0911 -- one case for each form of a schema
        """Return the type of the values that fit a schema.

        Raises:
            _UntypedError, TypeError, ValueError, OverflowError, NotImplementedError: no type has just these values.
        """
        match _keywords(schema):
            case {"$ref": str(name), **rest} if not rest:
                return self._type_at(name)
            case {"const": value, **rest}:
                return _literal([value], rest)
            case {"enum": list(values), **rest}:
                return _literal(values, rest)
            case {"anyOf": list(choices), **rest} if not rest:
                # The decoder rejects types that it cannot distinguish.
                return cast("type", Union[tuple(map(self.type_of, choices))])  # noqa: UP007 -- made at run time
            case {"type": "array", "items": item, **rest} if not rest:
                return list[self.type_of(item)]
            case {"type": "object", "properties": dict(given), "additionalProperties": False, **rest} if (
                rest.keys() <= {"required"}
            ):
                required = {*cast("list[str]", rest.get("required", ()))}
                if not required <= given.keys():
                    raise _UntypedError
                return closed_object({name: self.type_of(each) for name, each in given.items()}, required)
            case {"type": "object", "additionalProperties": dict(item), **rest} if not rest:
                return dict[str, self.type_of(item)]
            case {"type": str(kind), **rest} if kind in _TYPES and not rest:
                return _TYPES[kind]
            case _:
                raise _UntypedError

    def _type_at(self, reference: str) -> type:
        if reference not in self._known:
            self._known[reference] = None
            self._known[reference] = self.type_of(definition_at(reference, self._definitions))
        found = self._known[reference]
        if found is None:  # it refers to itself
            raise _UntypedError
        return found


def _keywords(schema: Json) -> JsonObject:
    members = schema if isinstance(schema, dict) else {}
    return {name: value for name, value in members.items() if name not in _ANNOTATIONS}


def _literal(values: list[Json], others: JsonObject) -> type:
    """Return the type of listed texts or integers; `others` are the other keywords of the schema."""
    kinds = {type(value) for value in values}
    declared = {_TYPES.get(str(each)) for each in others.values()} or kinds
    if not kinds <= {str, int} or not others.keys() <= {"type"} or declared != kinds:
        raise _UntypedError
    return cast("type", Literal[tuple(values)])
