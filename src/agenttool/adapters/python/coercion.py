"""The option `coerce` of a tool: numbers and booleans that are written as text are accepted and converted."""

from collections.abc import Callable, Mapping

from agenttool.errors import ToolFailure
from agenttool.ports.tool import Normalize
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.signature.conversion import invalid_arguments
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
    kind = _kind_of(field)
    if kind is None or not isinstance(field, dict):
        return field
    about = {name: field[name] for name in ("description", "default", "title") if name in field}
    strict = {name: value for name, value in field.items() if name not in about}
    return {**about, "anyOf": [strict, {**_TEXTS[kind]}]}


def _kind_of(field: Json) -> str | None:
    """Return the type of a number or boolean field, also of one that may be null; none for other fields."""
    if not isinstance(field, dict):
        return None
    kind, choices = field.get("type"), field.get("anyOf")
    if isinstance(choices, list):
        others = [each for each in choices if each != {"type": "null"}]
        return _kind_of(others[0]) if len(others) == 1 else None
    return kind if isinstance(kind, str) and kind in _TEXTS else None


def coercing(schema: JsonObject, normalize: Normalize | None) -> Normalize:
    """Return a function that converts the texts of number and boolean fields, and then normalizes as the author says.

    A converted value must fit the field as the author declared it. The change is recorded as any other normalization.
    """
    fields = members(schema, "properties")
    kinds = {name: kind for name, field in fields.items() if (kind := _kind_of(field)) is not None}
    strict = Checker({**schema, "properties": {name: fields[name] for name in kinds}, "required": []})

    def convert(given: JsonObject) -> JsonObject:
        texts = {name: value for name, value in given.items() if name in kinds and isinstance(value, str)}
        read: JsonObject = {name: _READ[kinds[name]](value) for name, value in texts.items()}
        if not strict.accepts(read):
            problems = [f"at {each.pointer!r}: expected {each.expected}" for each in strict.misfits(read)]
            raise ToolFailure(invalid_arguments(f"{'; '.join(problems)}; correct the arguments and call again"))
        converted = {**given, **read}
        return converted if normalize is None else normalize(converted)

    return convert
