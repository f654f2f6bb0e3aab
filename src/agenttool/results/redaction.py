"""Sensitive fields: compiled once per tool, taken out of whatever leaves the call."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.records import Json
from agenttool.schema.explain import pointer_of

MARKER = "[redacted]"
"""What stands where something was taken out. It says nothing of what stood there, not even a digest: that of a short
secret can be guessed."""

_INDEX = re.compile(r"\[([^\[\]]*)\]")
_WHOLE = ("", "$", "*", "/*")


@dataclass(slots=True)
class _Place:
    """Where some paths go on: by member or item, by any of them, or not at all because one ends here."""

    steps: "dict[str, _Place]" = field(default_factory=dict[str, "_Place"])
    ends: bool = False

    def grow(self, steps: list[str]) -> None:
        place = self
        for step in steps:
            place = place.steps.setdefault(step, _Place())
        place.ends = True

    def after(self, step: str) -> "list[_Place]":
        return [self.steps[each] for each in (step, "*") if each in self.steps]


_Places = tuple[_Place, ...]


class Redactor:
    """Takes the values at sensitive places out of JSON values; what it does not touch is shared, not copied."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Compile paths; see `compile_redactor`."""
        self._paths = tuple(paths)
        self._root = _Place()
        self._names: set[str] = set()
        self.is_whole = False
        for path in self._paths:
            self._add(path)
        self._start: _Places = (self._root,) if self._root.steps else ()

    def _add(self, path: str) -> None:
        if path in _WHOLE:
            self.is_whole = True
        elif path.startswith("/"):
            self._root.grow([step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")])
        else:
            self._names.add(path)
            steps = [step for step in _INDEX.sub(r".\1", path).removeprefix("$").split(".") if step]
            if len(steps) > 1:
                self._root.grow(steps)
            else:
                self._names.update(steps)

    def and_also(self, paths: Iterable[str]) -> "Redactor":
        """Give one that takes out more."""
        return Redactor((*self._paths, *paths))

    def redact(self, value: Json) -> Json:
        """Give the value with the marker at every sensitive place, or the very same value if there was none.

        A value too deep to be looked through is taken out as a whole.
        """
        if self.is_whole:
            return MARKER
        try:
            return self._redacted(value, self._start)
        except RecursionError:
            return MARKER

    def find(self, value: Json) -> list[Json]:
        """Collect the values at sensitive places, as they are: what must be seen nowhere else."""
        found: list[Json] = [value] if self.is_whole else []
        rest: list[tuple[Json, _Places]] = [] if self.is_whole else [(value, self._start)]
        while rest:
            outer, places = rest.pop()
            for step, item in _members(outer):
                inner = self._inner(step, places, through=isinstance(outer, list))
                if inner is None:
                    found.append(item)
                else:
                    rest.append((item, inner))
        return found

    def _redacted(self, value: Json, places: _Places) -> Json:
        if isinstance(value, dict):
            changed: dict[str, Json] = {}
            for key, item in value.items():
                inner = self._inner(key, places, through=False)
                new = MARKER if inner is None else self._redacted(item, inner)
                if new is not item:
                    changed[key] = new
            return {**value, **changed} if changed else value
        if isinstance(value, list):
            items = value
            for at, item in enumerate(value):
                inner = self._inner(str(at), places, through=True) if places else places
                new = MARKER if inner is None else self._redacted(item, inner)
                if new is not item:
                    items = list(value) if items is value else items
                    items[at] = new
            return items
        return value

    def _inner(self, step: str, places: _Places, *, through: bool) -> _Places | None:
        """Go one step down; nothing comes back where a path ends. A path goes through lists that it does not name."""
        if not through and step in self._names:
            return None
        if not places:
            return places
        inner = tuple(found for place in places for found in place.after(step))
        if any(place.ends for place in inner):
            return None
        return (*inner, *places) if through else inner


def _members(value: Json) -> Iterable[tuple[str, Json]]:
    if isinstance(value, dict):
        return value.items()
    return ((str(index), item) for index, item in enumerate(value)) if isinstance(value, list) else ()


def compile_redactor(paths: Iterable[str] | None) -> Redactor | None:
    """Compile the sensitive places of one tool; a tool without any gets none, and pays nothing.

    A place is a name (`password`, on any level), a dotted path (`user.token`, `keys[*].secret`) or a JSON pointer
    (`/user/token`), both from the root; `*` is any item or member, and the empty path is everything. A name with a dot
    in it is read both ways: what could be meant is hidden.
    """
    listed = list(paths or ())
    return Redactor(listed) if listed else None


def restored(after: Json, before: Json) -> Json:
    """Put back what someone was not shown: a marker that they left standing means the value that was there."""
    if after == MARKER:
        return before
    if isinstance(after, dict) and isinstance(before, dict):
        return {name: restored(value, before.get(name)) for name, value in after.items()}
    if isinstance(after, list) and isinstance(before, list) and len(after) == len(before):
        return [restored(value, before[place]) for place, value in enumerate(after)]
    return after


def refuse_misplaced(after: Json, shown: Json) -> None:
    """Refuse a changed value with a marker where none was shown: nobody knows what it would mean.

    What is no JSON has no such place; whoever reads it will say what is wrong with it.

    Raises:
        RecordError: names the first such place.
    """
    try:
        own = parse_object(json_bytes(after))
    except RecordError:
        return
    for steps in _misplaced(own, shown, ()):
        told = "what was redacted cannot be moved; leave it where it was shown, or write a value there"
        raise RecordError(told, pointer=pointer_of(steps))


def _misplaced(after: Json, shown: Json, steps: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if after == MARKER:
        if shown != MARKER:
            yield steps
    elif isinstance(after, dict):
        known = shown if isinstance(shown, dict) else {}
        for name, value in after.items():
            yield from _misplaced(value, known.get(name), (*steps, name))
    elif isinstance(after, list):
        # Of a list that grew or shrank nobody can tell which item is which.
        known = shown if isinstance(shown, list) and len(shown) == len(after) else [None] * len(after)
        for place, value in enumerate(after):
            yield from _misplaced(value, known[place], (*steps, place))
