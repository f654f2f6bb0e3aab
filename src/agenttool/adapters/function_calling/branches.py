"""Telling the branches of a union apart, by what a value is or by a member that says which one is meant."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, starmap

from agenttool.adapters.function_calling.keywords import ASSERTIONS, SHAPE
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members

MOST_COMPARED = 256
"""How many branches of a union are compared, each with each; a stranger's schema may have ten thousand."""

_KIND_OF: dict[object, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def resolved(node: Json, root: JsonObject) -> JsonObject:
    """Follow a schema to where it is written down: through references and an `allOf` of one; empty if nowhere."""
    seen: set[str] = set()
    while isinstance(node, dict):
        target, wrapped = node.get("$ref"), node.get("allOf")
        if isinstance(target, str):
            if target in seen:
                return {}
            seen.add(target)
            node = definition(target, root)
        elif isinstance(wrapped, list) and len(wrapped) == 1 and "type" not in node:
            node = wrapped[0]
        else:
            return node
    return {}


def written_out(root: JsonObject) -> JsonObject:
    """Follow a whole schema to where it is written down; what it says besides on the way holds as well."""
    node, seen = root, set[str]()
    while True:
        target, wrapped = node.get("$ref"), node.get("allOf")
        if isinstance(target, str):
            if _says_besides(node, "$ref"):
                parts = wrapped if isinstance(wrapped, list) else []
                others = {key: value for key, value in node.items() if key != "$ref"}
                return {**others, "allOf": [*parts, {"$ref": target}]}
            further = None if target in seen else definition(target, root)
            seen.add(target)
        elif isinstance(wrapped, list) and len(wrapped) == 1 and not _says_besides(node, "allOf"):
            further = wrapped[0]
        else:
            return node
        if not isinstance(further, dict):
            return {}
        node = further


def _says_besides(node: JsonObject, keyword: str) -> bool:
    return any(key in ASSERTIONS or key in SHAPE for key in node if key != keyword)


def definition(target: str, root: JsonObject) -> Json:
    """Find what a reference to a definition of the schema itself, or to its whole, points at; nothing for any other."""
    match target.split("/"):
        case ["#"]:
            return root
        case ["#", ("$defs" | "definitions") as keyword, name]:
            return members(root, keyword).get(name.replace("~1", "/").replace("~0", "~"))
        case _:
            return None


def goes_round(node: JsonObject, root: JsonObject) -> bool:
    """Tell whether a reference leads to nothing but references, and in the end to one of them."""
    seen: set[str] = set()
    found: Json = node
    while isinstance(found, dict) and isinstance(target := found.get("$ref"), str):
        if target in seen:
            return True
        seen.add(target)
        found = definition(target, root)
    return False


def comes_back(target: str, root: JsonObject) -> bool:
    """Tell whether a definition leads back to itself by references, unions and combinations alone.

    Whoever follows it for one value never ends.
    """
    seen: set[str] = set()
    ahead: list[Json] = [definition(target, root)]
    while ahead:
        node = ahead.pop()
        if not isinstance(node, dict):
            continue
        for keyword in ("anyOf", "oneOf", "allOf"):
            listed = node.get(keyword)
            ahead += listed if isinstance(listed, list) else []
        further = node.get("$ref")
        if further == target:
            return True
        if isinstance(further, str) and further not in seen:
            seen.add(further)
            ahead.append(definition(further, root))
    return False


def branches_of(node: JsonObject) -> list[Json]:
    """List the branches of a union; none if it is no union."""
    for keyword in ("anyOf", "oneOf"):
        found = node.get(keyword)
        if isinstance(found, list):
            return found
    return []


def are_apart(branches: list[Json], root: JsonObject) -> bool:
    """Tell whether no value can fit two of these schemas; of very many that are no lists of values, nobody can."""
    chosen = [resolved(each, root) for each in branches]
    listed = [choices for each in chosen if (choices := _choices(each)) is not None]
    if len(listed) == len(chosen):
        return sum(map(len, listed)) == len(frozenset[str]().union(*listed))
    if len(chosen) > MOST_COMPARED:
        return False
    return all(starmap(_cannot_meet, combinations([_Branch.of(each, root) for each in chosen], 2)))


def could_be(value: Json, branch: Json, root: JsonObject) -> bool:
    """Tell whether a value is of the kind that a schema describes, as far as it takes to tell branches apart."""
    node = resolved(branch, root)
    choices = _choices(node)
    if choices is not None:
        return _spelled(value) in choices
    if _kind(value) not in _kinds(node):
        return False
    if not isinstance(value, dict):
        return True
    return all(
        name in value and _spelled(value[name]) in allowed for name, allowed in _discriminators(node, root).items()
    )


@dataclass(frozen=True, slots=True)
class _Branch:
    """What tells a branch from others, read once."""

    kinds: frozenset[str]
    choices: frozenset[str] | None
    discriminators: dict[str, frozenset[str]]

    @classmethod
    def of(cls, node: JsonObject, root: JsonObject) -> "_Branch":
        return cls(_kinds(node), _choices(node), _discriminators(node, root))


def _cannot_meet(first: _Branch, second: _Branch) -> bool:
    shared = first.kinds & second.kinds
    if not shared:
        return True
    if first.choices is not None and second.choices is not None:
        return not first.choices & second.choices
    if not shared <= {"object"}:
        return False
    mine, theirs = first.discriminators, second.discriminators
    return any(not mine[name] & theirs[name] for name in mine.keys() & theirs.keys())


def _discriminators(node: JsonObject, root: JsonObject) -> dict[str, frozenset[str]]:
    """Find the members that must be there and can only have a few values."""
    required = node.get("required")
    found = {
        name: _choices(resolved(inner, root))
        for name, inner in members(node, "properties").items()
        if isinstance(required, list) and name in required
    }
    return {name: choices for name, choices in found.items() if choices is not None}


def _choices(node: JsonObject) -> frozenset[str] | None:
    if "const" in node:
        return frozenset({_spelled(node["const"])})
    listed = node.get("enum")
    return frozenset(map(_spelled, listed)) if isinstance(listed, list) else None


def _kinds(node: JsonObject) -> frozenset[str]:
    """Name the kinds of value that a schema lets through; all of them if it does not say."""
    said = node.get("type")
    words = [said] if isinstance(said, str) else said if isinstance(said, list) else list(_own_kinds(node))
    return frozenset("number" if word == "integer" else str(word) for word in words)


def _own_kinds(node: JsonObject) -> Iterator[str]:
    listed = [node["const"]] if "const" in node else node.get("enum")
    yield from map(_kind, listed) if isinstance(listed, list) else _KIND_OF.values()


def _kind(value: Json) -> str:
    return _KIND_OF[type(value)]


def _spelled(value: Json) -> str:
    """Spell a value so that 1 and True differ, and 1 and 1.0 do not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{_kind(value)}:{value!r}"
