"""Lists of words: closed ones refuse a stranger, open ones keep it and mark it as unlisted."""

from enum import StrEnum
from typing import Self


class ClosedEnum(StrEnum):
    """A list that a published schema enforces: any other value is an error."""


class OpenEnum(StrEnum):
    """A list that the standard calls initial: we write listed values only, and read any other without losing it.

    An unlisted value must be read at its most restrictive, never as permission or success (AT-VER-07); each list that
    can be read wrongly has a predicate that does so.
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
        """Tell whether the standard's own list has this value."""
        return self._value_ in type(self)._value2member_map_
