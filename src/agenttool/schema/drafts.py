"""The draft of a schema, and the upgrade of older drafts to draft 2020-12, for providers that support no other."""

import re
from functools import partial

from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, rebuild, subschemas

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

_NAMED = re.compile(r"https?://json-schema\.org/draft(?:/|-0?)(4|6|7|2019-09)/schema#?")
EXCLUSIVE_LIMITS = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_BESIDE_A_REFERENCE = frozenset(["$ref", "$defs", "definitions", "title", "description", "default", "examples"])


def implies_draft_4(schema: JsonObject) -> bool:
    """Return whether a schema that names no draft has a boolean as exclusive limit, which only draft 4 allows."""
    if "$schema" in schema:
        return False
    limits = (each.get(exclusive) for each in subschemas(schema) for exclusive in EXCLUSIVE_LIMITS.values())
    return any(isinstance(each, bool) for each in limits)


def upgrade_schema(schema: JsonObject) -> JsonObject:
    """Return a schema in draft 2020-12; the same object if it is of no older draft."""
    named = DRAFT_4 if implies_draft_4(schema) else schema.get("$schema")
    found = _NAMED.fullmatch(named) if isinstance(named, str) else None
    if found is None:
        return schema
    upgraded = rebuild(schema, partial(_upgrade, found[1]))
    upgraded.pop("$schema", None)
    return upgraded


def _upgrade(draft: str, node: JsonObject, *, alone: bool) -> None:
    if draft != "2019-09":
        _upgrade_reference(node)
        _upgrade_dependencies(node)
    if draft == "4":
        upgrade_limits(node)
    _upgrade_items(node)


def _upgrade_reference(node: JsonObject) -> None:
    """Remove the keywords beside a reference, which older drafts ignore, and spell an anchor as `$anchor`."""
    if isinstance(node.get("$ref"), str):
        for keyword in node.keys() - _BESIDE_A_REFERENCE:
            del node[keyword]
    own = node.get("$id")
    if isinstance(own, str) and own.startswith("#"):
        node["$anchor"] = own[1:]
        del node["$id"]


def _upgrade_dependencies(node: JsonObject) -> None:
    if "dependencies" not in node:
        return
    named = members(node, "dependencies")
    del node["dependencies"]
    required: JsonObject = {name: each for name, each in named.items() if isinstance(each, list)}
    schemas: JsonObject = {name: each for name, each in named.items() if not isinstance(each, list)}
    node |= {"dependentRequired": required} if required else {}
    node |= {"dependentSchemas": schemas} if schemas else {}


def upgrade_limits(node: JsonObject) -> None:
    """Replace the boolean of an exclusive limit, as draft 4 has it, by the limit itself."""
    for limit, exclusive in EXCLUSIVE_LIMITS.items():
        is_exclusive: Json = node.get(exclusive)
        if isinstance(is_exclusive, bool):
            del node[exclusive]
            if is_exclusive and limit in node:
                node[exclusive] = node.pop(limit)


def _upgrade_items(node: JsonObject) -> None:
    """Spell the schemas of single places as `prefixItems`, and the rest as `items`."""
    further, items = node.pop("additionalItems", None), node.get("items")
    if isinstance(items, list):
        node["prefixItems"] = node.pop("items")
        node |= {} if further is None else {"items": further}
