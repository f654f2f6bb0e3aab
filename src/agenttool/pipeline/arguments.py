"""Check and convert the arguments that callers pass."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from agenttool.codec import has_more_values, json_bytes, parse_value
from agenttool.errors import ConfigError, RecordError
from agenttool.records import Json, JsonObject

MAX_INPUT_BYTES = 1_000_000
MAX_INPUT_VALUES = 10_000
"""How large the arguments of a call may be. More can be passed as a file."""

MAX_INPUT_DIGITS = 300
"""How many digits an integer may have: the time to read and write it grows with their square."""

_LONG_INTEGER = re.compile(rb"[\[:,]\s*-?\d{%d}" % (MAX_INPUT_DIGITS + 1))

_T = TypeVar("_T")


def encode_arguments(arguments: JsonObject | str | bytes) -> bytes:
    """Return the arguments as JSON bytes, which later changes by the caller do not affect.

    Raises:
        RecordError: they are neither text nor an object, or contain a value without a JSON form.
        UnicodeError: they contain an unpaired surrogate.
    """
    if isinstance(arguments, dict):
        return json_bytes(arguments)
    if isinstance(arguments, str):
        return str.encode(arguments)
    given = cast("object", arguments)
    if isinstance(given, bytes | bytearray):
        return bytes(given)
    raise RecordError(f"arguments must be a JSON object, or its text, got {type(given).__name__}; give an object")


def refuse_large(encoded: bytes, arguments: object) -> None:
    """Refuse arguments that are too large to be checked on the event loop.

    A value follows a comma or an opening bracket, so most documents need not be read to be counted.

    Raises:
        RecordError: they have more than `MAX_INPUT_BYTES` bytes or `MAX_INPUT_VALUES` values, or a long integer.
    """
    if len(encoded) > MAX_INPUT_BYTES:
        raise RecordError(f"arguments have more than {MAX_INPUT_BYTES} bytes; pass a file, or make several calls")
    is_long = sum(map(encoded.count, (b",", b"[", b"{"))) > MAX_INPUT_VALUES
    if not is_long and _LONG_INTEGER.search(encoded) is None:
        return
    given = cast("Json", arguments) if type(arguments) is dict else parse_value(encoded, what="arguments")
    if is_long and has_more_values(given, MAX_INPUT_VALUES):
        raise RecordError(f"arguments have more than {MAX_INPUT_VALUES} values; pass a file, or make several calls")
    if _has_long_integer([given]):
        raise RecordError(f"arguments have an integer of more than {MAX_INPUT_DIGITS} digits; pass it as text")


def _has_long_integer(rest: list[Json]) -> bool:
    limit = 10**MAX_INPUT_DIGITS
    while rest:
        value = rest.pop()
        if isinstance(value, int) and abs(value) >= limit:
            return True
        if isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
    return False


def error_in_refs(**refs: object) -> str | None:
    """Return the error message of the first ref that is not valid text; none if all are valid."""
    for name, ref in refs.items():
        if ref is not None and not is_text(ref):
            return f"{name} must be text in Unicode, got {type(ref).__name__}; correct it, or leave it out"
    return None


def names_in(names: Iterable[str], argument: str = "names") -> tuple[str, ...]:
    """Return a list of names as a tuple.

    Raises:
        ConfigError: it is not a list of names.
    """
    given = cast("object", names)
    if not isinstance(given, str) and isinstance(given, Iterable):
        found = tuple(cast("Iterable[object]", given))
        if all(map(is_text, found)):
            return cast("tuple[str, ...]", found)
    raise ConfigError(f"{argument} must be a list of names, got {given!r}; put them in brackets")


def all_are(kind: type[_T], calls: Sequence[_T]) -> Sequence[_T]:
    """Return the calls of a batch, all of one type.

    Raises:
        ConfigError: it is not a list of them.
    """
    given = cast("object", calls)
    if not isinstance(given, Sequence):
        raise ConfigError(f"a batch is a list of {kind.__name__}s, got a {type(given).__name__}; put it in brackets")
    for each in cast("Sequence[object]", given):
        if not isinstance(each, kind):
            raise ConfigError(
                f"a batch is a list of {kind.__name__}s, got a {type(each).__name__}; make a {kind.__name__} of it"
            )
    return calls


def is_text(value: object) -> bool:
    """Return whether a value is text that can be encoded."""
    return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)
