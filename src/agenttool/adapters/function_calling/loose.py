"""Schemas as providers take them without strict mode: no member that a model may send is shut out.

A provider that refuses one schema refuses the whole request. What they refuse is mostly a matter of spelling; where it
is not, the rest is said in words, and the runtime holds the input to the schema itself in any case.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agenttool.adapters.function_calling.branches import resolved
from agenttool.codec import json_bytes
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, objects_in, rebuild

_NOT_AT_ROOT = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const")
_DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Loose:
    """A schema for a provider, and what it leaves to be said in words."""

    schema: JsonObject
    remark: str | None = None


def loose_form(schema: JsonObject) -> Loose:
    """Spell a schema so that every provider takes it; what a branch of its root says of a member is shown as a hint."""
    whole = {**{key: schema[key] for key in _DEFINITIONS if key in schema}, **resolved(schema, schema)}
    apart: JsonObject = {key: whole.pop(key) for key in _NOT_AT_ROOT if key in whole}
    whole.pop("$schema", None)
    root = rebuild({**whole, "type": "object"}, _completed)
    if not apart:
        return Loose(root)
    root["properties"] = _with_branches(members(root, "properties"), apart, schema)
    if root.get("additionalProperties") is False or "unevaluatedProperties" in root:
        root.pop("additionalProperties", None)
        root.pop("unevaluatedProperties", None)
    return Loose(root, f"The arguments must also fit this JSON Schema: {json_bytes(apart).decode()}")


def argument_names(schema: JsonObject) -> Iterable[str]:
    """Name the members that a root shows, wherever it speaks of them."""
    whole = resolved(schema, schema)
    return _with_branches(members(whole, "properties"), whole, schema)


def _completed(node: JsonObject, *, alone: bool) -> None:
    """Say what goes without saying, because some providers want to hear it."""
    if node.get("type") == "array":
        node.setdefault("items", {})
    if node.get("type") == "object":
        node.setdefault("properties", {})


def _with_branches(own: JsonObject, apart: JsonObject, root: JsonObject) -> JsonObject:
    """Show the members that the branches of a root speak of, so that a model knows them."""
    found: dict[str, list[Json]] = {name: [inner] for name, inner in own.items()}
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in objects_in(apart.get(keyword)):
            for name, inner in members(resolved(branch, root), "properties").items():
                known = found.setdefault(name, [])
                if inner not in known:
                    known.append(inner)
    return {name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in found.items()}
