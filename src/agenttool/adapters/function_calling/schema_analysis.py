"""Analysis of JSON Schemas: where references lead, whether unions overlap, which patterns are portable."""

import re
from itertools import combinations, starmap
from typing import NamedTuple

from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members

SHAPE_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "format"}
)
CONSTRAINT_KEYWORDS = frozenset(
    [
        *("pattern", "minLength", "maxLength", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("prefixItems", "additionalItems", "unevaluatedItems"),
        *("minProperties", "maxProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
        *("not", "if", "then", "else", "allOf", "anyOf", "oneOf"),
        *("$ref", "$dynamicRef", "$recursiveRef", "$id"),
    ]
)
"""Keywords that constrain a value, besides those of its shape. All other keywords are annotations or unknown."""

MAX_COMPARED_BRANCHES = 256
"""Branches of a union are compared pairwise up to this number; a foreign schema may have ten thousand."""

_PORTABLE_PATTERN = re.compile(
    r"""(?:
        [^\\\[(]                                  # a character, an anchor, a quantifier
      | \((?!\?) | \(\?:                          # a group, capturing or not
      | \\[dDwWsStnrfv]                           # a class or control character with a letter
      | \\x[0-9A-Fa-f]{2} | \\u[0-9A-Fa-f]{4}
      | \\[^0-9A-Za-z]                            # an escaped punctuation character
      | \[\^?(?: [^\\\[\]] | \\[dDwWsStnrfv] | \\x[0-9A-Fa-f]{2} | \\u[0-9A-Fa-f]{4} | \\[^0-9A-Za-z] )+\]
    )*""",
    re.VERBOSE | re.DOTALL,
)

_JSON_TYPES: dict[object, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def is_portable_pattern(pattern: Json) -> bool:
    """Return whether every provider reads a regular expression; one that it does not read fails a whole request.

    Look-arounds, back references, named groups, flags and dialect-specific escapes are not portable.
    """
    return isinstance(pattern, str) and _PORTABLE_PATTERN.fullmatch(pattern) is not None


def json_type_of(value: Json) -> str:
    """Return the JSON type of a value; an integer is a number."""
    return _JSON_TYPES[type(value)]


def constraints_in(node: JsonObject) -> set[str]:
    """Return the keywords of one schema that constrain its value."""
    return {key for key in node if key in CONSTRAINT_KEYWORDS or key in SHAPE_KEYWORDS}


def definition(target: str, root: JsonObject) -> Json:
    """Return what a reference to the root or to one of its definitions points at; None for any other reference."""
    match target.split("/"):
        case ["#"]:
            return root
        case ["#", ("$defs" | "definitions") as keyword, name]:
            return members(root, keyword).get(unescape_pointer(name))
        case _:
            return None


def unescape_pointer(token: str) -> str:
    """Decode one token of a JSON Pointer."""
    return token.replace("~1", "/").replace("~0", "~")


def resolve(node: Json, root: JsonObject) -> JsonObject:
    """Follow references and single-element `allOf`s to a schema; an empty schema if they lead nowhere."""
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


def resolve_root(root: JsonObject) -> JsonObject:
    """Follow the references of a root; constraints beside a reference become an `allOf` with it."""
    node, seen = root, set[str]()
    while True:
        target, wrapped = node.get("$ref"), node.get("allOf")
        if isinstance(target, str):
            if constraints_in(node) - {"$ref"}:
                parts = wrapped if isinstance(wrapped, list) else []
                others = {key: value for key, value in node.items() if key != "$ref"}
                return {**others, "allOf": [*parts, {"$ref": target}]}
            following = None if target in seen else definition(target, root)
            seen.add(target)
        elif isinstance(wrapped, list) and len(wrapped) == 1 and not constraints_in(node) - {"allOf"}:
            following = wrapped[0]
        else:
            return node
        if not isinstance(following, dict):
            return {}
        node = following


def is_infinite_definition(target: str, root: JsonObject) -> bool:
    """Return whether a definition reaches itself by references and combinations alone, so that no value ends it."""
    seen: set[str] = set()
    pending: list[Json] = [definition(target, root)]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        for keyword in ("anyOf", "oneOf", "allOf"):
            listed = node.get(keyword)
            pending += listed if isinstance(listed, list) else []
        following = node.get("$ref")
        if following == target:
            return True
        if isinstance(following, str) and following not in seen:
            seen.add(following)
            pending.append(definition(following, root))
    return False


def union_branches(node: JsonObject) -> list[Json]:
    """Return the branches of a union; none if the schema is no union."""
    for keyword in ("anyOf", "oneOf"):
        found = node.get(keyword)
        if isinstance(found, list):
            return found
    return []


def are_disjoint(branches: list[Json], root: JsonObject) -> bool:
    """Return whether no value fits two of these schemas; False for too many branches that are not lists of values."""
    chosen = [resolve(each, root) for each in branches]
    listed = [choices for each in chosen if (choices := _choices(each)) is not None]
    if len(listed) == len(chosen):
        return sum(map(len, listed)) == len(frozenset[str]().union(*listed))
    if len(chosen) > MAX_COMPARED_BRANCHES:
        return False
    compared = [_UnionBranch(_types(each), _choices(each), _discriminators(each, root)) for each in chosen]
    return all(starmap(_is_disjoint_pair, combinations(compared, 2)))


def matches_branch(value: Json, branch: Json, root: JsonObject) -> bool:
    """Return whether a value has the type, the choices and the discriminators of a branch; checks nothing else."""
    node = resolve(branch, root)
    choices = _choices(node)
    if choices is not None:
        return _canonical(value) in choices
    if json_type_of(value) not in _types(node):
        return False
    if not isinstance(value, dict):
        return True
    return all(
        name in value and _canonical(value[name]) in allowed for name, allowed in _discriminators(node, root).items()
    )


class _UnionBranch(NamedTuple):
    """What distinguishes a branch from others, computed once."""

    types: frozenset[str]
    choices: frozenset[str] | None
    discriminators: dict[str, frozenset[str]]


def _is_disjoint_pair(first: _UnionBranch, second: _UnionBranch) -> bool:
    shared = first.types & second.types
    if not shared:
        return True
    if first.choices is not None and second.choices is not None:
        return not first.choices & second.choices
    if not shared <= {"object"}:
        return False
    left, right = first.discriminators, second.discriminators
    return any(not left[name] & right[name] for name in left.keys() & right.keys())


def _discriminators(node: JsonObject, root: JsonObject) -> dict[str, frozenset[str]]:
    """Return the required members that only take listed values."""
    required = node.get("required")
    found = {
        name: _choices(resolve(inner, root))
        for name, inner in members(node, "properties").items()
        if isinstance(required, list) and name in required
    }
    return {name: choices for name, choices in found.items() if choices is not None}


def _choices(node: JsonObject) -> frozenset[str] | None:
    if "const" in node:
        return frozenset({_canonical(node["const"])})
    listed = node.get("enum")
    return frozenset(map(_canonical, listed)) if isinstance(listed, list) else None


def _types(node: JsonObject) -> frozenset[str]:
    """Return the JSON types that a schema allows, integers as numbers; all types if it names none."""
    declared = node.get("type")
    listed = [node["const"]] if "const" in node else node.get("enum")
    if isinstance(declared, str | list):
        names = [declared] if isinstance(declared, str) else declared
    else:
        names = [json_type_of(each) for each in listed] if isinstance(listed, list) else _JSON_TYPES.values()
    return frozenset("number" if name == "integer" else str(name) for name in names)


def _canonical(value: Json) -> str:
    """Write a value so that 1 and True differ, and 1 and 1.0 do not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{json_type_of(value)}:{value!r}"
