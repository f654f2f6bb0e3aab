"""The base classes of records: frozen, keyword-only, and strict about their fields.

Only this file and `codec` know the library behind records. A field that is absent is `None`
and is left out when written; a field that takes any JSON is `UNSET` when absent, because there `null` is a value of its
own.
"""

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

SCHEMA_VERSION = "0.2.0"
"""The version of the draft that we write; a decoded record preserves its own."""

__all__ = ["SCHEMA_VERSION", "UNSET", "Live", "Meta", "Part", "Record", "UnsetType", "field", "replace"]


def _current_version() -> str:
    return SCHEMA_VERSION


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An object that lives inside a record.

    Unknown members are rejected here only so that decoding our own records is fast; `codec` then decodes again and
    preserves them. A record holds only objects made before it, so it is in no cycle and needs no garbage collection.
    """


class Live(Struct, eq=False):
    """Mutable state of a running call, which is never written.

    Not a record. It is here because several are made for every call, and a msgspec struct is made five times as fast
    as an ordinary object.
    """


class Record(Part, frozen=True, kw_only=True, tag_field="record_type"):
    """A document of the standard, with its kind and the version of the draft."""

    # A factory, because a plain default would be left out when written.
    schema_version: str = field(default_factory=_current_version)
