"""Any Python value to plain JSON, or a clear refusal: the one file here that runs code of others.

A value that already is JSON, which is the rule, takes the short way: written, read back and compared by the library in
C. All else is walked: that is slower, converts what has an obvious form, and can say where something does not.
"""

import dataclasses
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from math import isfinite
from pathlib import PurePath
from typing import ClassVar, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from agenttool.errors import ToolFailure
from agenttool.ports.output import Media
from agenttool.records import ErrorClass, Json, Phase
from agenttool.results.failure import guided
from agenttool.results.media import readable_text
from agenttool.results.redaction import MARKER
from agenttool.schema.explain import pointer_of

MAX_DEPTH = 100
"""How deep a result may be nested; what is deeper cannot be carried by everyone who reads records."""

MAX_VALUES = 2_000_000
"""How many values a result may hold once it has to be walked."""

_HALF_A_PAIR = "text with half of a surrogate pair"
_REPLACE_IT = "decode it with errors='replace'"
_MAX_DIGITS = 4000
_CONTAINERS = frozenset({dict, list})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_QUICK = frozenset({dict, list, int, float, bool})
_T = TypeVar("_T")
_V = TypeVar("_V")

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Json] = msgspec.json.Decoder().decode


class Lift(Protocol):
    """Takes bytes out of a value and gives the text that stands for them."""

    def binary(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        """Put bytes aside."""
        ...


class _NoMedia:
    def binary(self, data: bytes, media_type: str | None = None, name: str | None = None) -> str:
        raise failure(f"output has {len(data)} bytes where only JSON belongs; return them as Media in the content")


NO_MEDIA: Lift = _NoMedia()
"""For places that hold plain JSON only."""


def failure(message: str, *, code: str | None = None) -> ToolFailure:
    """Make the failure of a call that ran and whose output cannot be told."""
    return ToolFailure(guided(ErrorClass.RESULT_MAPPING_FAILED, phase=Phase.MAP_RESULT, message=message, code=code))


def run_foreign(function: Callable[[_V], _T], value: _V) -> _T:
    """Run code of a tool on its own output; whatever it raises is a failure to map.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    try:
        return function(value)
    except ToolFailure:
        raise
    except RecursionError:
        raise failure("output is nested too deeply or holds itself; return a flat copy", code="too_deep") from None
    except Exception as error:
        # Serializers, properties and iterators of others raise what they like.
        raise failure(
            f"output of type {_name(value)} could not be read: {type(error).__name__}; return plain values instead"
        ) from error


def quick_plain(value: object) -> tuple[Json, bytes] | None:
    """Give a value that already is JSON as a copy of its own and as written; none if it needs a closer look.

    Bytes, dates, sets, NaN and the like are written as something that does not read back as the same value, so the
    comparison finds them.

    Raises:
        ToolFailure: result_mapping_failed; it has more values than anybody can carry.
    """
    if type(value) not in _QUICK or not _is_modest(value):
        return None
    try:
        written = encode(value)
        plain = _decode(written)
    except Exception:  # noqa: BLE001 -- the closer look will tell what is wrong
        return None
    return (plain, written) if plain == value else None


def to_plain(value: object, lift: Lift) -> Json:
    """Give any value as plain JSON that nobody else holds.

    Raises:
        ToolFailure: result_mapping_failed; the message says where and what to return instead.
    """
    quick = quick_plain(value)
    return run_foreign(_Walk(lift).any, value) if quick is None else quick[0]


def to_plain_roughly(value: object, lift: Lift) -> Json:
    """Give as much of any value as can be told; what has no form in JSON is named by its type."""
    walk = _Walk(lift, is_lenient=True)
    return run_foreign(lambda each: walk.inner("", each), value)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written: half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unicode_text(text: object) -> str:
    """Give a text back if it is one and can be written.

    Raises:
        ToolFailure: result_mapping_failed; it is no text, or holds half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise failure(f"output has {_name(text)} where text belongs; return bytes as Media, all else as a value")
    if not is_unicode(text):
        raise failure(f"output is {_HALF_A_PAIR}; {_REPLACE_IT}", code="not_unicode")
    return text


def _is_modest(value: object) -> bool:
    """Tell whether a value is of plain types and not too deep, before it is written.

    A list that holds another twice, forty times over, is small in memory and would fill it when written.

    Raises:
        ToolFailure: result_mapping_failed; it has more values than anybody can carry.
    """
    level, count = [value] if type(value) in _CONTAINERS else [], 0
    for _ in range(MAX_DEPTH):
        if not level:
            return True
        outers = cast("list[dict[str, object] | list[object]]", level)
        count += sum(map(len, outers))
        if count > MAX_VALUES:
            raise failure(_TOO_MANY, code="too_many_values")
        inners = chain.from_iterable(outer.values() if type(outer) is dict else outer for outer in outers)
        level = [inner for inner in inners if type(inner) not in _SCALARS]
        if not _CONTAINERS.issuperset(map(type, level)):
            return False
    return not level


_TOO_MANY = f"output is more than {MAX_VALUES} values; return fewer, or a file"


class _Walk:
    """One pass over one value, knowing where it is."""

    def __init__(self, lift: Lift, *, is_lenient: bool = False) -> None:
        self._lift = lift
        self._is_lenient = is_lenient
        self._path: list[str | int] = []
        self._values = 0

    def _refuse(self, what: str, instead: str, *, code: str | None = None) -> ToolFailure:
        place = f" at {shown}" if (shown := pointer_of(self._path[:12])) else ""
        return failure(f"output{place} is {what}; {instead}", code=code)

    def any(self, value: object) -> Json:
        self._values += 1
        if len(self._path) > MAX_DEPTH:
            raise self._refuse(
                f"nested deeper than {MAX_DEPTH} levels, or holds itself", "return a flat copy", code="too_deep"
            )
        if self._values > MAX_VALUES:
            raise self._refuse(f"more than {MAX_VALUES} values", "return fewer, or a file", code="too_many_values")
        if value is None or isinstance(value, bool):
            return value
        read = next((read for kind, read in _READ.items() if isinstance(value, kind)), _Walk._foreign)
        return read(self, value)

    def text(self, value: object) -> str:
        text = str.__str__(cast("str", value))
        if not is_unicode(text):
            raise self._refuse(_HALF_A_PAIR, _REPLACE_IT, code="not_unicode")
        return text

    def integer(self, value: object) -> int:
        number = int.__int__(cast("int", value))
        if number.bit_length() > _MAX_DIGITS * 3:
            raise self._refuse("an integer with thousands of digits", "return it as text")
        return number

    def real(self, value: object) -> float:
        number = float.__float__(cast("float", value))
        if not isfinite(number):
            raise self._refuse(f"the number {number}, which JSON does not have", "return None or text", code="nan")
        return number

    def choice(self, value: object) -> Json:
        return self.any(cast("Enum", value).value)

    def moment(self, value: object) -> Json:
        spelled = cast("datetime | date | time", value).isoformat()
        return spelled.removesuffix("+00:00") + "Z" if spelled.endswith("+00:00") else spelled

    def duration(self, value: object) -> Json:
        return cast("Json", msgspec.to_builtins(value))

    def spelled(self, value: object) -> Json:
        return self.text(str(value))

    def octets(self, value: object) -> Json:
        data = bytes(cast("bytes", value))
        readable = readable_text(data)
        return self._lift.binary(data) if readable is None else readable

    def media(self, value: object) -> Json:
        media = cast("Media", value)
        return self._lift.binary(bytes(media.data), media.media_type, media.name)

    def members(self, value: object) -> Json:
        found: dict[str, Json] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            name = self._key(key)
            if name in found:
                raise self._refuse(f"an object with two keys spelled {name!r}", "use keys that are different as text")
            found[name] = self.inner(name, item)
        return found

    def items(self, value: object) -> Json:
        found: list[Json] = []
        for index, item in enumerate(cast("Iterable[object]", value)):
            found.append(self.inner(index, item))
        return found

    def unordered(self, value: object) -> Json:
        # The order of a set differs from run to run; a replay must give the same bytes.
        return sorted(cast("list[Json]", self.items(value)), key=encode)

    def inner(self, step: str | int, item: object) -> Json:
        depth = len(self._path)
        self._path.append(step)
        try:
            plain = self.any(item)
        except ToolFailure:
            if not self._is_lenient:
                raise
            plain = f"[{_name(item)}, not readable]"
        del self._path[depth:]
        return plain

    def _key(self, key: object) -> str:
        plain = key if isinstance(key, str) else self.inner("(key)", key)
        if isinstance(plain, str):
            return self.text(plain)
        if plain is None or isinstance(plain, bool | int | float):
            return encode(plain).decode()
        raise self._refuse(f"an object with a key of type {_name(key)}", "use text as keys")

    def _foreign(self, value: object) -> Json:
        """Read an object by the fields it declares, in whichever way it declares them."""
        kind = type(value)
        if hasattr(kind, "get_secret_value"):
            return MARKER
        for mark, fields in _DECLARES_FIELDS.items():
            if hasattr(kind, mark):
                return self.any(fields(value))
        raise self._refuse(
            f"of type {_name(value)}, which has no form in JSON",
            "return text, numbers, lists, dicts, dataclasses, models or Media",
            code="not_serializable",
        )


def _of_model(value: object) -> object:
    """Let a model say itself what it looks like in JSON; one with bytes that are no text keeps them as bytes."""
    serializer = cast("_Serializer", getattr(type(value), "__pydantic_serializer__", None))
    try:
        return serializer.to_python(value, mode="json", by_alias=True, warnings=False)
    except ValueError:
        return serializer.to_python(value, mode="python", by_alias=True, warnings=False)


def _of_struct(value: object) -> object:
    struct = cast("msgspec.Struct", value)
    config = struct.__struct_config__
    fields = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    said = {name: getattr(struct, field) for name, field in fields if getattr(struct, field) is not msgspec.UNSET}
    return {**tag, **said}


def _of_dataclass(value: object) -> object:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(cast("_Dataclass", value))}


