"""Check that the values of a record have the declared types, without encoding what cannot be wrong."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import compress
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

from agenttool.records import Part, UnsetType

CACHED_PLANS = 1024
"""How many combinations of value types are cached; the records of most tools have a few."""

_SCALARS = frozenset({str, bool, type(None)})
_encode = msgspec.json.Encoder().encode


class _FieldCheck(NamedTuple):
    """One field of a record: the types whose values need no check and no copy, and the decoder of other values."""

    name: str
    plain: frozenset[type]
    decode: Callable[[bytes], object]


class _CheckPlan(NamedTuple):
    """What to check in records whose values have the same types.

    Attributes:
        is_text: whether each value is a text, which must be ASCII.
        decoded: the positions of values that must be decoded, each with its field.
    """

    is_text: tuple[bool, ...]
    decoded: tuple[tuple[int, _FieldCheck], ...]


def validated_changes(record: Part) -> dict[str, object] | None:
    """Return the fields to replace in a record, so that each has the declared type and no list or object is shared.

    Texts, enums and flags cannot change and stay shared. None means that the record must be decoded as a whole: a value
    does not fit, or a text is not ASCII.
    """
    values = astuple(record)
    is_text, decoded = _plan_of(type(record), *map(type, values))
    if not "".join(cast("Iterable[str]", compress(values, is_text))).isascii():
        return None
    changes: dict[str, object] = {}
    for position, (name, _, decode) in decoded:
        try:
            written = _encode(values[position])
            if not written.isascii():
                return None
            changes[name] = decode(written)
        except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
            return None
    return changes


@lru_cache(maxsize=CACHED_PLANS)
def _plan_of(kind: type[Part], *types: type) -> _CheckPlan:
    checks = _checks_of(kind)
    fits = [each in check.plain for each, check in zip(types, checks, strict=True)]
    is_text = tuple(known and issubclass(each, str) for each, known in zip(types, fits, strict=True))
    return _CheckPlan(is_text, tuple((at, checks[at]) for at, known in enumerate(fits) if not known))


@cache
def _checks_of(kind: type[Part]) -> Sequence[_FieldCheck]:
    hints = get_type_hints(kind, include_extras=True)
    fields = cast("StructType", type_info(kind)).fields
    return [
        _FieldCheck(each.name, _plain(each.type) | _unset(each), msgspec.json.Decoder(hints[each.name]).decode)
        for each in fields
    ]


def _unset(field: Field) -> frozenset[type]:
    """Return the type of UNSET if it is the default; the library reports no default there."""
    has_value = field.required or (field.default, field.default_factory) != (msgspec.NODEFAULT, msgspec.NODEFAULT)
    return frozenset() if has_value else frozenset({UnsetType})


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
