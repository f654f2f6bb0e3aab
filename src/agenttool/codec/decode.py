"""Decode JSON to records: fast for records of this package, tolerant of those of other programs.

The first attempt rejects unknown members, which costs nothing and fits every record of this package. If it fails, the
document is decoded again: old member names are replaced, and unknown members are preserved (`unknown_members`).
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TypeVar, Union, cast

import msgspec
from msgspec import UNSET, UnsetType, ValidationError, convert, defstruct
from msgspec.json import Decoder
from msgspec.structs import asdict

from agenttool.codec.encode import RawJson
from agenttool.codec.unknown_members import read_with_unknown
from agenttool.errors import RecordError
from agenttool.records import (
    CORE_OBJECTS,
    RECORD_TYPES,
    SCHEMA_VERSION,
    Json,
    JsonObject,
    Part,
    Record,
    ToolDeclaration,
    ToolInvocation,
)

_RENAMED: dict[type[Part], dict[str, str]] = {
    ToolInvocation: {"arguments": "model_input", "arguments_ref": "model_input_ref"},
}
_RENAMED_IN_CONTRACT = {"schema": "model_input_schema"}


def renamed(members: JsonObject, kind: type[Part]) -> JsonObject:
    """Return a document with current member names; a document without old names is returned itself.

    If both names are present, the current one counts and the old one is an unknown member.
    """
    contract = members.get("input_contract")
    if issubclass(kind, ToolDeclaration) and isinstance(contract, dict):
        today = _rename(contract, _RENAMED_IN_CONTRACT)
        members = members if today is contract else {**members, "input_contract": today}
    today = _rename(members, _RENAMED.get(kind, {}))
    is_old = str(members.get("schema_version", "")).startswith("0.1.")
    return {**today, "schema_version": SCHEMA_VERSION} if is_old and today is not members else today


def _rename(members: JsonObject, names: dict[str, str]) -> JsonObject:
    if not any(old in members and new not in members for old, new in names.items()):
        return members
    return {(names[name] if names.get(name, name) not in members else name): value for name, value in members.items()}


_P = TypeVar("_P", bound=Part)

_DECODE = {kind: msgspec.json.Decoder(kind).decode for kinds in CORE_OBJECTS.values() for kind in kinds}
read_object = cast("Callable[[bytes | str], JsonObject]", msgspec.json.Decoder(dict[str, object]).decode)
"""Decodes any JSON object fast; if it raises, use `parse_object` for a readable error."""

_M = TypeVar("_M")
_read_items = msgspec.json.Decoder(list[RawJson]).decode
_Scalar = str | int | float | bool | None
_Members = dict[str, RawJson] | list[RawJson] | _Scalar
_read_levels = msgspec.json.Decoder(dict[str, dict[str, _Members] | list[RawJson] | _Scalar]).decode

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of `read_object`."""

_any_record = cast("msgspec.json.Decoder[Record]", msgspec.json.Decoder(Union[tuple(RECORD_TYPES.values())]))  # noqa: UP007 -- built from a list


def read(data: bytes | str, kind: type[_P]) -> _P:
    """Decode one record of a known kind.

    Raises:
        RecordError: it is not JSON, or does not fit; the pointer names the place.
    """
    try:
        return _DECODE[kind](data)  # pyright: ignore[reportReturnType] -- the table holds each kind's own decoder
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return from_json(parse_object(data), kind)


