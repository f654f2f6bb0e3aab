"""Decode JSON to records: fast for records of this package, tolerant of those of other programs.

The first attempt rejects unknown members, which costs nothing and fits every record of this package. If it fails, the
document is decoded again: old member names are replaced, and unknown members are preserved (`unknown_members`).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TypeVar, Union, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType, ValidationError, convert, defstruct
from msgspec.json import Decoder

from agenttool.codec.encode import HALF_PAIR, Lazy, RawJson
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

_read_raw = msgspec.json.Decoder(RawJson).decode

_ESCAPED_COLON = b"\\u003"
_encode = msgspec.json.Encoder().encode
_BYTE = re.compile(r" \(byte (?P<place>\d+)\)$")

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
    except (*UNREADABLE, KeyError):
        return from_json(parse_object(data), kind)


def read_any(data: bytes | str) -> Record:
    """Decode one record of the kind that its `record_type` names.

    Raises:
        RecordError: it is not JSON, names no kind of record, or does not fit; the pointer names the place.
    """
    try:
        return _any_record.decode(data)
    except UNREADABLE:
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


def parse_value(data: bytes | str, *, what: str = "a value") -> Json:
    """Decode any JSON value; see `parse_object`.

    Raises:
        RecordError: it is not JSON.
    """
    return cast("Json", _decoded(msgspec.json.decode, data, what))


def check_syntax(data: bytes, *, what: str) -> None:
    """Check that bytes are JSON, because a typed decoder may report a member before a syntax error.

    Raises:
        RecordError: they are not.
    """
    _decoded(_read_raw, data, what)


def _decoded(decode: Callable[[bytes | str], object], data: bytes | str, what: str) -> object:
    try:
        return decode(data)
    except RecursionError:
        raise RecordError(f"{what} must not be nested too deeply; flatten it") from None
    except UnicodeError:  # bytes that are not UTF-8, or text with surrogates
        raise RecordError(f"{what} must be UTF-8, and some of the bytes are not; re-encode them") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{what} must be JSON: {_syntax_fault(str(error), data)}; complete or repair it") from None


def _syntax_fault(fault: str, data: bytes | str) -> str:
    """Return the message of a syntax error with line and column; the text around it may be secret."""
    found = _BYTE.search(fault)
    if found is None and "truncated" in fault and _is_complete(data):
        return HALF_PAIR  # the decoder calls a text truncated also if half of a surrogate pair is missing
    text = data.encode() if isinstance(data, str) else data
    before = (text if found is None else text[: int(found["place"])]).decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"{_BYTE.sub('', fault)}, at line {line}, column {column}"


def _is_complete(data: bytes | str) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def repeated_name(data: bytes, parsed: JsonObject) -> str | None:
    """Return a member name that an object of a JSON text has twice; the decoder takes the last value of such a member.

    A member has one colon outside of texts. So a JSON text in which no member is repeated has as many colons as its
    value has members, and colons in names and texts. Only a JSON text with more is decoded again.
    """
    count = data.count(b":")
    if count <= len(parsed) or (count <= _count_colons(parsed) and _ESCAPED_COLON not in data):
        return None
    repeated: list[str] = []

    def find(pairs: list[tuple[str, object]]) -> None:
        repeated.extend(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)

    json.loads(data, object_pairs_hook=find, parse_int=str)  # numbers do not matter here
    return next(iter(repeated), None)


def _count_colons(parsed: JsonObject) -> int:
    """Count the members of an object and its parts, and the colons in names and texts."""
    count = len(parsed)
    for name, value in parsed.items():
        if ":" in name:
            count += name.count(":")
        if isinstance(value, str):
            count += value.count(":")
        elif isinstance(value, dict | list):
            count += _encode(value).count(b":")
    return count


_PLACE = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def located(error: Exception) -> tuple[str, list[str]]:
    """Return the message of a msgspec error, and the steps to its place, up to an object with arbitrary members."""
    message, *place = _PLACE.split(str(error))
    path = "".join(place).partition("[...]")[0]
    return lower_first(message), [name or index for name, index in _STEP.findall(path)]


def _explained(error: msgspec.ValidationError) -> RecordError:
    """Return a msgspec error as a `RecordError` with a JSON pointer."""
    message, steps = located(error)
    return RecordError(f"{message}; see the record's schema", pointer="".join(f"/{step}" for step in steps))


def lower_first(text: str) -> str:
    """Return a text with its first letter in lower case, unless it begins an abbreviation such as JSON."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def typed_reader_of(kind: type) -> Callable[[bytes], JsonObject]:
    """Return a decoder of objects of one type, as plain JSON; it raises one of `UNREADABLE` for anything else."""
    decode = Decoder(kind).decode
    return lambda data: msgspec.to_builtins(decode(data))


def closed_object(members: Mapping[str, type], required: Collection[str]) -> type:
    """Return the type of objects that have only these members.

    Raises:
        TypeError, ValueError: the decoder rejects such a type.
    """
    given = sorted(members.items(), key=lambda member: member[0] not in required)
    names = {f"f{place}": name for place, (name, _) in enumerate(given)}
    fields = [
        (field, kind) if name in required else (field, kind | UnsetType, UNSET)
        for field, (name, kind) in zip(names, given, strict=True)
    ]
    return defstruct("Given", fields, rename=names, forbid_unknown_fields=True, gc=False)


def retyped(record: _P) -> _P | None:
    """Return a copy of a record that shares its texts, and in which every value has the type of its field, if it can.

    It is none if a value does not fit.
    """
    try:
        return convert(msgspec.to_builtins(record), type(record))
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
    return msgspec.json.Decoder(kind, dec_hook=_decode_lazy)


def _decode_lazy(kind: type[object], value: object) -> object:
    if kind is object:  # the decoder asks about values of any type, too
        return value
    decoded = convert(value, get_args(kind)[0])
    return Lazy(lambda: decoded)
