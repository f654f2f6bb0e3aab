"""Undoing what strict modes make of what may be left out: a null that only stood for nothing goes."""

from agenttool.adapters.function_calling.branches import branches_of, could_be, resolved
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members


def restored(value: Json, schema: Json, root: JsonObject) -> Json:
    """Give a value as the schema itself would have it; one without such nulls is the very same."""
    node = resolved(schema, root)
    branches = branches_of(node)
    if branches:
        branch = next((each for each in branches if could_be(value, each, root)), None)
        return value if branch is None else restored(value, branch, root)
    if isinstance(value, dict):
        return _restored_object(value, node, root)
    if isinstance(value, list):
        items = [restored(each, node.get("items"), root) for each in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def needs_restoring(schema: Json, root: JsonObject) -> bool:
    """Tell whether something that may be left out stands anywhere in a schema."""
    return _needs(schema, root, set())


def _restored_object(value: JsonObject, node: JsonObject, root: JsonObject) -> JsonObject:
    optional = _optional(node)
    properties = members(node, "properties")
    kept = {name: inner for name, inner in value.items() if inner is not None or name not in optional}
    whole = {name: restored(inner, properties.get(name), root) for name, inner in kept.items()}
    is_same = len(whole) == len(value) and all(whole[name] is value[name] for name in whole)
    return value if is_same else whole


def _optional(node: JsonObject) -> frozenset[str]:
    required = node.get("required")
    properties = members(node, "properties").keys()
    return frozenset(properties) - frozenset(map(str, required) if isinstance(required, list) else ())


def _needs(schema: Json, root: JsonObject, seen: set[int]) -> bool:
    node = resolved(schema, root)
    if id(node) in seen:
        return False
    seen.add(id(node))
    if _optional(node):
        return True
    inner = [*members(node, "properties").values(), node.get("items"), *branches_of(node)]
    return any(_needs(each, root, seen) for each in inner if isinstance(each, dict))
