"""The option `coerce` of a tool: numbers and booleans that are written as text are accepted and converted."""

from collections.abc import Callable, Mapping

from agenttool.ports.tool import Normalize
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members

_TEXTS: Mapping[str, JsonObject] = {
    "integer": {"type": "string", "pattern": r"^[-+]?[0-9]{1,18}$"},
    "number": {"type": "string", "pattern": r"^[-+]?[0-9]{1,18}(\.[0-9]{1,18})?$"},
    "boolean": {"enum": ["true", "false"]},
}
"""The texts that are converted, by the type of the field."""

_READ: Mapping[str, Callable[[str], Json]] = {"integer": int, "number": float, "boolean": "true".__eq__}


def lenient_schema(schema: JsonObject) -> JsonObject:
    """Return a schema whose number and boolean fields also accept text; a field keeps its description and default."""
    properties = {name: _lenient(field) for name, field in members(schema, "properties").items()}
    return {**schema, "properties": properties}


def _lenient(field: Json) -> Json:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(field, dict) or not isinstance(kind, str) or kind not in _TEXTS:
        return field
    about = {name: field[name] for name in ("description", "default", "title") if name in field}
    strict = {name: value for name, value in field.items() if name not in about}
    return {**about, "anyOf": [strict, {**_TEXTS[kind]}]}


def coercing(schema: JsonObject, normalize: Normalize | None) -> Normalize:
    """Return a function that converts the texts of number and boolean fields, and then normalizes as the author says.

    The change is recorded as any other normalization.
    """
    kinds = {
        name: field["type"]
        for name, field in members(schema, "properties").items()
        if isinstance(field, dict) and isinstance(field.get("type"), str) and field["type"] in _TEXTS
    }

    def convert(given: JsonObject) -> JsonObject:
        converted: JsonObject = {
            name: _READ[str(kinds[name])](value) if name in kinds and isinstance(value, str) else value
            for name, value in given.items()
        }
        return converted if normalize is None else normalize(converted)

    return convert
