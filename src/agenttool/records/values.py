"""The types of plain values: untyped JSON, times and digests."""

from typing import TYPE_CHECKING, Any, NewType, TypeAlias  # noqa: TID251 -- the codec's word for "anything goes"

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
