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

    def fits(self, value: Json) -> bool:
        """Return whether a value has this shape; a member that is null counts as absent."""
        kind, items, members = self
        if not isinstance(value, kind):
            return False
        if members:
            for name, each in cast("JsonObject", value).items():
                shape = members.get(name)
                if shape is not None and each is not None and not shape.fits(each):
                    return False
        if items is None:
            return True
        found = cast("Iterable[Json]", value.values() if isinstance(value, dict) else value)
        if items.items is None and not items.members:
            return {*map(type, found)} <= {items.kind}
        return all(map(items.fits, found))

    def fit(self, value: Json, pointer: str, report: Report) -> Json:
        """Return a value without the parts that have another shape, which are reported; None if all of it has."""
        if value is None or self.fits(value):
            return value
        if not isinstance(value, self.kind):
            reason = f"it must be {_WORDS[self.kind]}, got {type(value).__name__}"
            report(SkippedPart(pointer, reason, PART_IGNORED))
            return None
        if isinstance(value, list):
            return [each for each in self._fit_items(enumerate(value), pointer, report).values() if each is not None]
        found = cast("JsonObject", value)
        shaped = {
            name: shape.fit(found.get(name), f"{pointer}/{escape(name)}", report)
            for name, shape in self.members.items()
        }
        found = {**found, **{name: each for name, each in shaped.items() if name in found}}
        return self._fit_items(found.items(), pointer, report) if self.items is not None else found

    def _fit_items(self, items: Iterable[tuple[object, Json]], pointer: str, report: Report) -> JsonObject:
        shape = self.items or self
        return {str(name): shape.fit(each, f"{pointer}/{escape(str(name))}", report) for name, each in items}


TEXT, FLAG, OBJECT = Shape(str), Shape(bool), Shape(dict)
TEXTS, OBJECTS = Shape(list, TEXT), Shape(dict, OBJECT)


def escape(step: str) -> str:
    """Return one step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")
