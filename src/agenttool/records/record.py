"""What every record is: frozen, keyword-only, and strict about its own fields.

This file and the `codec` room are the only ones that know the library behind records. A field that is absent is `None`
and is left out when written; a field that takes any JSON is `UNSET` when absent, because there `null` is a value of its
own.
"""

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

SCHEMA_VERSION = "0.2.0"
"""The version of the draft that we write; a record that came with another keeps it."""

__all__ = ["SCHEMA_VERSION", "UNSET", "Live", "Meta", "Part", "Record", "UnsetType", "field", "replace"]


def _current_version() -> str:
    return SCHEMA_VERSION


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An object that lives inside a record.

    Unknown members are refused here only so that reading what we wrote ourselves stays fast; the `codec` room catches
    the refusal and keeps them, so nothing a stranger wrote is lost. A record holds only what was made before
    it, so it can be in no cycle, and the garbage collector need not follow it.
    """


class Live(Struct, eq=False):
    """What lives and changes while a call does, and is never written.

    Not a record; it stands here because one of these is made several times for every call, and an ordinary class takes
    five times as long to make as one of the library's.
    """


class Record(Part, frozen=True, kw_only=True, tag_field="record_type"):
    """A document of the standard: says which kind it is and by which version of the draft it was written."""

    # A factory, because a plain default would be left out when written.
    schema_version: str = field(default_factory=_current_version)
