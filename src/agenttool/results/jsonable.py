"""Conversion of any Python value to plain JSON, or a failure that names the place.

Most outputs are JSON already, which their types show. Any other value is walked step by step, which is slower, but
converts common types and reports where a value has no JSON form. `pydantic_core.to_jsonable_python` reports no place,
merges equal keys and turns bytes into text, so it cannot do this walk.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import chain
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from agenttool.codec import clone
from agenttool.codec.size import MAX_DIGITS, may_have_long_integer
from agenttool.errors import ToolFailure
from agenttool.ports.output import MAX_TEXT_CHARS, MAX_VALUES, Media
from agenttool.records import ErrorClass, Json, Phase
from agenttool.results.failure import guided
from agenttool.results.payloads import readable_text
from agenttool.results.redaction import MARKER
from agenttool.results.secret_forms import is_unicode
from agenttool.schema.explain import pointer_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_DEPTH = 100
"""How deeply a result may be nested; many readers of records reject deeper JSON."""

_TOO_LARGE = 10**MAX_DIGITS
_JSON_CONTAINERS = frozenset({dict, list})
_CONTAINERS = _JSON_CONTAINERS | {tuple, set, frozenset}
_SCALARS = frozenset({str, int, float, bool, type(None)})
_ALWAYS_JSON = _SCALARS - {float}
_JSON_TYPES = frozenset({dict, list, int, float, bool})
_NAMES = frozenset({str})
_WRITTEN_AS_TEXT = (UUID, Decimal, Fraction, PurePath, IPv4Address, IPv6Address, IPv4Network, IPv6Network)
_T = TypeVar("_T")
_V = TypeVar("_V")

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Json] = msgspec.json.Decoder().decode


StoreBytes = Callable[[bytes, str | None, str | None], str]
"""Stores bytes that occur inside a value, with their media type and name; returns the id that replaces them."""


def reject_bytes(data: bytes, media_type: str | None, name: str | None) -> str:
    """Refuse bytes at a place that holds plain JSON only."""
    raise mapping_failure(
        f"output has {len(data)} bytes where only JSON is allowed; return them as Media in the content"
    )


def mapping_failure(message: str, *, code: str | None = None) -> ToolFailure:
    """Return the failure of a call that ran and whose output cannot be mapped."""
    return ToolFailure(guided(ErrorClass.RESULT_MAPPING_FAILED, phase=Phase.MAP_RESULT, message=message, code=code))


def run_tool_code(function: Callable[[_V], _T], value: _V) -> _T:
    """Run code that calls into objects of a tool; turn any exception into a mapping failure.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    try:
        return function(value)
    except ToolFailure:
        raise
    except RecursionError:
        raise mapping_failure(
            "output is nested too deeply or holds itself; return a flat copy", code="too_deep"
        ) from None
    except Exception as error:
        # Serializers, properties and iterators of a tool can raise anything.
        raise mapping_failure(
            f"output of type {_type_name(value)} could not be read: {type(error).__name__}; return plain values instead"
        ) from error


def refuse_many_values(value: object) -> None:
    """Refuse a container with too many items before anything looks at them.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    if (
        isinstance(value, Sized)
        and not isinstance(value, str | bytes | bytearray | memoryview)
        and len(value) > MAX_VALUES
    ):
        raise _too_many_values()


def _too_many_values() -> ToolFailure:
    return mapping_failure(f"output is more than {MAX_VALUES} values; return fewer, or a file", code="too_many_values")


def refuse_long_text(chars: int) -> None:
    """Refuse a text that is too long for a result.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    if chars > MAX_TEXT_CHARS:
        raise mapping_failure(
            f"output has more than {MAX_TEXT_CHARS} characters; return less, or a file", code="too_many_characters"
        )


def encode_json(value: object, levels: int = 0) -> tuple[bytes, Json] | None:
    """Return the encoding of a value that already is JSON, and the value; none if it must be converted.

    A small value has the `levels` of `quick_levels`. It is encoded before it is known to be JSON, then decoded and
    compared, which is faster than a walk. The decoded value is returned.

    Raises:
        ToolFailure: result_mapping_failed; it holds more than `MAX_VALUES` values, or too many characters.
    """
    if type(value) not in _JSON_TYPES or not (levels or _is_plain_json(value)):
        return None
    try:
        written = encode(value)
        if 0 < levels <= MAX_DEPTH and not may_have_long_integer(written):
            decoded = _decode(written)
            return (written, decoded) if decoded == value else None
    except Exception:  # noqa: BLE001 -- the conversion reports what is wrong
        return None
    if levels and not _is_plain_json(value):
        return None
    refuse_long_text(len(written))
    return written, cast("Json", value)


