"""Records to JSON."""

from collections.abc import Callable

import msgspec

from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject, Part

_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="deterministic")
_decode = msgspec.json.Decoder(JsonObject).decode


write: Callable[[Part], bytes] = _encoder.encode
"""Write a record as one line of JSON, its unknown fields included."""


def to_json(record: Part) -> JsonObject:
    """Give a record as plain JSON values, its unknown fields included; the values are the caller's own."""
    return _decode(_encoder.encode(record))


def json_bytes(value: Json) -> bytes:
    """Write a JSON value as it stands, its members in their order.

    Raises:
        RecordError: it holds something that JSON cannot say, or is nested too deeply.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(
            f"not a JSON value: {error}; use objects, arrays, text, numbers, booleans and null"
        ) from error


def sorted_json(value: Json) -> bytes:
    """Write a JSON value with its members in order: equal values give equal bytes, faster than canonical JSON does.

    For keys within one process only; what leaves it is digested by `canonical_json`.
    """
    return _sorted_encoder.encode(value)
