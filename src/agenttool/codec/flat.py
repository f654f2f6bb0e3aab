"""Decoders of JSON objects whose members have known types."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert, defstruct
from msgspec.json import Decoder
from msgspec.structs import asdict

from agenttool.records import Json, JsonObject, Part

_P = TypeVar("_P", bound=Part)


def flat_reader(types: Mapping[str, type], required: Collection[str]) -> Callable[[bytes], JsonObject]:
    """Return a decoder of objects with just these members; it raises one of `UNREADABLE` for anything else."""
    needed = [(name, kind) for name, kind in types.items() if name in required]
    optional = [(name, kind | UnsetType, UNSET) for name, kind in types.items() if name not in required]
    decode = Decoder(_shape([*needed, *optional])).decode
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


def _shape(fields: list[tuple[str, type] | tuple[str, object, object]]) -> type[Struct]:
    return defstruct("Flat", fields, forbid_unknown_fields=True, gc=False)


def shaped(value: Json, shape: type[_P]) -> _P | None:
    """Read a value that has just this shape; nothing if it has any other, or a member more."""
    try:
        return convert(value, shape)
    except (ValidationError, RecursionError):
        return None
