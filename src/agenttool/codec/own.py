"""Objects of ours that are no records, written for nobody but ourselves: what a store keeps of a call under way."""

from functools import cache
from typing import TypeVar, cast

import msgspec

from agenttool.errors import RecordError

_T = TypeVar("_T")

_encoder = msgspec.json.Encoder()


def write_own(value: object) -> bytes:
    """Write a dataclass or a part, with all that is in it."""
    return _encoder.encode(value)


def read_own(data: bytes, kind: type[_T]) -> _T:
    """Read what `write_own` wrote.

    Raises:
        RecordError: it is something else.
    """
    try:
        return cast("_T", _decoder(kind).decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"not a {kind.__name__} of ours: {error}; another version wrote it") from error


@cache
def _decoder(kind: type[object]) -> "msgspec.json.Decoder[object]":
    return msgspec.json.Decoder(kind)
