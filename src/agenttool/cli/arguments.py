"""The arguments of a call, read from the command line."""

from dataclasses import dataclass
from pathlib import Path

from agenttool.codec import parse_object, parse_value
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema

_PARTS = ("$schema", "$defs", "definitions", "properties")
"""The members of a schema that decide about one argument."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments as they were given; the tool's schema decides what single values mean.

    Attributes:
        values: the arguments given as JSON.
        words: the arguments given as KEY=VALUE.
    """

    values: JsonObject
    words: dict[str, str]

    def for_schema(self, schema: JsonObject) -> JsonObject:
        """Return all arguments; a word that is JSON is read as JSON, unless the schema accepts only the text."""
        return {**self.values, **{key: _value(key, text, schema) for key, text in self.words.items()}}


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
    for word in words:
        if word.find("=") < 1:
            raise RecordError(f"an argument is written KEY=VALUE, got {word!r}; or use --args with JSON")
    return Arguments(values, dict(word.split("=", 1) for word in words))


def _value(key: str, text: str, schema: JsonObject) -> Json:
    try:
        value = parse_value(text)
    except RecordError:
        return text
    properties = schema.get("properties")
    wanted = properties.get(key) if isinstance(properties, dict) else None
    if isinstance(wanted, dict) and wanted.get("type") == "string" and not isinstance(value, str):
        return text
    try:
        checker = compile_schema({name: part for name, part in schema.items() if name in _PARTS})
    except RecordError:
        return value
    return text if checker.accepts({key: text}) and not checker.accepts({key: value}) else value
