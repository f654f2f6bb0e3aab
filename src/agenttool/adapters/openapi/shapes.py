"""Parts of a document that cannot be used: what each must be, and what the import did instead."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from agenttool.records import Json, JsonObject

OPERATION_SKIPPED = "operation skipped"
PATH_SKIPPED = "path skipped"
PART_IGNORED = "part ignored"
_WORDS = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}


class SkippedPart(NamedTuple):
    """A part of a document that cannot be used, why, and what was done."""

    pointer: str
    reason: str
    effect: str = OPERATION_SKIPPED

    def __str__(self) -> str:
        """Return it on one line."""
        return f"{self.pointer or '/'}: {self.reason} ({self.effect})"


def grouped(parts: Iterable[SkippedPart]) -> list[str]:
    """Return parts as lines; those with the same reason are one line with the first pointer."""
    groups: dict[tuple[str, str], list[SkippedPart]] = {}
    for each in parts:
        groups.setdefault(each[1:], []).append(each)
    return [f"{first}{f', and {len(others):,} more like it' if others else ''}" for first, *others in groups.values()]


Report = Callable[[SkippedPart], None]
"""Receives each part that cannot be used."""


class Shape(NamedTuple):
    """What a value must be: its type, the shape of its items, and the shapes of members that it may have."""

    kind: type
    items: "Shape | None" = None
    members: Mapping[str, "Shape"] = {}

    def fit(self, value: Json, pointer: str, report: Report) -> Json:
        """Return a value without the parts that have another shape, which are reported; null counts as absent."""
        if value is None:
            return None
        if not isinstance(value, self.kind):
            reason = f"it must be {_WORDS[self.kind]}, got {type(value).__name__}"
            report(SkippedPart(pointer, reason, PART_IGNORED))
            return None
        if isinstance(value, list) and self.items is not None:
            found = [self.items.fit(each, f"{pointer}/{number}", report) for number, each in enumerate(value)]
            return [each for each in found if each is not None]
        shapes = self.members
        if isinstance(value, dict) and self.items is not None:
            shapes = dict.fromkeys(value, self.items)
        if not isinstance(value, dict) or not shapes:
            return value
        fitted: JsonObject = {
            name: shapes[name].fit(value[name], f"{pointer}/{escape(name)}", report) for name in shapes if name in value
        }
        return value | fitted


def object_with(**members: Shape) -> Shape:
    """Return the shape of an object with some members."""
    return Shape(dict, members=members)


TEXT, FLAG, OBJECT, LIST = Shape(str), Shape(bool), Shape(dict), Shape(list)
TEXTS, OBJECTS = Shape(list, TEXT), Shape(dict, OBJECT)


def escape(step: str) -> str:
    """Return one step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")
