"""Where in a record the types of the records put a time, a word of a list, or the id of another record.

The types say it already, so nothing is listed twice: `created_at: Timestamp` is a place for a time, and a
`tuple[ContentItem, ...]` has one place for a `ContentClass` in each of its items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast, get_args

import msgspec

from agenttool.records import Json, JsonObject, Part

Meaning = object
"""What a type means, by identity: an enum of `records`, or one of its NewTypes."""

Fits = Callable[[str], object]
"""Answers something true for text that is surely right; for all other text someone will look more closely."""


class Slot(NamedTuple):
    """One member that leads to a place: what its value, or each item of it, means, and what lies within."""

    name: str
    meaning: Meaning | None
    fits: Fits | None
    inner: Plan


Plan = tuple[Slot, ...]


class Place(NamedTuple):
    """A text that stands where its meaning is known."""

    meaning: Meaning
    steps: tuple[str | int, ...]
    text: str


def plan_of(kind: type[Part], wanted: Mapping[Meaning, Fits]) -> Plan:
    """List the members of a kind that lead to places of these meanings; no place has two."""
    slots = (_slot_of(field.encode_name, field.type, wanted) for field in msgspec.structs.fields(kind))
    return tuple(slot for slot in slots if slot.fits or slot.inner)


def _slot_of(name: str, annotation: object, wanted: Mapping[Meaning, Fits]) -> Slot:
    types = list(_flattened(annotation))
    meaning = next((each for each in types if each in wanted), None)
    inner = (plan_of(each, wanted) for each in types if isinstance(each, type) and issubclass(each, Part))
    return Slot(name, meaning, wanted.get(meaning), tuple(slot for plan in inner for slot in plan))


def _flattened(annotation: object) -> Iterator[object]:
    """Give the plain types of a union, or of a tuple of anything."""
    arguments = cast("tuple[object, ...]", get_args(annotation))
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _flattened(argument)


def all_fit(members: JsonObject, plan: Plan) -> bool:
    """Tell whether the text at every place is surely right; asked of every record, so it does nothing else."""
    for name, _, fits, inner in plan:
        value = members.get(name)
        if isinstance(value, str):
            if fits and not fits(value):
                return False
        elif value is not None and not _fit_within(value, fits, inner):
            return False
    return True


def _fit_within(value: Json, fits: Fits | None, inner: Plan) -> bool:
    if isinstance(value, dict):
        return not inner or all_fit(value, inner)
    for each in value if isinstance(value, list) else ():
        if isinstance(each, str):
            if fits and not fits(each):
                return False
        elif isinstance(each, dict) and inner and not all_fit(each, inner):
            return False
    return True


def places(members: JsonObject, plan: Plan, before: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Give every place of a plan that holds text in this record; what has the wrong shape is passed over."""
    for name, meaning, _, inner in plan:
        for steps, each in _items(members.get(name), (*before, name)):
            if isinstance(each, dict):
                yield from places(each, inner, steps)
            elif isinstance(each, str) and meaning is not None:
                yield Place(meaning, steps, each)


def _items(value: Json, steps: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    if isinstance(value, list):
        yield from (((*steps, index), item) for index, item in enumerate(value))
    else:
        yield steps, value
