"""Schemas as providers take them without strict mode: no member that a model may send is shut out.

A provider that refuses one schema refuses the whole request. What they refuse is mostly a matter of spelling; where it
is not, the rest is said in words, and the runtime holds the input to the schema itself in any case.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agenttool.adapters.function_calling.branches import goes_round, resolved, written_out
from agenttool.adapters.function_calling.patterns import is_simple
from agenttool.codec import json_bytes
from agenttool.records import Json, JsonObject
from agenttool.schema.drafts import modern
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
    schema = modern(schema)
    whole = {**{key: schema[key] for key in _DEFINITIONS if key in schema}, **written_out(schema)}
    apart: JsonObject = {key: whole.pop(key) for key in _NOT_AT_ROOT if key in whole}
    whole.pop("$schema", None)
    root = rebuild({**whole, "type": "object"}, Readable(schema))
    if not apart:
        return Loose(root)
    root["properties"] = _with_branches(members(root, "properties"), apart, schema)
    _open(root)
    return Loose(root, f"The arguments must also fit this JSON Schema: {json_bytes(apart).decode()}")


def argument_names(schema: JsonObject) -> Iterable[str]:
    """Name the members that a root shows, wherever it speaks of them."""
    schema = modern(schema)
    whole = written_out(schema)
    return _with_branches(members(whole, "properties"), whole, schema)


@dataclass(frozen=True, slots=True)
class Readable:
    """Makes every part of a schema one that all providers read; what they do not is said in its description."""

    root: JsonObject

    def __call__(self, node: JsonObject, /, *, alone: bool) -> None:
        """Change one schema."""
        if node.get("type") == "array":
            node.setdefault("items", {})  # it goes without saying, and some want to hear it
        if node.get("type") == "object":
            node.setdefault("properties", {})
        if goes_round(node, self.root):
            del node["$ref"]
        if "pattern" in node and not is_simple(node["pattern"]):
            tell(node, f"It matches the pattern {node.pop('pattern')}")
        patterns = members(node, "patternProperties")
        for pattern in [each for each in patterns if not is_simple(each)]:
            tell(node, f"A member whose name matches {pattern} fits {json_bytes(patterns.pop(pattern)).decode()}")
            _open(node)


def tell(node: JsonObject, words: str) -> None:
    """Say in the description of a schema what it cannot say otherwise."""
    said = node.get("description")
    node["description"] = f"{said} {words}" if isinstance(said, str) else words


def _open(node: JsonObject) -> None:
    """Let members through that are not named."""
    if node.get("additionalProperties") is False or "unevaluatedProperties" in node:
        node.pop("additionalProperties", None)
        node.pop("unevaluatedProperties", None)


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
