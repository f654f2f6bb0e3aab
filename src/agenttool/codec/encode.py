"""Encode records and JSON values."""

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
"""Encode a record as one line of JSON, with its unknown members."""


RawJson: TypeAlias = msgspec.Raw
"""JSON that is encoded already."""


def write_own(value: object) -> bytes:
    """Encode a value that is known to be encodable: a part, or JSON that was decoded before. `read_own` decodes it."""
    return _encoder.encode(value)


def to_json(record: Part) -> JsonObject:
    """Return a record as new plain JSON values, with its unknown members.

    Raises:
        RecordError: it holds a value that JSON cannot represent.
    """
    return _decode(_written(_encoder, record))


def json_bytes(value: Json) -> bytes:
    """Encode a JSON value with its members in their order.

    Raises:
        RecordError: it holds a value that JSON cannot represent, or is nested too deeply; the pointer names the place.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_encodable(error) from error
    # msgspec encodes NaN as null, bytes as base64 and sets as arrays; such a value does not round-trip.
    if not (len(written) > _LARGE and _is_flat(value)) and _decode_any(written) != value:
        _reject_non_json(value)
    return written


def sorted_json(value: Json) -> bytes:
    """Encode a JSON value with sorted members: equal values give equal bytes, faster than canonical JSON.

    For keys within one process only; digests in records use `canonical_json`.

    Raises:
        RecordError: it holds a value that JSON cannot represent, or is nested too deeply.
    """
    return _written(_sorted_encoder, value)


def _is_flat(value: Json) -> bool:
    """Return whether it is an object of plain values, which always round-trips and may be large."""
    return type(value) is dict and _FLAT.issuperset(map(type, value.values())) and _NAMES.issuperset(map(type, value))


def _written(encoder: msgspec.json.Encoder, value: object) -> bytes:
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_encodable(error) from error


def _not_encodable(error: Exception) -> RecordError:
    return RecordError(f"not a JSON value: {error}; {_INSTEAD}")


_INSTEAD = "use objects, arrays, text, numbers, booleans and null"


def _reject_non_json(value: object) -> None:
    """Raise for the first value that JSON cannot represent; the value is finite and not too deep."""
    rest: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while rest:
        each, steps = rest.pop()
        if isinstance(each, dict | list | tuple):
            rest += [(inner, (*steps, step)) for step, inner in _members(cast("object", each), steps)]
        elif not (each is None or isinstance(each, str | int) or (isinstance(each, float) and isfinite(each))):
            raise _not_json(repr(each) if isinstance(each, float) else type(each).__name__, steps)


def _members(outer: object, steps: tuple[object, ...]) -> Iterable[tuple[object, object]]:
    if not isinstance(outer, dict):
        return enumerate(cast("list[object]", outer))
    members = cast("dict[object, object]", outer)
    for name in members:
        if not isinstance(name, str):
            raise _not_json(f"a member named by {type(name).__name__}", steps)
    return members.items()


def _not_json(what: str, steps: tuple[object, ...]) -> RecordError:
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return RecordError(f"not a JSON value: {what}; {_INSTEAD}", pointer=pointer)