def to_jsonable(value: object, store: StoreBytes) -> Json:
    """Return any value as plain JSON that shares nothing with it.

    Raises:
        ToolFailure: result_mapping_failed; the message names the place and what to return instead.
    """
    found = encode_json(value)
    return run_tool_code(_Conversion(store).convert, value) if found is None else clone(found[1])


def to_jsonable_leniently(value: object, store: StoreBytes) -> Json:
    """Return as much of any value as has a JSON form; the rest is replaced by the name of its type.

    Raises:
        ToolFailure: result_mapping_failed; it holds more than `MAX_VALUES` values.
    """
    _is_plain_json(value)
    conversion = _Conversion(store, is_lenient=True)
    return run_tool_code(lambda each: conversion.convert_member("", each), value)


def unicode_text(text: object) -> str:
    """Return the text if it is one and can be encoded.

    Raises:
        ToolFailure: result_mapping_failed; it is not a text, or has a lone surrogate.
    """
    if not isinstance(text, str):
        raise mapping_failure(
            f"output has {_type_name(text)} where text is expected; return bytes as Media, other values as a value"
        )
    return _Conversion(reject_bytes).text(text)


def _is_plain_json(value: object) -> bool:
    """Return whether a value is made of JSON types, has a JSON form, and is at most `MAX_DEPTH` deep.

    Sizes are added up level by level before a level is entered. So a value over the limit is rejected without walking
    it, and so is a list that holds another list twice, forty times over.

    Raises:
        ToolFailure: result_mapping_failed; it holds more than `MAX_VALUES` values.
    """
    level, count, is_json = [value], 0, True
    for _ in range(MAX_DEPTH + 1):
        level = [*level]
        integers = [each for each in level if type(each) is int]
        is_json = is_json and not (integers and (max(integers) >= _TOO_LARGE or min(integers) <= -_TOO_LARGE))
        level = [each for each in level if type(each) not in _ALWAYS_JSON]
        is_json = is_json and all(
            type(each) in _JSON_CONTAINERS or (type(each) is float and isfinite(each)) for each in level
        )
        outers = cast("list[dict[str, object] | list[object]]", [each for each in level if type(each) in _CONTAINERS])
        if not outers:
            return is_json
        count += sum(map(len, outers))
        if count > MAX_VALUES:
            raise _too_many_values()
        names = chain.from_iterable(outer for outer in outers if type(outer) is dict)
        is_json = is_json and _NAMES.issuperset(map(type, names))
        level = chain.from_iterable(outer.values() if type(outer) is dict else outer for outer in outers)
    return False


class _Conversion:
    """Converts one value and tracks the path to the current place."""

    def __init__(self, store: StoreBytes, *, is_lenient: bool = False) -> None:
        self._store = store
        self._is_lenient = is_lenient
        self._path: list[str | int] = []
        self._values = 0

    def _failure(self, problem: str, advice: str, *, code: str | None = None) -> ToolFailure:
        place = f" at {shown}" if (shown := pointer_of(self._path[:12])) else ""
        return mapping_failure(f"output{place} is {problem}; {advice}", code=code)

    def convert(self, value: object) -> Json:
        if len(self._path) > MAX_DEPTH:
            raise self._failure(
                f"nested deeper than {MAX_DEPTH} levels, or holds itself", "return a flat copy", code="too_deep"
            )
        return _converter_of(type(value))(self, value)

    def convert_member(self, step: str | int, item: object) -> Json:
        depth = len(self._path)
        self._path.append(step)
        try:
            plain = self.convert(item)
        except ToolFailure as failure:
            if not self._is_lenient or failure.error.error_code == "too_many_values":
                raise
            plain = f"[{_type_name(item)}, not readable]"
        del self._path[depth:]
        return plain

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._failure(f"more than {MAX_VALUES} values", "return fewer, or a file", code="too_many_values")

    def _counted(self, size: int, items: Iterable[_T]) -> Iterator[_T]:
        """Count the items of a container before yielding them; one with more items than its length may be endless."""
        self._count(size)
        for index, item in enumerate(items):
            if index >= size:
                self._count(1)
            yield item

    def text(self, value: object) -> str:
        text = str.__str__(cast("str", value))
        refuse_long_text(len(text))
        if not is_unicode(text):
            raise self._failure("text with a lone surrogate", "decode it with errors='replace'", code="not_unicode")
        return text

    def integer(self, value: object) -> int:
        number = int.__int__(cast("int", value))
        if abs(number) >= _TOO_LARGE:
            raise self._failure(f"an integer with more than {MAX_DIGITS} digits", "return it as text")
        return number

    def number(self, value: object) -> float:
        number = float.__float__(cast("float", value))
        if not isfinite(number):
            raise self._failure(f"the number {number}, which JSON does not have", "return None or text", code="nan")
        return number

    def moment(self, value: object) -> Json:
        written = cast("datetime | date | time", value).isoformat()
        return written.removesuffix("+00:00") + "Z" if written.endswith("+00:00") else written

    def octets(self, value: object) -> Json:
        data = bytes(cast("bytes", value))
        readable = readable_text(data)
        return self._store(data, None, None) if readable is None else readable

    def media(self, value: object) -> Json:
        media = cast("Media", value)
        return self._store(bytes(media.data), media.media_type, media.name)

    def mapping(self, value: object) -> Json:
        members = cast("Mapping[object, object]", value)
        found: dict[str, Json] = {}
        for key, item in self._counted(len(members), members.items()):
            name = self._key(key)
            if name in found:
                raise self._failure(f"an object with two keys spelled {name!r}", "use keys that are different as text")
            found[name] = self.convert_member(name, item)
        return found

    def sequence(self, value: object) -> Json:
        items = cast("Sequence[object]", value)
        return [self.convert_member(*each) for each in self._counted(len(items), enumerate(items))]

    def unordered(self, value: object) -> Json:
        # The order of a set differs between processes; a replay must produce the same bytes.
        return sorted(cast("list[Json]", self.sequence(value)), key=encode)

    def _key(self, key: object) -> str:
        plain = key if isinstance(key, str) else self.convert_member("(key)", key)
        if isinstance(plain, str):
            return self.text(plain)
        if plain is None or isinstance(plain, bool | int | float):
            return encode(plain).decode()
        raise self._failure(f"an object with a key of type {_type_name(key)}", "use text as keys")

    def declared_fields(self, value: object) -> Json:
        """Convert an object by the fields that its class declares."""
        kind = type(value)
        if hasattr(kind, "get_secret_value"):
            return MARKER
        read_fields = next((read for mark, read in _FIELD_READERS.items() if hasattr(kind, mark)), None)
        if read_fields is None:
            raise self._failure(
                f"of type {_type_name(value)}, which has no JSON form",
                "return text, numbers, lists, dicts, dataclasses, models or Media",
                code="not_serializable",
            )
        return self.convert(read_fields(value))


