"""Check that the values of a record have the declared types, without encoding what cannot be wrong."""

from collections.abc import Callable
from functools import cache
from itertools import compress
from operator import is_not
from typing import NamedTuple, cast, get_type_hints

import msgspec
from msgspec.inspect import (
    AnyType,
    BoolType,
    EnumType,
    Field,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)
from msgspec.structs import astuple

from agenttool.records import UNSET, Part

_REQUIRED = object()
_SCALARS = frozenset({str, bool, type(None)})
_encode = msgspec.json.Encoder().encode


class _FieldCheck(NamedTuple):
    """One field of a record: the types whose values need no check and no copy, and the decoder of other values."""

    name: str
    plain: frozenset[type]
    decode: Callable[[bytes], object]


class _RecordChecks(NamedTuple):
    fields: tuple[_FieldCheck, ...]
    defaults: tuple[object, ...]


def validated_changes(record: Part) -> dict[str, object] | None:
    """Return the fields to replace in a record, so that each has the declared type and no list or object is shared.

    Texts, enums and flags cannot change and stay shared. None means that the record must be decoded as a whole: a value
    does not fit, or a text is not ASCII.
    """
    checks, values = _checks_of(type(record)), astuple(record)
    changes: dict[str, object] = {}
    given = [*map(is_not, values, checks.defaults)]
    for (name, plain, decode), value in zip(compress(checks.fields, given), compress(values, given), strict=True):
        if type(value) in plain:
            if isinstance(value, str) and not value.isascii():
                return None
            continue
        try:
            written = _encode(value)
            if not written.isascii():
                return None
            changes[name] = decode(written)
        except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
            return None
    return changes


@cache
def _checks_of(kind: type[Part]) -> _RecordChecks:
    hints = get_type_hints(kind, include_extras=True)
    fields = cast("StructType", type_info(kind)).fields
    checks = [
        _FieldCheck(each.name, _plain(each.type), msgspec.json.Decoder(hints[each.name]).decode) for each in fields
    ]
    return _RecordChecks(tuple(checks), tuple(map(_default_of, fields)))


def _default_of(field: Field) -> object:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    has_value = field.required or field.default_factory is not msgspec.NODEFAULT
    return _REQUIRED if has_value else UNSET  # the library reports no default where it is UNSET


def _plain(declared: Type) -> frozenset[type]:
    """Return the immutable types whose values certainly fit a declared type."""
    if isinstance(declared, UnionType):
        return frozenset[type]().union(*map(_plain, declared.types))
    if isinstance(declared, EnumType):
        return frozenset({declared.cls})
    if isinstance(declared, StrType):
        return frozenset({str}) if declared == StrType() else frozenset()
    known: dict[type[Type], frozenset[type]] = {
        BoolType: frozenset({bool}),
        NoneType: frozenset({type(None)}),
        AnyType: _SCALARS,
    }
    return known.get(type(declared), frozenset())
