"""The arguments of a call, read from the command line."""

from dataclasses import dataclass
from pathlib import Path

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

_TEXT = frozenset({"string"})
_MAX_DEPTH = 8
"""How deep references and alternatives of a schema are followed; a schema may refer to itself."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments as they were given; the tool's schema decides what single values mean.

    Attributes:
        values: the arguments given as JSON.
        words: the arguments given as KEY=VALUE.
    """

    values: JsonObject
    words: tuple[tuple[str, str], ...]

    def for_schema(self, schema: JsonObject) -> JsonObject:
        """Return all arguments; a word that is JSON is read as JSON, unless the schema wants a string there."""
        properties = schema.get("properties")
        wanted = properties if isinstance(properties, dict) else {}
        return {**self.values, **{key: _value(text, _types(wanted.get(key), schema)) for key, text in self.words}}


def read_arguments(words: list[str], args: str | None, file: Path | None) -> Arguments:
    """Read a file with a JSON object, a JSON object, and KEY=VALUE words; later ones override earlier ones.

    Raises:
        RecordError: one of them cannot be read.
    """
    values: JsonObject = {}
    try:
        if file is not None:
            values |= parse_object(file.read_bytes(), what=f"the content of {str(file)!r}")
    except OSError as error:
        raise RecordError(f"arguments cannot be read: {str(file)!r}: {error.strerror}; name another file") from error
    if args is not None:
        values |= parse_object(args, what="--args")
    pairs: list[tuple[str, str]] = []
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise RecordError(f"an argument is written KEY=VALUE, got {word!r}; or use --args with JSON")
        pairs.append((key, value))
    return Arguments(values, tuple(pairs))


def _value(text: str, types: frozenset[str]) -> Json:
    try:
        value = parse_value(text)
    except RecordError:
        return text
    is_text = "string" in types and not isinstance(value, str) and types.isdisjoint(_TYPES[type(value)])
    return text if is_text else value


def _types(schema: Json, root: JsonObject, depth: int = _MAX_DEPTH) -> frozenset[str]:
    """Return the JSON types that a schema names, as far as that is visible without evaluating it."""
    if not isinstance(schema, dict) or not depth:
        return frozenset()
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    values = schema.get("enum")
    listed = values if isinstance(values, list) else [schema["const"]] if "const" in schema else []
    choices = schema.get("anyOf") or schema.get("oneOf")
    parts = [*(choices if isinstance(choices, list) else []), _resolve(schema.get("$ref"), root)]
    of_values = (_TYPES.get(type(each), _TEXT) for each in listed)
    return frozenset(name for name in names if isinstance(name, str)).union(
        *of_values, *(_types(each, root, depth - 1) for each in parts)
    )


def _resolve(ref: Json, root: JsonObject) -> Json:
    """Return what a reference within the same document leads to; none for other references."""
    found: Json = root
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    for step in ref[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
