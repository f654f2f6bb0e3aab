"""What all messages share: one JSON object in UTF-8, read strictly, written without surprises.

A member that nobody knows is ignored, one that stands twice is refused, and `null` is the absence of an optional
member. What a shape cannot say, such as an index within its list, a message checks when it is made, so that neither
side can send what the other must refuse.
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
    """A message, or an object within one. Absent and default members are left out when written."""


def read(data: bytes, kind: type[_M]) -> _M:
    """Read one message of a known kind.

    Raises:
        RecordError: it is not JSON in UTF-8, not an object, or does not fit; the pointer says where.
    """
    try:
        message = cast("_M", _decoder(kind).decode(data))
    except msgspec.ValidationError as error:
        raise _explained(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"a message must be one JSON object in UTF-8: {_reason(error)}; repair it") from None
    _refuse_traps(data)
    return message


def write(message: Message) -> bytes:
    """Write a message; half of a surrogate pair, which no UTF-8 can say, becomes a question mark.

    Raises:
        RecordError: it holds what JSON cannot say, such as a number that is not finite.
    """
    for name in _open_members(type(message)):
        json_bytes(cast("Json", getattr(message, name)))
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        plain = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        return plain.encode(errors="replace")


_encoder = msgspec.json.Encoder()
_any: "msgspec.json.Decoder[Json]" = msgspec.json.Decoder()
_LONGEST = 300
_QUOTE = ord('"')
_COLON = re.compile(rb'"\s*:')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,\[{]', re.DOTALL)
_LARGE, _MOST_PARTS = 1_000_000, 250_000
"""A message that is larger may have so many members and items: each costs far more to look at than the bytes of a text,
and whoever sends it must not hold up everybody else."""


@cache
def _decoder(kind: type[object]) -> "msgspec.json.Decoder[object]":
    return msgspec.json.Decoder(kind)


@cache
def _open_members(kind: type[Message]) -> tuple[str, ...]:
    """Name the members that take any JSON, and so may hold what is none."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) is dict)


def _reason(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "some of the bytes are not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)


def _refuse_traps(data: bytes) -> None:
    """Refuse what two readers may take in two ways: a member that stands twice, and depths that only some can read.

    Each member has its colon, and one that stands twice has two; so nothing stands twice where there are as many colons
    behind quotes as members, which is so for nearly every message, and is quick to tell.
    """
    if len(data) <= SHALLOW and _has_each_once(data):
        return
    if len(data) > _LARGE and _is_crowded(data):
        raise RecordError(f"a message of this size has at most {_MOST_PARTS} members and items; send them as a text")
    try:
        value = cast("Json", json.loads(data, object_pairs_hook=_once, parse_int=str))  # of numbers nothing is asked
    except RecursionError:
        value = None
    if len(data) > SHALLOW and (value is None or is_too_deep(value)):
        raise RecordError("a message must not be nested too deeply; flatten it")


def _is_crowded(data: bytes) -> bool:
    """Tell whether a document that can be read has too many parts, and look at no more than it takes to know."""
    parts = 0
    for token in _TOKEN.finditer(data):
        parts += data[token.start()] != _QUOTE
        if parts > _MOST_PARTS:
            return True
    return False


def _has_each_once(data: bytes) -> bool:
    """Tell whether no member can stand twice; a number that is out of range leaves it open."""
    try:
        return len(_COLON.findall(data)) == _members(_any.decode(data))
    except msgspec.ValidationError:
        return False


def _members(value: Json) -> int:
    """Count the members of all objects in a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0


def _once(members: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(members)
    if len(found) == len(members):
        return found
    twice = next(name for name, count in Counter(name for name, _ in members).items() if count > 1)
    raise RecordError(f"a member may stand only once, got {twice[:_LONGEST]!r} twice; leave one out")


_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Turn the library's words and path into ours."""
    text = str(error)
    place = _PLACE.search(text)
    words = text[: place.start()] if place else text
    pointer = pointer_of(_steps(place["path"])) if place else ""
    missing = re.search(r"missing required field `([^`]+)`", words)
    if missing:
        return RecordError(f"a member {missing[1]!r} is required; add it", pointer=pointer + pointer_of([missing[1]]))
    words = _in_one_line(words)
    advice = "" if ";" in words else "; see the message's fields"
    return RecordError(f"{words[:1].lower()}{words[1:]}{advice}", pointer=pointer)


def _steps(path: str) -> Iterator[str]:
    """Go along the library's path as far as it names its steps: within an object of any members it does not."""
    return ("".join(step.groups(default="")) for step in _STEP.finditer(path.partition("[...]")[0]))


def _in_one_line(words: str) -> str:
    """Quote a stranger in logs and replies: without what begins a line, and no longer than anybody reads."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in words[:_LONGEST])