def _of_attrs(value: object) -> object:
    declared = cast("Iterable[_Named]", getattr(type(value), "__attrs_attrs__", ()))
    return {each.name: getattr(value, each.name) for each in declared}


def _of_array(value: object) -> object:
    return cast("_Array", value).tolist()


_DECLARES_FIELDS: dict[str, Callable[[object], object]] = {
    "__pydantic_serializer__": _of_model,
    "__struct_fields__": _of_struct,
    "__dataclass_fields__": _of_dataclass,
    "__attrs_attrs__": _of_attrs,
    "__array_interface__": _of_array,
}
"""How the common ways to declare fields are recognized, without importing the library behind any of them."""


class _Serializer(Protocol):
    def to_python(self, value: object, /, *, mode: str, by_alias: bool, warnings: bool) -> object: ...


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, "dataclasses.Field[object]"]]


class _Named(Protocol):
    name: str


class _Array(Protocol):
    def tolist(self) -> object: ...


def _name(value: object) -> str:
    return type(value).__name__


_BINARY = (bytes, bytearray, memoryview)
_READ: dict[type | tuple[type, ...], Callable[[_Walk, object], Json]] = {
    # The first that fits counts: an enum of texts is an enum, a text is no sequence.
    Enum: _Walk.choice,
    str: _Walk.text,
    int: _Walk.integer,
    float: _Walk.real,
    _BINARY: _Walk.octets,
    Media: _Walk.media,
    Mapping: _Walk.members,
    (list, tuple): _Walk.items,
    AbstractSet: _Walk.unordered,
    (datetime, date, time): _Walk.moment,
    timedelta: _Walk.duration,
    (UUID, Decimal, Fraction, PurePath): _Walk.spelled,
    (ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network): _Walk.spelled,
    Sequence: _Walk.items,
}
