"""Reading and writing messages: one JSON object in UTF-8, decoded strictly.

Unknown members are ignored, duplicate members are rejected, and `null` is the absence of an optional member. What a
type cannot express, such as an index within its list, a message checks when it is made. So neither side can send what
the other must reject.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TypeVar, cast, get_origin

import msgspec

from agenttool.codec import SHALLOW, is_too_deep, json_bytes
from agenttool.errors import RecordError
from agenttool.records import Json
from agenttool.schema.explain import pointer_of

_M = TypeVar("_M")


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, or an object within one. Absent and default members are not written."""


def read(data: bytes, kind: type[_M]) -> _M:
    """Return the message of a given type.

    Raises:
        RecordError: it is not JSON in UTF-8, not an object, or does not fit; the pointer says where.
    """
    try:
        message = cast("_M", _decoder(kind).decode(data))
    except msgspec.ValidationError as error:
        raise _explained(error) from None
    except RecursionError:
        raise RecordError("a message must not be nested too deeply; flatten it") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "some of the bytes are not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise RecordError(f"a message must be one JSON object in UTF-8: {reason}; repair it") from None
    _reject_ambiguous(data)
    return message


def write(message: Message) -> bytes:
    """Return the bytes of a message; a lone surrogate, which UTF-8 cannot encode, becomes a question mark.

    Raises:
        RecordError: it contains a value that JSON cannot express, such as an infinite number.
    """
    for name in _open_members(type(message)):
        json_bytes(cast("Json", getattr(message, name)))
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        plain = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        return plain.encode(errors="replace")


_encoder = msgspec.json.Encoder()
_MAX_QUOTED = 300
_QUOTE = ord('"')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,\[{]', re.DOTALL)
_LARGE, _MAX_PARTS = 1_000_000, 250_000
"""A message above this size may have this many members and items, because each costs far more than a byte of text."""


@cache
def _decoder(kind: type[object]) -> "msgspec.json.Decoder[object]":
    return msgspec.json.Decoder(kind)


@cache
def _open_members(kind: type[Message]) -> tuple[str, ...]:
    """Return the members that accept any object, and so may contain values that are not JSON."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) is dict)


def _reject_ambiguous(data: bytes) -> None:
    """Reject duplicate members, nesting that only some parsers can read, and large messages of too many parts."""
    if len(data) > _LARGE and _has_too_many_parts(data):
        raise RecordError(f"a message of this size has at most {_MAX_PARTS} members and items; send them as a text")
    try:
        value = cast("Json", json.loads(data, object_pairs_hook=_unique, parse_int=str))  # numbers do not matter here
    except RecursionError:
        value = None
    if len(data) > SHALLOW and (value is None or is_too_deep(value)):
        raise RecordError("a message must not be nested too deeply; flatten it")


def _has_too_many_parts(data: bytes) -> bool:
    """Return whether a valid document has too many members and items; stops counting at the limit."""
    parts = 0
    for token in _TOKEN.finditer(data):
        parts += data[token.start()] != _QUOTE
        if parts > _MAX_PARTS:
            return True
    return False


def _unique(members: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(members)
    if len(found) == len(members):
        return found
    duplicate = next(name for name, count in Counter(name for name, _ in members).items() if count > 1)
    raise RecordError(f"a member may occur only once, got {duplicate[:_MAX_QUOTED]!r} twice; leave one out")


_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Return the library's error with our wording and a JSON pointer."""
    text = str(error)
    path = _PATH.search(text)
    message = text[: path.start()] if path else text
    pointer = pointer_of(_steps(path["path"])) if path else ""
    missing = re.search(r"missing required field `([^`]+)`", message)
    if missing:
        return RecordError(f"a member {missing[1]!r} is required; add it", pointer=pointer + pointer_of([missing[1]]))
    message = _single_line(message)
    advice = "" if ";" in message else "; see the message's fields"
    return RecordError(f"{message[:1].lower()}{message[1:]}{advice}", pointer=pointer)


def _steps(path: str) -> Iterator[str]:
    """Yield the steps of the library's path up to the first object with arbitrary members."""
    return ("".join(step.groups(default="")) for step in _STEP.finditer(path.partition("[...]")[0]))


def _single_line(text: str) -> str:
    """Return untrusted text for logs and replies: escaped and of limited length."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_MAX_QUOTED])
