"""Tool schemas without strict mode: every provider reads them, and they exclude no input that the tool accepts.

A provider that rejects one schema rejects the whole request. What a provider cannot read moves into a description.
The runtime checks the input against the original schema in any case.
"""

from collections.abc import Container, Iterable, Mapping
from functools import partial

from agenttool.adapters.function_calling.schema_analysis import (
    are_disjoint,
    is_infinite_definition,
    is_portable_pattern,
    resolve,
    resolve_root,
)
from agenttool.codec import json_bytes
from agenttool.records import Json, JsonObject
from agenttool.schema.drafts import upgrade_schema
from agenttool.schema.traverse import DEFINITION, members, objects_in, reachable, rebuild, steps_of, subschemas

_NOT_AT_ROOT = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const")
_DEFINITIONS = ("$defs", "definitions")

_GEMINI_KEYWORDS = frozenset(
    [
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf"),
        *("properties", "additionalProperties", "required"),
    ]
)


def lenient_schema(schema: JsonObject) -> tuple[JsonObject, str | None]:
    """Return a schema that every provider takes, and a remark for the tool's description about what it leaves out.

    Members of root branches are shown, and the branches go into the remark.
    """
    schema = upgrade_schema(schema)
    whole = {**{key: schema[key] for key in _DEFINITIONS if key in schema}, **resolve_root(schema)}
    moved: JsonObject = {key: whole.pop(key) for key in _NOT_AT_ROOT if key in whole}
    whole.pop("$schema", None)
    root = rebuild({**whole, "type": "object"}, partial(_make_portable, schema))
    if not moved:
        return root, None
    root["properties"] = _with_branch_members(members(root, "properties"), moved, schema)
    _allow_more_members(root)
    return root, f"The arguments must also fit this JSON Schema: {json_bytes(moved).decode()}"


def argument_names(schema: JsonObject) -> Iterable[str]:
    """Return the argument names of a schema, those of its root branches included."""
    schema = upgrade_schema(schema)
    whole = resolve_root(schema)
    return _with_branch_members(members(whole, "properties"), whole, schema)


def gemini_schema(schema: JsonObject) -> JsonObject:
    """Rewrite a lenient schema in the subset of JSON Schema that the Gemini API documents.

    The API takes recursive references in few places, so a description replaces all of them.
    """
    whole = rebuild(schema, partial(_reduce_for_gemini, schema))
    definitions = members(whole, "$defs")
    whole.pop("$defs", None)
    references = {name: _referenced(each) for name, each in definitions.items()}
    reached = {name: reachable(found, lambda each: references.get(each, ())) for name, found in references.items()}
    rewritten = rebuild(whole, partial(_limit_reference, reached, None))
    if definitions:
        rewritten["$defs"] = {
            name: rebuild(members(definitions, name), partial(_limit_reference, reached, name)) for name in definitions
        }
    return rewritten


def _limit_reference(
    reached: Mapping[str, Container[object]], within: str | None, node: JsonObject, *, alone: bool
) -> None:
    """Replace a reference that leads back to the definition it is in, and one that leads to no definition.

    Args:
        reached: the definitions that each definition leads to.
        within: the definition that the reference is in.
        node: the schema with the reference.
        alone: not used.
    """
    target = node.get("$ref")
    if isinstance(target, str):
        name = _definition_name(target)
        if not target.startswith(DEFINITION) or name not in reached:
            node.clear()
        elif within in reached[name]:
            node.clear()
            node["description"] = f"Again as {name}."


def _describe(node: JsonObject, sentence: str) -> None:
    """Append a sentence to the description of a schema."""
    before = node.get("description")
    node["description"] = f"{before} {sentence}" if isinstance(before, str) else sentence


def _allow_more_members(node: JsonObject) -> None:
    """Allow members that are not named."""
    if node.get("additionalProperties") is False or "unevaluatedProperties" in node:
        node.pop("additionalProperties", None)
        node.pop("unevaluatedProperties", None)


def _with_branch_members(own: JsonObject, moved: JsonObject, root: JsonObject) -> JsonObject:
    """Add the members that the branches of a root name, so that a model sees them."""
    found: dict[str, list[Json]] = {name: [inner] for name, inner in own.items()}
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in objects_in(moved.get(keyword)):
            for name, inner in members(resolve(branch, root), "properties").items():
                known = found.setdefault(name, [])
                if inner not in known:
                    known.append(inner)
    return {name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in found.items()}


