"""Base classes of enums: closed ones reject unlisted values, open ones accept and mark them."""

from enum import StrEnum
from typing import Self


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
