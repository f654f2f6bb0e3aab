"""The base types of records: plain values, enums, and frozen structs.

Only this file and `codec` know the library behind records. A field that is absent is `None` and is not written; a field
that takes any JSON is `UNSET` when absent, because there `null` is a value.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType, Self, TypeAlias  # noqa: TID251 -- what the codec decodes any JSON as

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

__all__ = [
    "SCHEMA_VERSION",
    "UNSET",
    "ClosedEnum",
    "Digest",
    "Json",
    "JsonObject",
    "Live",
    "Meta",
    "OpenEnum",
    "Part",
    "Record",
    "Timestamp",
    "UnsetType",
    "field",
    "replace",
]

if TYPE_CHECKING:
    # The type checker sees the true, recursive type.
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
    JsonObject: TypeAlias = dict[str, Json]
else:
    Json = Any
    JsonObject = dict[str, Any]

Timestamp = NewType("Timestamp", str)
"""A time in UTC as RFC 3339 with a `Z`."""

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hexadecimal digits."""


class ClosedEnum(StrEnum):
    """An enum that a published schema enforces: any other value is an error."""


class OpenEnum(StrEnum):
    """An enum that the standard calls initial: we write listed values only, and accept others.

    An unlisted value is read at its most restrictive, never as permission or success (AT-VER-07); the predicates of
    the enums do so.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unlisted = str.__new__(cls, value)
        unlisted._name_ = value
        unlisted._value_ = value
        return unlisted

    @property
    def is_listed(self) -> bool:
        """Whether the standard lists this value."""
        return self._value_ in type(self)._value2member_map_


SCHEMA_VERSION = "0.2.0"
"""The version of the draft that we write; a decoded record preserves its own."""


def _current_version() -> str:
    return SCHEMA_VERSION


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An object that lives inside a record.

    Unknown members are rejected here only so that decoding our own records is fast; `codec` then decodes again and
    preserves them. A record holds only objects made before it, so it is in no cycle and needs no garbage collection.
    """


class Live(Struct, eq=False):
    """Mutable state of a running call, which is never encoded.

    Not a record. It is here because several are made for every call, and a msgspec struct is made five times as fast
    as an ordinary object.
    """


class Record(Part, frozen=True, kw_only=True, tag_field="record_type"):
    """A document of the standard, with its kind and the version of the draft."""

    # A factory, because a plain default would be left out when written.
    schema_version: str = field(default_factory=_current_version)
