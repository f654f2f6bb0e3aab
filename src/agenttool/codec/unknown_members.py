"""Preserve members that a record type does not know, as fields of a subclass made for them.

So they survive encoding, replacing a field and nesting the record, and a record without
them costs nothing. Such a class lives as long as the records that need it. One limit: a name with a quote, a backslash
or a control character cannot be a field, and a record with such a member is rejected.
"""

import re
from functools import cache
from typing import TypeVar, cast, get_args
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import FieldInfo

from agenttool.errors import RecordError
from agenttool.records import UNSET, Json, JsonObject, Part, replace

_P = TypeVar("_P", bound=Part)

_PREFIX = "unknown_"
_CANNOT_BE_A_FIELD = re.compile(r'["\\\x00-\x1f]')
_classes: WeakValueDictionary[tuple[type[Part], tuple[str, ...], str | None], type[Part]] = WeakValueDictionary()


def read_with_unknown(members: JsonObject, kind: type[_P]) -> _P:
    """Make a record of plain JSON, and preserve unknown members on every level.

    Raises:
        msgspec.ValidationError: a known member does not fit.
        RecordError: the name of an unknown member holds a quote, a backslash or a control character.
    """
    plain = msgspec.convert(_without_unknown(members, kind), kind)
    return cast("_P", _with_unknown(plain, members))


@cache
def _fields(kind: type[Part]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


@cache
def _parts_of(kind: type[Part]) -> dict[str, tuple[type[Part], ...]]:
    """List the types of parts that each member may hold."""
    parts = {name: tuple(_parts_in(field.type)) for name, field in _fields(kind).items()}
    return {name: kinds for name, kinds in parts.items() if kinds}


@cache
def _whole_numbers(kind: type[Part]) -> frozenset[str]:
    """List the members that hold an integer and no other number."""
    found = {name: {field.type, *get_args(field.type)} for name, field in _fields(kind).items()}
    return frozenset(name for name, kinds in found.items() if int in kinds and float not in kinds)


def _parts_in(annotation: object) -> list[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return [annotation]
    return [part for argument in get_args(annotation) for part in _parts_in(argument)]


def _without_unknown(members: JsonObject, kind: type[Part]) -> JsonObject:
    fields, parts, tag_field = _fields(kind), _parts_of(kind), kind.__struct_config__.tag_field
    known = {name: value for name, value in members.items() if name in fields or name == tag_field}
    for name in _whole_numbers(kind) & known.keys():
        value = known[name]
        if type(value) is float and value.is_integer():
            known[name] = int(value)  # 1.0 is an integer in JSON Schema, so it is accepted here
    for name in parts.keys() & known.keys():
        known[name] = _part_without_unknown(known[name], parts[name])
    return known


def _part_without_unknown(value: Json, kinds: tuple[type[Part], ...]) -> Json:
    if isinstance(value, list):
        return [_part_without_unknown(item, kinds) for item in value]
    if not isinstance(value, dict):
        return value
    kind = _kind_of(value, kinds)
    plain = _without_unknown(value, kind)
    if len(kinds) > 1 and isinstance(plain.get(_tag_field(kind), ""), str):
        plain[_tag_field(kind)] = str(kind.__struct_config__.tag)
    return plain


def _kind_of(members: JsonObject, kinds: tuple[type[Part], ...]) -> type[Part]:
    """Choose the type by its tag; the first is the default."""
    first, *_ = kinds
    tag = members.get(_tag_field(first))
    return next((kind for kind in kinds if kind.__struct_config__.tag == tag), first)


def _tag_field(kind: type[Part]) -> str:
    return kind.__struct_config__.tag_field or ""


def _with_unknown(plain: Part, members: JsonObject) -> Part:
    kind = type(plain)
    fields, tag_field = _fields(kind), kind.__struct_config__.tag_field
    changed = {
        fields[name].name: _part_with_unknown(getattr(plain, fields[name].name), members[name])
        for name in _parts_of(kind).keys() & members.keys()
    }
    unknown = [name for name in members if name not in fields and name != tag_field]
    tag = cast("str | None", members.get(tag_field)) if tag_field else None
    if not unknown and tag in (None, kind.__struct_config__.tag):
        return replace(plain, **changed) if changed else plain
    values = {field.name: getattr(plain, field.name) for field in fields.values()} | changed
    values |= {f"{_PREFIX}{place}": members[name] for place, name in enumerate(unknown)}
    return _class_for(kind, tuple(unknown), tag)(**values)


def _part_with_unknown(plain: object, value: Json) -> object:
    if isinstance(plain, Part) and isinstance(value, dict):
        return _with_unknown(plain, value)
    if isinstance(plain, tuple) and isinstance(value, list):
        items = cast("tuple[object, ...]", plain)
        return tuple(_part_with_unknown(item, each) for item, each in zip(items, value, strict=True))
    return cast("object", plain)


def _class_for(kind: type[Part], unknown: tuple[str, ...], tag: str | None) -> type[Part]:
    found = _classes.get((kind, unknown, tag))
    if found is None:
        for name in filter(_CANNOT_BE_A_FIELD.search, unknown):
            raise RecordError(f"a member may not be named {name!r}; remove the quote, backslash or control character")
        names = [f"{_PREFIX}{place}" for place in range(len(unknown))]
        made = msgspec.defstruct(
            kind.__name__,
            [(name, object, UNSET) for name in names],
            bases=(kind,),
            module=kind.__module__,
            rename=dict(zip(names, unknown, strict=True)),
            frozen=True,
            kw_only=True,
            tag=tag if tag is not None else kind.__struct_config__.tag,
        )
        found = _classes[kind, unknown, tag] = cast("type[Part]", made)
    return found
