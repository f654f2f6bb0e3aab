"""Plain schemas, which most tools have: recognize one without compiling it, and read an input of plain values.

Decoding a schema as a record takes two microseconds; compiling it takes thirty, and kilobytes. A decoder that knows the
types of an input reads and checks it in half the time that a JSON parser and a schema validator take.
"""

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias, cast

from agenttool.codec import flat_reader, shaped
from agenttool.records import UNSET, Json, JsonObject, Part, UnsetType
from agenttool.records.record import Meta

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

_TYPES: dict[str, type] = {"integer": int, "string": str, "boolean": bool}
"""Types that a schema and a decoder check alike. A number is none of them: it may be read as either of two types."""

_OBJECT_KEYWORDS = {"type", "properties", "required", "additionalProperties", "title", "description"}
_MEMBER_KEYWORDS = {"type", "title", "description", "examples", "default"}


def typed_reader(schema: JsonObject) -> TypedReader | None:
    """Return the reader of a schema; none if the schema asks for more than a decoder can check."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.keys() - _OBJECT_KEYWORDS:
        return None
    required = set(cast("list[str]", schema.get("required") or ()))
    is_closed = schema.get("type") == "object" and schema.get("additionalProperties") is False
    if not is_closed or not required <= properties.keys():
        return None
    types = {name: _type_of(member) for name, member in properties.items() if name.isidentifier()}
    known = {name: kind for name, kind in types.items() if kind is not None}
    return flat_reader(known, required) if len(known) == len(properties) else None


def _type_of(member: Json) -> type | None:
    """Return the type of a simple value, or of a list or mapping of such; none if only the schema can check it."""
    if not isinstance(member, dict):
        return None
    kind, keywords = member.get("type"), member.keys() - _MEMBER_KEYWORDS
    if kind == "array" and keywords == {"items"}:
        item = _type_of(member["items"])
        return None if item is None else list[item]
    if kind == "object" and keywords == {"additionalProperties"}:
        item = _type_of(member["additionalProperties"])
        return None if item is None else dict[str, item]
    return _TYPES.get(kind) if isinstance(kind, str) and not keywords else None
