"""Records to JSON."""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import TypeAlias, cast

import msgspec

from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject, Part

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_sorted_encoder = msgspec.json.Encoder(order="deterministic")
_decode = msgspec.json.Decoder(JsonObject).decode
_decode_any: Callable[[bytes], Json] = msgspec.json.Decoder().decode

_FLAT = frozenset({str, int, bool, type(None)})
_NAMES = frozenset({str})
_LARGE = 4096


write: Callable[[Part], bytes] = _encoder.encode
"""Write a record as one line of JSON, its unknown fields included."""


Spelled: TypeAlias = msgspec.Raw
"""JSON that is spelled already, to be written as it is."""


def to_json(record: Part) -> JsonObject:
    """Give a record as plain JSON values, its unknown fields included; the values are the caller's own.

    Raises:
        RecordError: somebody put something into it that JSON cannot say.
    """
    return _decode(_written(_encoder, record))


def json_bytes(value: Json) -> bytes:
    """Write a JSON value as it stands, its members in their order.

    Raises:
        RecordError: it holds something that JSON cannot say, or is nested too deeply; the pointer says where.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _unwritable(error) from error
    # The library writes NaN as null, bytes as base64 and sets as arrays; such a value does not read back as itself.
    if not (len(written) > _LARGE and _is_flat(value)) and _decode_any(written) != value:
        _refuse_strangers(value)
    return written


def sorted_json(value: Json) -> bytes:
    """Write a JSON value with its members in order: equal values give equal bytes, faster than canonical JSON does.

    For keys within one process only; what leaves it is digested by `canonical_json`.

    Raises:
        RecordError: it holds something that JSON cannot say, or is nested too deeply.
    """
    return _written(_sorted_encoder, value)


def _is_flat(value: Json) -> bool:
    """Tell whether it is an object of plain values, which needs no copy to be sure of: one of them may be a book."""
    return type(value) is dict and _FLAT.issuperset(map(type, value.values())) and _NAMES.issuperset(map(type, value))


def _written(encoder: msgspec.json.Encoder, value: object) -> bytes:
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _unwritable(error) from error


def _unwritable(error: Exception) -> RecordError:
    return RecordError(f"not a JSON value: {error}; {_INSTEAD}")


_INSTEAD = "use objects, arrays, text, numbers, booleans and null"


def _refuse_strangers(value: object) -> None:
    """Look through a value that could be written, and so is neither endless nor too deep, for what is no JSON."""
    rest: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while rest:
        each, steps = rest.pop()
        if isinstance(each, dict | list | tuple):
            rest += [(inner, (*steps, step)) for step, inner in _members(cast("object", each), steps)]
        elif not (each is None or isinstance(each, str | int) or (isinstance(each, float) and isfinite(each))):
            raise _stranger(repr(each) if isinstance(each, float) else type(each).__name__, steps)


def _members(outer: object, steps: tuple[object, ...]) -> Iterable[tuple[object, object]]:
    if not isinstance(outer, dict):
        return enumerate(cast("list[object]", outer))
    members = cast("dict[object, object]", outer)
    for name in members:
        if not isinstance(name, str):
            raise _stranger(f"a member named by {type(name).__name__}", steps)
    return members.items()


def _stranger(what: str, steps: tuple[object, ...]) -> RecordError:
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return RecordError(f"not a JSON value: {what}; {_INSTEAD}", pointer=pointer)
