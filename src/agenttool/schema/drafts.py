"""Schemas of older drafts, spelled as draft 2020-12 has it: who knows no other refuses them, or reads them amiss."""

import re
from functools import partial

from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, rebuild

_NAMED = re.compile(r"https?://json-schema\.org/draft(?:/|-0?)(4|6|7|2019-09)/schema#?")
_FOURTH, _BEFORE_2019 = frozenset({"4"}), frozenset({"4", "6", "7"})
_LIMITS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_BESIDE_A_REFERENCE = frozenset(["$ref", "$defs", "definitions", "title", "description", "default", "examples"])


def modern(schema: JsonObject) -> JsonObject:
    """Give a schema as the newest draft spells it; one that is of no older draft is the very same."""
    named = schema.get("$schema")
    found = _NAMED.fullmatch(named) if isinstance(named, str) else None
    if found is None:
        return schema
    whole = rebuild(schema, partial(_spell_anew, found[1]))
    whole.pop("$schema", None)
    return whole


def _spell_anew(draft: str, node: JsonObject, *, alone: bool) -> None:
    if draft in _BEFORE_2019:
        _leave_the_reference_alone(node)
        _say_what_depends(node)
    if draft in _FOURTH:
        _say_limits(node)
    _say_items(node)


def _leave_the_reference_alone(node: JsonObject) -> None:
    """Take out what stands beside a reference, where nobody looked at it; and let an anchor be called one."""
    if isinstance(node.get("$ref"), str):
        for keyword in node.keys() - _BESIDE_A_REFERENCE:
            del node[keyword]
    own = node.get("$id")
    if isinstance(own, str) and own.startswith("#"):
        node["$anchor"] = own[1:]
        del node["$id"]


def _say_what_depends(node: JsonObject) -> None:
    if "dependencies" not in node:
        return
    named = members(node, "dependencies")
    del node["dependencies"]
    required: JsonObject = {name: each for name, each in named.items() if isinstance(each, list)}
    schemas: JsonObject = {name: each for name, each in named.items() if not isinstance(each, list)}
    node |= {"dependentRequired": required} if required else {}
    node |= {"dependentSchemas": schemas} if schemas else {}


def _say_limits(node: JsonObject) -> None:
    """Let a limit that is itself left out be a number of its own; once it was a word beside another."""
    for limit, exclusive in _LIMITS:
        is_left_out: Json = node.get(exclusive)
        if isinstance(is_left_out, bool):
            del node[exclusive]
            if is_left_out and limit in node:
                node[exclusive] = node.pop(limit)


def _say_items(node: JsonObject) -> None:
    """Say what stands at each place of a list, and what comes after that."""
    further, items = node.pop("additionalItems", None), node.get("items")
    if isinstance(items, list):
        node["prefixItems"] = node.pop("items")
        node |= {} if further is None else {"items": further}
