"""Parts of a document that cannot be used: what each must be, and what the import did instead."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

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
        kind, items, members = self
        if value is None or (isinstance(value, kind) and items is None and not members):
            return value
        if not isinstance(value, kind):
            reason = f"it must be {_WORDS[kind]}, got {type(value).__name__}"
            report(SkippedPart(pointer, reason, PART_IGNORED))
            return None
        if isinstance(value, list) and items is not None:
            if items.items is None and not items.members and {*map(type, value)} <= {items.kind}:
                return value
            found = [items.fit(each, f"{pointer}/{number}", report) for number, each in enumerate(value)]
            return [each for each in found if each is not None]
        shapes = members or dict.fromkeys(cast("JsonObject", value), items or self)
        found = cast("JsonObject", value).copy()
        for name, shape in shapes.items():
            if name in found:
                found[name] = shape.fit(found[name], f"{pointer}/{escape(name)}", report)
        return found


def object_with(**members: Shape) -> Shape:
    """Return the shape of an object with some members."""
    return Shape(dict, members=members)


TEXT, FLAG, OBJECT = Shape(str), Shape(bool), Shape(dict)
TEXTS, OBJECTS = Shape(list, TEXT), Shape(dict, OBJECT)


def escape(step: str) -> str:
    """Return one step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")
