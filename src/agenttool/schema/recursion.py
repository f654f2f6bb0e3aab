"""The work of validators that try all alternatives on each level of a value.

Where alternatives refer back to themselves, the attempts double with each level of the value. Counting them takes one
step for each alternative and value.
"""

from collections.abc import Callable, Iterator
from functools import cache

from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import IN_PLACE, members, objects_in, reachable, subschemas, value_at

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NOT_TRIED = frozenset({"properties", "additionalProperties", "$defs", "definitions"})

ExceedsWork = Callable[[Json], bool]
"""Returns whether a value takes more attempts than the limit."""


def resolve(reference: str, root: JsonObject) -> Json:
    """Return what a JSON pointer or an anchor of a schema refers to; none for another address."""
    if reference != "#" and not reference.startswith("#/"):
        return next((node for node in subschemas(root) if f"#{node.get('$anchor')}" == reference), None)
    return value_at(root, reference)


def alternative_work(root: JsonObject, limit: int, *, reads_tags: bool) -> ExceedsWork | None:
    """Return the check whether a value takes more attempts than the limit; none if no reference leads to itself.

    With `reads_tags`, the validator tries only one alternative of a union with a discriminator.
    """
    if not _is_recursive(root):
        return None

    def exceeds(value: Json) -> bool:
        known: dict[tuple[int, int], int] = {}

        def attempts(schema: Json, value: Json) -> int:
            if not isinstance(schema, dict) or not isinstance(value, dict | list):
                return 1
            key = id(schema), id(value)
            if key not in known:
                known[key] = 1  # a reference that leads to itself without a level of the value adds nothing
                inner = sum(attempts(*each) for each in _tried(schema, value, root, reads_tags=reads_tags))
                known[key] = min(1 + inner, limit + 1)
            return known[key]

        try:
            return attempts(root, value) > limit
        except RecursionError:  # it is too deep to be counted
            return True

    return exceeds


def _tried(
    schema: JsonObject, value: JsonObject | list[Json], root: JsonObject, *, reads_tags: bool
) -> Iterator[tuple[Json, Json]]:
    """Yield the schemas inside a schema with the values that they are tried on.

    Raises:
        RecursionError: a reference leads to an unknown place.
    """
    inside = value if isinstance(value, list) else value.values()
    for keyword, inner in schema.items():
        if keyword in _REFERENCES:
            found = resolve(str(inner), root) if keyword == "$ref" else None
            if found is None:
                raise RecursionError
            yield found, value
        elif keyword in IN_PLACE and not (keyword == "oneOf" and reads_tags and "discriminator" in schema):
            yield from ((each, value) for each in objects_in(inner))
        elif keyword not in _NOT_TRIED | IN_PLACE:
            yield from ((each, item) for each in objects_in(inner) for item in inside)
    if isinstance(value, dict):
        declared, other = members(schema, "properties"), schema.get("additionalProperties")
        yield from ((declared.get(name, other), each) for name, each in value.items())


def _is_recursive(root: JsonObject) -> bool:
    """Return whether a reference leads back to itself, or to an unknown place."""

    @cache
    def following(reference: str) -> set[str]:
        target = resolve(reference, root)
        return {reference} if target is None else _references_in(target)

    inside = {each: following(each) for each in reachable(_references_in(root), following)}
    while ends := [each for each, references in inside.items() if references.isdisjoint(inside)]:
        for each in ends:
            del inside[each]
    return bool(inside)


def _references_in(schema: Json) -> set[str]:
    nodes = subschemas(schema) if isinstance(schema, dict) else ()
    return {each for node in nodes for name in _REFERENCES if isinstance(each := node.get(name), str)}
