"""Recognize plain schemas, which most tools have: they are certainly valid and need no compiling.

Decoding a schema as a record takes two microseconds; compiling it takes thirty, and kilobytes.
"""

from typing import Annotated, Literal, TypeAlias

from agenttool.codec import shaped
from agenttool.records import UNSET, JsonObject, Part, UnsetType
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
