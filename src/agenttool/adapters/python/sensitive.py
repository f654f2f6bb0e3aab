"""Check the names of sensitive fields: a name that matches no field would silently redact nothing."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject

_WHOLE = ("", "$", "*", "/*")


def refuse_unknown_fields(named: Iterable[str], schema: JsonObject, function: str) -> None:
    """Reject a name that matches no field, unless the schema accepts fields of any name.

    Raises:
        ConfigError: names the unknown field and the closest known one.
    """
    known, is_open = set[str](), False
    for each in _objects(schema):
        properties = each.get("properties")
        known |= properties.keys() if isinstance(properties, dict) else set()
        is_open = is_open or _takes_any_name(each)
    for name in named:
        steps = [step for step in re.split(r"[/.\[\]]", name.removeprefix("$")) if step and step != "*"]
        is_known = name in _WHOLE or name in known or not steps or (steps[0] in known and steps[0] != name)
        if not is_known and not is_open:
            close = get_close_matches(name, sorted(known), 1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(sorted(known)) or 'none'}"
            raise ConfigError(f"{function}() has no field {name!r} that could be sensitive; {advice}")


def _objects(schema: Json) -> Iterator[JsonObject]:
    """Yield a schema and every schema inside it."""
    if isinstance(schema, dict):
        yield schema
        for name, inner in schema.items():
            members = inner.values() if name in ("properties", "$defs") and isinstance(inner, dict) else [inner]
            for each in members:
                yield from _objects(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _objects(each)


def _takes_any_name(schema: JsonObject) -> bool:
    """Return whether a value may have members that the schema does not list."""
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        return schema.get("additionalProperties") is not False
    is_unconstrained = not ({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & schema.keys())
    return is_unconstrained and "properties" not in schema
