"""The arguments of a call by the words of the command line."""

from pathlib import Path
from typing import cast

from agenttool.codec import parse_object, parse_value
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject

_TYPES: dict[type, frozenset[str]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}


def read_arguments(words: list[str], args: str | None, file: Path | None, schema: JsonObject) -> JsonObject:
    """Join what was given: a JSON object, a file with one, and single values.

    A single value that is JSON is read as such, unless the tool's schema wants a text there: `zip=01234` and `zip=1`.

    Raises:
        RecordError: something of it is not what it should be.
    """
    arguments: JsonObject = {}
    try:
        if file is not None:
            arguments |= parse_object(file.read_bytes(), what=f"what {str(file)!r} holds")
    except OSError as error:
        raise RecordError(f"arguments cannot be read: {str(file)!r}: {error.strerror}; name another file") from error
    if args is not None:
        arguments |= parse_object(args, what="--args")
    properties = schema.get("properties")
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise RecordError(f"an argument is written KEY=VALUE, got {word!r}; or use --args with JSON")
        wanted = properties.get(key) if isinstance(properties, dict) else None
        arguments[key] = _value(value, _types(wanted))
    return arguments


def _value(text: str, types: frozenset[str]) -> Json:
    try:
        value = parse_value(text)
    except RecordError:
        return text
    is_other = "string" in types and not isinstance(value, str) and types.isdisjoint(_TYPES[type(value)])
    return text if is_other else value


def _types(schema: Json) -> frozenset[str]:
    """Name the types that a schema speaks of, as far as that can be told at a glance."""
    if not isinstance(schema, dict):
        return frozenset()
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    choices = cast("list[Json]", schema.get("anyOf") or schema.get("oneOf") or [])
    return frozenset(name for name in names if isinstance(name, str)).union(*map(_types, choices))