def read_any(data: bytes | str) -> Record:
    """Decode one record of the kind that its `record_type` names.

    Raises:
        RecordError: it is not JSON, names no kind of record, or does not fit; the pointer names the place.
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
    """Make one record of a known kind from plain JSON values.

    Raises:
        RecordError: it does not fit; the pointer names the place.
    """
    if not isinstance(members, dict):
        raise RecordError(f"a record must be a JSON object, got {type(members).__name__}; wrap the value in an object")
    try:
        return read_with_unknown(renamed(members, kind), kind)
    except msgspec.ValidationError as error:
        raise _explained(error) from error


def parse_object(data: bytes | str, *, what: str = "a record") -> JsonObject:
    """Decode any JSON object; `what` names it in the error message.

    Raises:
        RecordError: it is not JSON, or not an object.
    """
    try:
        return read_object(data)
    except UNREADABLE:
        got = type(parse_value(data, what=what)).__name__
    raise RecordError(f"{what} must be a JSON object, got {got}; wrap the value in an object")


def parse_levels(data: bytes) -> JsonObject:
    """Decode three levels of JSON objects: the values in the third, and items of lists, stay `RawJson`.

    Raises:
        RecordError: it is not an object. A text that is not UTF-8 is found when it is decoded.
    """
    return cast("JsonObject", _parts(_read_levels, data))


def parse_items(data: bytes | RawJson) -> list[RawJson]:
    """Decode only the outermost JSON array: its items stay JSON texts, which `parse_value` decodes.

    Raises:
        RecordError: it is not an array.
    """
    return _parts(_read_items, data)


def _parts(decode: Callable[[bytes | RawJson], _M], data: bytes | RawJson) -> _M:
    try:
        return decode(data)
    except UNREADABLE as error:
        raise RecordError(f"a value must be a JSON object or array: {error}; complete or repair it") from None


def parse_value(data: bytes | str | RawJson, *, what: str = "a value") -> Json:
    """Decode any JSON value; see `parse_object`.

    Raises:
        RecordError: it is not JSON.
    """
    try:
        return cast("Json", msgspec.json.decode(data))
    except RecursionError:
        raise RecordError(f"{what} must not be nested too deeply; flatten it") from None
    except UnicodeError:  # bytes that are not UTF-8, or text with surrogates
        raise RecordError(f"{what} must be UTF-8, and some of the bytes are not; re-encode them") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{what} must be JSON: {error}; complete or repair it") from None


_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Return a msgspec error as a `RecordError` with a JSON pointer."""
    text = lower_first(str(error))
    place = _PLACE.search(text)
    if place is None:
        return RecordError(f"{text}; see the record's schema")
    steps = ("".join(step.groups(default="")) for step in _STEP.finditer(place["path"]))
    pointer = "".join(f"/{step}" for step in steps)
    return RecordError(f"{text[: place.start()]}; see the record's schema", pointer=pointer)


def lower_first(text: str) -> str:
    """Return a text with its first letter in lower case, unless it begins an abbreviation such as JSON."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def flat_reader(types: Mapping[str, type], required: Collection[str]) -> Callable[[bytes], JsonObject]:
    """Return a decoder of objects with just these members; it raises one of `UNREADABLE` for anything else."""
    needed = [(name, kind) for name, kind in types.items() if name in required]
    optional = [(name, kind | UnsetType, UNSET) for name, kind in types.items() if name not in required]
    decode = Decoder(defstruct("Flat", [*needed, *optional], forbid_unknown_fields=True, gc=False)).decode
    names = tuple(name for name, _, _ in optional)
    if not names:
        return lambda data: asdict(decode(data))

    def read(data: bytes) -> JsonObject:
        members = asdict(decode(data))
        for name in names:
            if members[name] is UNSET:
                del members[name]
        return members

    return read


def shaped(value: Json, shape: type[_P]) -> _P | None:
    """Convert a value to a shape; return none if it does not fit exactly."""
    try:
        return convert(value, shape)
    except (ValidationError, RecursionError):
        return None


_T = TypeVar("_T")


def read_own(data: bytes | RawJson, kind: type[_T]) -> _T:
    """Decode what `write_own` encoded, or the members of an object that a typed dictionary names.

    Raises:
        RecordError: it is not such a value.
    """
    try:
        return cast("_T", _decoder(kind).decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"not a {kind.__name__} of ours: {error}; another version wrote it") from error


def read_stored(data: bytes | None, kind: type[_T]) -> _T | None:
    """Decode what `write_own` encoded; none if there is nothing, or another version wrote it."""
    try:
        return None if data is None else read_own(data, kind)
    except RecordError:
        return None


@cache
def _decoder(kind: type[object]) -> "msgspec.json.Decoder[object]":
    return msgspec.json.Decoder(kind)
