"""A way through a document of any depth without recursion, remembering how each value was reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agenttool.records import Json
from agenttool.schema.explain import pointer_of

Step = str | int


class Trail(NamedTuple):
    """One step and those before it; steps are shared, so a trail costs one small object."""

    before: Trail | None
    step: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps from the outside in."""
        steps: list[Step] = []
        trail: Trail | None = self
        while trail:
            steps.append(trail.step)
            trail = trail.before
        return tuple(reversed(steps))

    @property
    def pointer(self) -> str:
        """The trail as a JSON pointer."""
        return pointer_of(self.steps)


class Visit(NamedTuple):
    """A value, the array or object it stands in, and the trail to it."""

    trail: Trail
    parent: list[Json] | dict[str, Json]
    value: Json


def walk(root: Json) -> Iterator[Visit]:
    """Visit every value below the root, in the order of the document.

    The visitor may replace the value in its parent after having seen it, but not add or remove members.
    """
    open_ones: list[tuple[Trail | None, list[Json] | dict[str, Json], Iterator[tuple[Step, Json]]]] = []
    if isinstance(root, list | dict):
        open_ones.append((None, root, _children(root)))
    while open_ones:
        before, parent, children = open_ones[-1]
        for step, value in children:
            trail = Trail(before, step)
            yield Visit(trail, parent, value)
            if isinstance(value, list | dict):
                open_ones.append((trail, value, _children(value)))
                break
        else:
            open_ones.pop()


def _children(value: list[Json] | dict[str, Json]) -> Iterator[tuple[Step, Json]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)
