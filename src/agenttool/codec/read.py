"""JSON to records: fast for what we wrote ourselves, patient with everyone else.

The first try refuses unknown members, which costs nothing and is right for every record of our own. Only when it fails
is the document read again, patiently: older spellings are renamed (`synonyms`), unknown members kept (`strangers`).
"""

import re
from collections.abc import Callable
from typing import TypeVar, Union, cast

import msgspec

from agenttool.codec.strangers import read_with_strangers
from agenttool.codec.synonyms import renamed
from agenttool.errors import RecordError
from agenttool.records import CORE_OBJECTS, RECORD_TYPES, Json, JsonObject, Part, Record

_P = TypeVar("_P", bound=Part)

_DECODE = {kind: msgspec.json.Decoder(kind).decode for kinds in CORE_OBJECTS.values() for kind in kinds}
_DECODE_LINES = {kind: msgspec.json.Decoder(kind).decode_lines for kinds in CORE_OBJECTS.values() for kind in kinds}
read_object = cast("Callable[[bytes | str], JsonObject]", msgspec.json.Decoder(dict[str, object]).decode)
"""Reads any JSON object without a detour through Python; `parse_object` says what is wrong if it raises."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What `read_object` raises."""

_any_record = cast("msgspec.json.Decoder[Record]", msgspec.json.Decoder(Union[tuple(RECORD_TYPES.values())]))  # noqa: UP007 -- made of a list


def read(data: bytes | str, kind: type[_P]) -> _P:
    """Read one record of a known kind.

    Raises:
        RecordError: it is not JSON, or does not fit; the pointer says where.
    """
    try:
        return _DECODE[kind](data)  # pyright: ignore[reportReturnType] -- the table holds each kind's own decoder
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return from_json(parse_object(data), kind)


def read_lines(data: bytes, kind: type[_P]) -> list[_P]:
    """Read JSON Lines that are all of one kind, such as a piece of a log; faster than line by line.

    Raises:
        RecordError: a line is not JSON, or does not fit.
    """
    try:
        return _DECODE_LINES[kind](data)  # pyright: ignore[reportReturnType] -- the table holds each kind's own decoder
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return [read(line, kind) for line in data.splitlines() if line.strip()]


def read_any(data: bytes | str) -> Record:
    """Read one record of the kind that its `record_type` names.

    Raises:
        RecordError: it is not JSON, names no kind of record, or does not fit; the pointer says where.
    """
    try:
        return _any_record.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = parse_object(data)
    name = members.get("record_type")
    kind = RECORD_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(RECORD_TYPES)
        raise RecordError(
            f"record_type must name a kind of record, got {name!r}; use one of {known}", pointer="/record_type"
        )
    return from_json(members, kind)


def from_json(members: Json, kind: type[_P]) -> _P:
    """Read one record of a known kind from plain JSON values.

    Raises:
        RecordError: it does not fit; the pointer says where.
    """
    if not isinstance(members, dict):
        raise RecordError(f"a record must be a JSON object, got {type(members).__name__}; wrap the value in an object")
    try:
        return read_with_strangers(renamed(members, kind), kind)
    except msgspec.ValidationError as error:
        raise _explained(error) from error


def parse_object(data: bytes | str, *, what: str = "a record") -> JsonObject:
    """Read any JSON object; `what` it is matters to whoever reads what was wrong with it.

    Raises:
        RecordError: it is not JSON, or not an object.
    """
    try:
        return read_object(data)
    except UNREADABLE:
        got = type(parse_value(data, what=what)).__name__
    raise RecordError(f"{what} must be a JSON object, got {got}; wrap the value in an object")


def parse_value(data: bytes | str, *, what: str = "a value") -> Json:
    """Read any JSON value; see `parse_object`.

    Raises:
        RecordError: it is not JSON.
    """
    try:
        return cast("Json", msgspec.json.decode(data))
    except RecursionError:
        raise RecordError(f"{what} must not be nested too deeply; flatten it") from None
    except UnicodeError:  # bytes that are not, or text that was made of such bytes
        raise RecordError(f"{what} must be UTF-8, and some of the bytes are not; re-encode them") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{what} must be JSON: {error}; complete or repair it") from None


_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Turn the library's words and path into ours."""
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return RecordError(f"{text[:1].lower()}{text[1:]}; see the record's schema")
    steps = ("".join(step.groups(default="")) for step in _STEP.finditer(place["path"]))
    pointer = "".join(f"/{step}" for step in steps)
    return RecordError(f"{text[:1].lower()}{text[1 : place.start()]}; see the record's schema", pointer=pointer)
