"""Plain schemas, which most tools have: recognize one without compiling it, and read an input of plain values.

Decoding a schema as a record takes two microseconds; compiling it takes thirty, and kilobytes. A decoder that knows the
types of an input reads and checks it in half the time that a JSON parser and a schema validator take.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias, Union, cast

from agenttool.codec import closed_object, json_bytes, parse_object, shaped, typed_reader_of
from agenttool.records import UNSET, Json, JsonObject, Part, UnsetType
from agenttool.records.record import Meta
from agenttool.schema.traverse import members

_Exact = Annotated[int, Meta(ge=-(2**53), le=2**53)]
_Count = Annotated[int, Meta(ge=0, le=2**31)]
_Scalar: TypeAlias = str | bool | _Exact | float | None
_Draft = Literal["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]


class _Value(Part, frozen=True, rename="camel"):
    """A schema of one value. A default here only means that a keyword may be absent."""

    type: Literal["string", "integer", "number", "boolean", "null", "array", "object"] = "null"
    title: str = ""
    description: str = ""
    format: str = ""
    default: _Scalar = None
    enum: tuple[_Scalar, ...] = ()
    minimum: _Exact | float = 0
    maximum: _Exact | float = 0
    exclusive_minimum: _Exact | float = 0
    exclusive_maximum: _Exact | float = 0
    min_length: _Count = 0
    max_length: _Count = 0
    min_items: _Count = 0
    max_items: _Count = 0


class _Member(_Value, frozen=True, rename="camel"):
    """A schema of one value, of a list of such, or of one of a few."""

    items: _Value | UnsetType = UNSET
    any_of: Annotated[tuple[_Value, ...], Meta(min_length=1, max_length=8)] = ()


class _Plain(Part, frozen=True, kw_only=True, rename={"draft": "$schema"}):
    """A schema of an object; as it may have no more members than this, it is not costly either."""

    type: Literal["object"]
    draft: _Draft = "https://json-schema.org/draft/2020-12/schema"
    title: str = ""
    description: str = ""
    properties: Annotated[dict[str, _Member], Meta(max_length=1000)] | UnsetType = UNSET
    required: tuple[str, ...] = ()
    additionalProperties: bool = True  # noqa: N815 -- the word of JSON Schema


def is_plain(schema: JsonObject) -> bool:
    """Return whether a schema is certainly usable; one that is not plain may be usable, too."""
    read = shaped(schema, _Plain)
    return read is not None and len({*read.required}) == len(read.required)


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
