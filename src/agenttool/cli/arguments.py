"""The arguments of a call by the words of the command line."""

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
_MOST_HOPS = 8
"""So deep a schema is looked into; one may lead back to itself."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call as they were given; what single values mean is known once the tool is.

    Attributes:
        plain: what was given as JSON.
        words: single values, each with its key.
    """

    plain: JsonObject
    words: tuple[tuple[str, str], ...]

    def by(self, schema: JsonObject) -> JsonObject:
        """Join what was given.

        A single value that is JSON is read as such, unless the tool's schema wants a text there: `zip=01234`, `zip=1`.
        """
        properties = schema.get("properties")
        wanted = properties if isinstance(properties, dict) else {}
        return {**self.plain, **{key: _value(value, _types(wanted.get(key), schema)) for key, value in self.words}}


def read_arguments(words: list[str], args: str | None, file: Path | None) -> Arguments:
    """Read what was given: a file with a JSON object, such an object itself, and single values.

    Raises:
        RecordError: something of it is not what it should be.
    """
    plain: JsonObject = {}
    try:
        if file is not None:
            plain |= parse_object(file.read_bytes(), what=f"what {str(file)!r} holds")
    except OSError as error:
        raise RecordError(f"arguments cannot be read: {str(file)!r}: {error.strerror}; name another file") from error
    if args is not None:
        plain |= parse_object(args, what="--args")
    pairs: list[tuple[str, str]] = []
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise RecordError(f"an argument is written KEY=VALUE, got {word!r}; or use --args with JSON")
        pairs.append((key, value))
    return Arguments(plain, tuple(pairs))


def _value(text: str, types: frozenset[str]) -> Json:
    try:
        value = parse_value(text)
    except RecordError:
        return text
    is_other = "string" in types and not isinstance(value, str) and types.isdisjoint(_TYPES[type(value)])
    return text if is_other else value


def _types(schema: Json, root: JsonObject, hops: int = _MOST_HOPS) -> frozenset[str]:
    """Name the types that a schema speaks of, as far as that can be told at a glance."""
    if not isinstance(schema, dict) or not hops:
        return frozenset()
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    values = schema.get("enum")
    listed = values if isinstance(values, list) else [schema["const"]] if "const" in schema else []
    choices = schema.get("anyOf") or schema.get("oneOf")
    parts = [*(choices if isinstance(choices, list) else []), _referred(schema.get("$ref"), root)]
    of_values = (_TYPES.get(type(each), _TEXT) for each in listed)
    return frozenset(name for name in names if isinstance(name, str)).union(
        *of_values, *(_types(each, root, hops - 1) for each in parts)
    )


def _referred(ref: Json, root: JsonObject) -> Json:
    """Find what a schema refers to within the same document; nothing elsewhere is looked for."""
    found: Json = root
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    for step in ref[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
