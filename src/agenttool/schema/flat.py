"""Schemas that ask for nothing but a few plain values, which the reader of the JSON can check by itself."""

from typing import cast

from agenttool.records import Json, JsonObject

_KINDS: dict[str, type] = {"integer": int, "string": str, "boolean": bool}
"""Types whose values are the same for schema and reader; a number may come as either of two and is none of them."""

_OBJECT = {"type", "properties", "required", "additionalProperties", "title", "description"}
_MEMBER = {"type", "title", "description", "examples", "default"}


def flat_kinds(schema: JsonObject) -> dict[str, type] | None:
    """Give the members that a schema asks for, by type; nothing if it says more than a reader can check.

    Whatever a reader of all these members takes, the schema accepts. The reverse does not hold: an integer may be
    spelled `1.0`, or a member left out, and that is left to the schema.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.keys() - _OBJECT:
        return None
    is_closed = schema.get("type") == "object" and schema.get("additionalProperties") is False
    if not is_closed or not set(cast("list[str]", schema.get("required") or ())) <= properties.keys():
        return None
    kinds = {name: _kind_of(member) for name, member in properties.items() if name.isidentifier()}
    found = {name: kind for name, kind in kinds.items() if kind is not None}
    return found if len(found) == len(properties) else None


def _kind_of(member: Json) -> type | None:
    if not isinstance(member, dict) or member.keys() - _MEMBER:
        return None
    kind = member.get("type")
    return _KINDS.get(kind) if isinstance(kind, str) else None
