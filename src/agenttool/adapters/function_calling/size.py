"""How large a strict schema may be: providers count its properties, its choices, its levels and its words."""

from collections.abc import Iterable

from agenttool.adapters.function_calling.dialect import Dialect
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, subschemas

_MAPS = ("properties", "$defs", "definitions")


def too_large(schema: JsonObject, dialect: Dialect) -> str | None:
    """Say beyond which limit of a dialect a strict schema is; nothing if it is within all of them."""
    parts = list(subschemas(schema))
    choices = [listed for each in parts if isinstance(listed := each.get("enum"), list)]
    names = [name for each in parts for keyword in _MAPS for name in members(each, keyword)]
    long = [each for each in choices if len(each) > dialect.many_choices and _length(each) > dialect.max_choices_text]
    counted = (
        (
            sum(len(members(each, "properties")) for each in parts),
            dialect.max_properties,
            "it has more than {} properties",
        ),
        (sum(map(len, choices)), dialect.max_choices, "it has more than {} choices"),
        (_length(names) + sum(map(_length, choices)), dialect.max_text, "its names and choices are longer than {}"),
        (len(long), 0, f"{dialect.many_choices} choices and more are longer than {dialect.max_choices_text}"),
        (_depth(schema), dialect.max_depth, "it is nested more than {} levels deep"),
    )
    return next((told.format(most) for count, most, told in counted if count > most), None)


def _length(words: Iterable[Json]) -> int:
    return sum(len(each) for each in words if isinstance(each, str))


def _depth(node: Json) -> int:
    """Count the objects inside of each other."""
    if isinstance(node, list):
        return max(map(_depth, node), default=0)
    if not isinstance(node, dict):
        return 0
    return max(map(_depth, node.values()), default=0) + (1 if "additionalProperties" in node else 0)
