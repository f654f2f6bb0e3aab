"""Read and check an input of plain values in one pass.

Most tools take a few integers, texts and booleans. A decoder that knows their types reads such an input and checks it
in half the time that a JSON parser and a schema validator take.
"""

from collections.abc import Callable
from typing import TypeAlias, cast

from agenttool.codec import flat_reader
from agenttool.records import Json, JsonObject

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
