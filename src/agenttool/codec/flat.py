"""Objects of a few plain values: read, checked and taken apart by the library in one go."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct, ValidationError, convert, defstruct
from msgspec.json import Decoder
from msgspec.structs import astuple

from agenttool.records import Json, Part

_P = TypeVar("_P", bound=Part)

FlatReader = Callable[[bytes], Struct]
"""Reads an object with just these members, each of just its type; raises one of `UNREADABLE` for anything else."""

flat_values: Callable[[Struct], tuple[object, ...]] = astuple
"""Gives what a `FlatReader` has read, in the order in which its members were declared."""


def flat_reader(kinds: Mapping[str, type]) -> FlatReader:
    """Make the reader of an object with these members and no others."""
    shape = defstruct("Flat", list(kinds.items()), forbid_unknown_fields=True, gc=False)
    return Decoder(shape).decode


def shaped(value: Json, shape: type[_P]) -> _P | None:
    """Read a value that has just this shape; nothing if it has any other, or a member more."""
    try:
        return convert(value, shape)
    except (ValidationError, RecursionError):
        return None