def _make_portable(root: JsonObject, node: JsonObject, *, alone: bool) -> None:
    """Remove from one schema what some provider rejects, and describe it in words."""
    declared = node.get("type")
    types = declared if isinstance(declared, list) else [declared]
    if "array" in types:
        node.setdefault("items", {})  # some providers require the keyword
    if "object" in types:
        node.setdefault("properties", {})
    target = node.get("$ref")
    if isinstance(target, str) and is_infinite_definition(target, root):
        del node["$ref"]
    if "pattern" in node and not is_portable_pattern(node["pattern"]):
        _describe(node, f"It matches the pattern {node.pop('pattern')}")
    patterns = members(node, "patternProperties")
    for pattern in [each for each in patterns if not is_portable_pattern(each)]:
        fitting = json_bytes(patterns.pop(pattern)).decode()
        _describe(node, f"A member whose name matches {pattern} fits {fitting}")
        _allow_more_members(node)


def _reduce_for_gemini(root: JsonObject, node: JsonObject, *, alone: bool) -> None:
    """Reduce one schema to the keywords that the Gemini API knows, and describe combinations in words."""
    branches = node.get("oneOf")
    if isinstance(branches, list):
        # The API reads it as anyOf at best; the runtime enforces it in any case.
        _join(node, branches, "exactly one of", is_same=are_disjoint(branches, root))
    parts = node.get("allOf")
    if isinstance(parts, list):
        _join(node, parts, "all of", is_same=len(parts) == 1)
    _keep_gemini_keywords(node)


def _join(node: JsonObject, schemas: list[Json], how_many: str, *, is_same: bool) -> None:
    """Write schemas as a union where that is possible, and describe what a union does not express."""
    is_free = schemas and not {"anyOf", "$ref"} & node.keys()
    if is_free and (is_same or how_many != "all of"):
        node["anyOf"] = schemas
        if not is_same:
            _describe(node, f"It fits {how_many} these.")
    elif schemas:
        _describe(node, f"It also fits {how_many} these: {json_bytes(schemas).decode()}")


def _keep_gemini_keywords(node: JsonObject) -> None:
    """Keep known keywords; definitions move to `$defs`, and a reference stands alone."""
    if "const" in node:
        node["enum"] = [node["const"]]
    choices = node.get("enum")
    if isinstance(choices, list) and not all(type(each) in (str, int, float) for each in choices):
        del node["enum"]
    if "definitions" in node:
        node["$defs"] = {**members(node, "definitions"), **members(node, "$defs")}
    if "patternProperties" in node:
        node.pop("additionalProperties", None)  # else it would exclude what the patterns allow
    _replace_boolean_schemas(node)
    _drop_undefined_required(node)
    for keyword in [each for each in node if each not in _GEMINI_KEYWORDS]:
        del node[keyword]
    target = node.get("$ref")
    if isinstance(target, str):
        reference: JsonObject = {"$ref": target.replace("#/definitions/", DEFINITION, 1)}
        del node["$ref"]
        node |= {"anyOf": [reference]} if node else reference


def _replace_boolean_schemas(node: JsonObject) -> None:
    """Write boolean schemas as empty ones, except in `additionalProperties`, where the API takes them."""
    node |= {"items": {}} if isinstance(node.get("items"), bool) else {}
    for keyword in ("anyOf", "prefixItems"):
        listed = node.get(keyword)
        if isinstance(listed, list):
            node[keyword] = [{} if isinstance(each, bool) else each for each in listed]
    for keyword in ("properties", "$defs"):
        named = members(node, keyword)
        named |= {name: {} for name, each in named.items() if isinstance(each, bool)}


def _drop_undefined_required(node: JsonObject) -> None:
    """Drop required names without a property, which the API rejects."""
    required = node.pop("required", None)
    properties, listed = members(node, "properties"), required if isinstance(required, list) else []
    defined: list[Json] = [each for each in listed if each in properties]
    if defined:
        node["required"] = defined


def _referenced(node: Json) -> frozenset[str]:
    targets = (each.get("$ref") for each in subschemas(node)) if isinstance(node, dict) else ()
    return frozenset(_definition_name(each) for each in targets if isinstance(each, str))


def _definition_name(target: str) -> str:
    return "/".join(steps_of(f"/{target.removeprefix(DEFINITION)}"))
