"""Tests of one argument, found by its JSON pointer."""

from dataclasses import dataclass

from agenttool.policy.pointers import values_at
from agenttool.policy.wildcards import fits
from agenttool.records import UNSET, Json, UnsetType


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTest:
    """What must be true of an argument: all of what is given here.

    A list is tested by its elements: an allow needs all of them to pass, a deny or an ask only one. A value of the
    wrong type passes no test of an allow and every test of a deny.
    """

    pointer: str
    steps: tuple[str, ...]
    equals: Json | UnsetType = UNSET
    one_of: tuple[Json, ...] | None = None
    glob: str | None = None
    prefix: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    present: bool | None = None

    def covers(self, arguments: Json) -> bool:
        """Tell whether an allow may be sure of the argument; one that is missing passes only `present = false`."""
        values = values_at(arguments, self.steps)
        if self.present is not None and self.present is not bool(values):
            return False
        if not self._looks_inside:
            return True
        return bool(values) and all(self._passes(value, doubt=False) for value in values)

    def hits(self, arguments: Json) -> bool:
        """Tell whether a deny or an ask must assume that the argument passes."""
        values = values_at(arguments, self.steps)
        if self.present is not None and self.present is not bool(values):
            return False
        return not self._looks_inside or any(self._passes(value, doubt=True) for value in values)

    @property
    def _looks_inside(self) -> bool:
        return bool(self._choices) or any(
            test is not None for test in (self.glob, self.prefix, self.minimum, self.maximum)
        )

    @property
    def _choices(self) -> tuple[Json, ...]:
        return (self.one_of or ()) if isinstance(self.equals, UnsetType) else (self.equals,)

    def _passes(self, value: Json, *, doubt: bool) -> bool:
        """Test one value; `doubt` is what one of the wrong type counts as."""
        choices = self._choices
        is_choice = any(same(value, choice) for choice in choices)
        if isinstance(value, list) and not is_choice:
            together = any if doubt else all
            return bool(value) and together(self._passes(each, doubt=doubt) for each in value)
        return (is_choice or not choices) and self._fits_text(value, doubt) and self._fits_range(value, doubt)

    def _fits_text(self, value: Json, doubt: bool) -> bool:  # noqa: FBT001 -- private, and named where it is decided
        if self.glob is None and self.prefix is None:
            return True
        if not isinstance(value, str):
            return doubt
        return (self.glob is None or fits(self.glob, value)) and value.startswith(self.prefix or "")

    def _fits_range(self, value: Json, doubt: bool) -> bool:  # noqa: FBT001 -- private, and named where it is decided
        if self.minimum is None and self.maximum is None:
            return True
        if not isinstance(value, int | float) or isinstance(value, bool):
            return doubt
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)


def same(left: Json, right: Json) -> bool:
    """Compare as JSON does: `true` is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(mine, yours) for mine, yours in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    return left == right
