"""Schemas in the part of JSON Schema that the Gemini API documents; the runtime enforces the rest."""

from dataclasses import dataclass

from agenttool.adapters.function_calling.branches import are_apart, definition
from agenttool.adapters.function_calling.loose import tell
from agenttool.codec import json_bytes
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, rebuild, subschemas

_KEYWORDS = frozenset(
    [
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf"),
        *("properties", "additionalProperties", "required"),
    ]
)
_DEFINITIONS = "#/$defs/"


def documented(schema: JsonObject) -> JsonObject:
    """Spell a schema so that the API takes it; what it cannot say is left open."""
    whole = rebuild(schema, _Spelling(schema))
    names: dict[str, frozenset[str]] = {name: _referred(inner) for name, inner in members(whole, "$defs").items()}
    loops = _Loops({name: _reach(name, names) for name in names}, whole)
    spelled = loops.without(whole, None, optional=False)
    if isinstance(spelled, dict) and names:
        inner = members(whole, "$defs").items()
        spelled["$defs"] = {name: loops.without(each, name, optional=False) for name, each in inner}
    return spelled if isinstance(spelled, dict) else {}


@dataclass(frozen=True, slots=True)
class _Loops:
    """Takes out references that lead back to where they stand: the API has them in optional members only.

    Attributes:
        reach: the definitions that each of them leads to, by any number of references.
    """

    reach: dict[str, frozenset[str]]
    root: JsonObject

    def without(self, node: Json, within: str | None, *, optional: bool) -> Json:
        """Copy a part of a definition, or of the root if there is none."""
        if isinstance(node, list):
            return [self.without(each, within, optional=optional) for each in node]
        if not isinstance(node, dict):
            return node
        target = node.get("$ref")
        if isinstance(target, str):
            return self._reference(target, within, optional=optional)
        required = node.get("required")
        needed = frozenset(map(str, required)) if isinstance(required, list) else frozenset[str]()
        copy: JsonObject = {}
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                copy[keyword] = {
                    name: self.without(inner, within, optional=optional or name not in needed)
                    for name, inner in value.items()
                }
            elif keyword != "$defs":
                copy[keyword] = self.without(value, within, optional=optional)
        return copy

    def _reference(self, target: str, within: str | None, *, optional: bool) -> JsonObject:
        name = _name_in(target)
        if not target.startswith(_DEFINITIONS) or definition(target, self.root) is None:
            return {}
        is_loop = within is not None and within in self.reach.get(name, ())
        return {"description": f"Again as {name}."} if is_loop and not optional else {"$ref": target}


@dataclass(frozen=True, slots=True)
class _Spelling:
    """Keeps what the API knows of each schema, and says the rest in words where a model should hear it."""

    root: JsonObject

    def __call__(self, node: JsonObject, /, *, alone: bool) -> None:
        """Change one schema."""
        branches = node.get("oneOf")
        if isinstance(branches, list):
            # The API reads it as anyOf at best; we hold the input to it in any case.
            self._join(node, branches, "exactly one of", is_same=are_apart(branches, self.root))
        parts = node.get("allOf")
        if isinstance(parts, list):
            self._join(node, parts, "all of", is_same=len(parts) == 1)
        _keep(node)

    def _join(self, node: JsonObject, schemas: list[Json], how_many: str, *, is_same: bool) -> None:
        """Let schemas stand as the branches of a union, and say in words what that leaves out."""
        is_free = schemas and not {"anyOf", "$ref"} & node.keys()
        if is_free and (is_same or how_many != "all of"):
            node["anyOf"] = schemas
            if not is_same:
                tell(node, f"It fits {how_many} these.")
        elif schemas:
            tell(node, f"It also fits {how_many} these: {json_bytes(schemas).decode()}")


def _keep(node: JsonObject) -> None:
    """Keep what the API knows of one schema; definitions have one place there, and a reference stands alone."""
    if "const" in node:
        node["enum"] = [node["const"]]
    choices = node.get("enum")
    if isinstance(choices, list) and not all(type(each) in (str, int, float) for each in choices):
        del node["enum"]
    if "definitions" in node:
        node["$defs"] = {**members(node, "definitions"), **members(node, "$defs")}
    if "patternProperties" in node:
        node.pop("additionalProperties", None)  # else it would shut out what the patterns let through
    for keyword in [each for each in node if each not in _KEYWORDS]:
        del node[keyword]
    target = node.get("$ref")
    if isinstance(target, str):
        reference: JsonObject = {"$ref": target.replace("#/definitions/", _DEFINITIONS, 1)}
        del node["$ref"]
        node |= {"anyOf": [reference]} if node else reference


def _referred(node: Json) -> frozenset[str]:
    targets = (each.get("$ref") for each in subschemas(node)) if isinstance(node, dict) else ()
    return frozenset(_name_in(each) for each in targets if isinstance(each, str))


def _name_in(target: str) -> str:
    return target.removeprefix(_DEFINITIONS).replace("~1", "/").replace("~0", "~")


def _reach(name: str, names: dict[str, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        for each in names.get(ahead.pop(), frozenset()):
            if each not in found:
                found.add(each)
                ahead.append(each)
    return frozenset(found)