def _fields_of_model(value: object) -> object:
    """Serialize a pydantic model; in Python mode if it has bytes that are not text."""
    serializer = cast("_Serializer", getattr(type(value), "__pydantic_serializer__", None))
    try:
        return serializer.to_python(value, mode="json", by_alias=True, warnings=False)
    except ValueError:
        return serializer.to_python(value, mode="python", by_alias=True, warnings=False)


def _fields_of_struct(value: object) -> object:
    struct = cast("msgspec.Struct", value)
    config = struct.__struct_config__
    fields = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    values = {name: getattr(struct, field) for name, field in fields if getattr(struct, field) is not msgspec.UNSET}
    return {**tag, **values}


def _named_fields(value: object, fields: object) -> object:
    return {each.name: getattr(value, each.name) for each in cast("Iterable[_NamedField]", fields)}


_FIELD_READERS: dict[str, Callable[[object], object]] = {
    "__pydantic_serializer__": _fields_of_model,
    "__struct_fields__": _fields_of_struct,
    "__dataclass_fields__": lambda value: _named_fields(value, dataclasses.fields(cast("DataclassInstance", value))),
    "__attrs_attrs__": lambda value: _named_fields(value, getattr(type(value), "__attrs_attrs__", ())),
    "__array_interface__": lambda value: cast("memoryview", value).tolist(),
}
"""The class attribute by which each library is recognized, without importing it."""


class _Serializer(Protocol):
    def to_python(self, value: object, /, *, mode: str, by_alias: bool, warnings: bool) -> object: ...


class _NamedField(Protocol):
    name: str


def _type_name(value: object) -> str:
    return type(value).__name__


_CONVERTERS: dict[type | tuple[type, ...], Callable[[_Conversion, object], Json]] = {
    # The first match counts: an enum of texts is an enum, and a text is not a sequence.
    (type(None), bool): lambda _, value: cast("bool | None", value),
    Enum: lambda conversion, value: conversion.convert(cast("Enum", value).value),
    str: _Conversion.text,
    int: _Conversion.integer,
    float: _Conversion.number,
    (bytes, bytearray, memoryview): _Conversion.octets,
    Media: _Conversion.media,
    Mapping: _Conversion.mapping,
    (list, tuple): _Conversion.sequence,
    AbstractSet: _Conversion.unordered,
    (datetime, date, time): _Conversion.moment,
    timedelta: lambda _, value: cast("Json", msgspec.to_builtins(value)),
    _WRITTEN_AS_TEXT: lambda conversion, value: conversion.text(str(value)),
    Sequence: _Conversion.sequence,
}


@lru_cache(maxsize=1024)
def _converter_of(kind: type) -> Callable[[_Conversion, object], Json]:
    found = (convert for kinds, convert in _CONVERTERS.items() if issubclass(kind, kinds))
    return next(found, _Conversion.declared_fields)
