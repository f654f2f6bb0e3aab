"""Analysis of JSON Schemas: where references lead, whether unions overlap, which patterns are portable."""

import re
from collections.abc import Iterator
from itertools import combinations, starmap

from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, objects_in, reachable, value_at

SHAPE_KEYWORDS = frozenset(
    ["type", "properties", "required", "additionalProperties", "items", "enum", "const", "format"]
)
CONSTRAINT_KEYWORDS = SHAPE_KEYWORDS.union(
    ("pattern", "minLength", "maxLength", "multipleOf"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    ("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    ("prefixItems", "additionalItems", "unevaluatedItems"),
    ("minProperties", "maxProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
    ("dependentRequired", "dependentSchemas", "dependencies"),
    ("not", "if", "then", "else", "allOf", "anyOf", "oneOf"),
    ("$ref", "$dynamicRef", "$recursiveRef", "$id"),
)
"""Keywords that constrain a value. All other keywords are annotations or unknown."""

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
    return set(node) & CONSTRAINT_KEYWORDS


def definition(target: str, root: JsonObject) -> Json:
    """Return what a reference to the root or to one of its definitions points at; None for any other reference."""
    match target.split("/"):
        case ["#"]:
            return root
        case ["#", "$defs" | "definitions", _]:
            return value_at(root, target)
        case _:
            return None


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

    def following(reference: str) -> Iterator[str]:
        return _references_in_place(definition(reference, root))

    return target in reachable(following(target), following)


def _references_in_place(schema: Json) -> Iterator[str]:
    """Yield the references of a schema and of the schemas that it combines."""
    for node in objects_in(schema):
        if isinstance(reference := node.get("$ref"), str):
            yield reference
        for keyword in ("anyOf", "oneOf", "allOf"):
            yield from _references_in_place(node.get(keyword))


def required_members(node: JsonObject) -> frozenset[str]:
    """Return the names of the members that a schema requires."""
    required = node.get("required")
    return frozenset(map(str, required)) if isinstance(required, list) else frozenset()


def union_branches(node: JsonObject) -> list[Json]:
    """Return the branches of a union; none if the schema is no union."""
    for keyword in ("anyOf", "oneOf"):
        found = node.get(keyword)
        if isinstance(found, list):
            return found
    return []


def are_disjoint(branches: list[Json], root: JsonObject) -> bool:
    """Return whether no value fits two of these schemas; False for too many branches that are not lists of values."""
    marks = [_marks(each, root) for each in branches]
    listed = [each["value"] for each in marks if "value" in each]
    if len(listed) == len(marks):
        return sum(map(len, listed)) == len(frozenset[str]().union(*listed))
    return len(marks) <= MAX_COMPARED_BRANCHES and all(starmap(_differ, combinations(marks, 2)))


def matches_branch(value: Json, branch: Json, root: JsonObject) -> bool:
    """Return whether a value has the type, the choices and the discriminators of a branch; checks nothing else."""
    given = {"type": json_type_of(value), "value": _canonical(value)}
    if isinstance(value, dict):
        given |= {f"/{name}": _canonical(inner) for name, inner in value.items()}
    return all(given.get(mark) in allowed for mark, allowed in _marks(branch, root).items())


_Marks = dict[str, frozenset[str]]
"""What distinguishes the values of a schema: their types and, if the schema lists them, the values.

For an object, also the listed values of each required member, under its name after a slash.
"""


def _marks(schema: Json, root: JsonObject) -> _Marks:
    node = resolve(schema, root)
    types, choices, required = _types(node), _choices(node), required_members(node)
    found = {"type": types} if choices is None else {"type": types, "value": choices}
    if types <= {"object"}:
        inside = {name: _choices(resolve(each, root)) for name, each in members(node, "properties").items()}
        found |= {f"/{name}": each for name, each in inside.items() if each is not None and name in required}
    return found


def _differ(first: _Marks, second: _Marks) -> bool:
    return any(not first[mark] & second[mark] for mark in first.keys() & second.keys())


def listed_values(node: JsonObject) -> list[Json] | None:
    """Return the only values that a schema allows; None if it lists none."""
    listed = [node["const"]] if "const" in node else node.get("enum")
    return listed if isinstance(listed, list) else None


def _choices(node: JsonObject) -> frozenset[str] | None:
    listed = listed_values(node)
    return None if listed is None else frozenset(map(_canonical, listed))


def _types(node: JsonObject) -> frozenset[str]:
    """Return the JSON types that a schema allows, integers as numbers; all types if it names none."""
    declared, listed = node.get("type"), listed_values(node)
    if isinstance(declared, str | list):
        names = [declared] if isinstance(declared, str) else declared
    else:
        names = _JSON_TYPES.values() if listed is None else map(json_type_of, listed)
    return frozenset("number" if name == "integer" else str(name) for name in names)


def _canonical(value: Json) -> str:
    """Write a value so that 1 and True differ, and 1 and 1.0 do not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{json_type_of(value)}:{value!r}"
