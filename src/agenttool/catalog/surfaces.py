"""The surfaces that a runtime has made: found by id, put away if there are many, made again when they are used."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self
from zlib import compress, decompress

from agenttool.catalog.entry import Entry
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import NO_SURFACE, Unresolved
from agenttool.errors import ConfigError
from agenttool.records import ErrorClass, SurfaceId, SurfaceScope, Timestamp, ToolId, ToolSurface

KEEP = 1000
"""How many surfaces are kept as they are; of more, the oldest are put away."""

PUT_AWAY = 100_000
"""How many of those that were put away can be made again; of more, the oldest are forgotten."""

_PASSING = (SurfaceScope.TURN, SurfaceScope.MODEL_REQUEST)
"""Scopes that are soon over, so that their surfaces go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAway:
    """What it takes to make a surface again as it was, in a few hundred bytes, however many tools there are.

    Attributes:
        fates: those of its tools by their numbers, which never change, packed.
        newer: the surface that took its place.
        changes: how often something had changed when it was put away.
    """

    request: SurfaceRequest
    loaded: frozenset[ToolId]
    extra: tuple[Entry, ...]
    fates: bytes
    created_at: Timestamp | None
    reason: str | None
    newer: SurfaceId | None
    changes: int

    @classmethod
    def of(cls, surface: Surface, changes: int) -> Self:
        """Keep the facts of a surface."""
        return cls(
            request=surface.request,
            loaded=surface.loaded,
            extra=tuple({each.tool_id: each for each in surface.extra.values()}.values()),
            fates=compress(surface.fates.codes, 1),
            created_at=surface.record.created_at,
            reason=surface.record.surface_reason,
            newer=None if surface.newer is None else surface.newer.record.surface_id,
            changes=changes,
        )

    def codes(self) -> bytes:
        """Give the fates of the tools there were."""
        return decompress(self.fates)


Remake = Callable[[SurfaceId, PutAway], Surface]


class Surfaces:
    """Surfaces by id. A call under way has its own hold of its surface, and is not disturbed when that is put away.

    Attributes:
        by_id: what can be called on at once; for the path of a call, which looks here first.
        closed: what could be called on until the runtime was closed.
        changes: how often something changed under them.
    """

    def __init__(self, remake: Remake, keep: int = KEEP) -> None:
        """Take how a surface is made again, and how many to keep."""
        self.by_id: dict[str, Surface] = {}
        self.closed: dict[str, Surface] | None = None
        self.changes = 0
        self._remake = remake
        self._keep = keep
        self._away: dict[str, PutAway] = {}

    def __iter__(self) -> Iterator[Surface]:
        """Go through the surfaces that are kept, the oldest first."""
        return iter(tuple((self.closed or self.by_id).values()))

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing can be called on any more."""
        return self.closed is not None

    def add(self, surface: Surface, in_use: frozenset[str | None] = frozenset()) -> None:
        """Keep a surface; if that is one too many, put away the oldest of those that nobody uses."""
        if len(self.by_id) >= self._keep:
            idle = [each for each in self.by_id if each not in in_use]
            passing = (each for each in idle if self.by_id[each].record.scope in _PASSING)
            oldest = next(passing, next(iter(idle), None))
            if oldest is not None:
                self._put_away(oldest)
        self.by_id[surface.record.surface_id] = surface

    def find(self, given: object) -> Surface | None:
        """Give a surface that was made here, if need be made again; none if it is none, or forgotten."""
        return self.with_id(given.surface_id) if isinstance(given, ToolSurface) else None

    def with_id(self, surface_id: SurfaceId) -> Surface | None:
        """Give the surface with an id, likewise."""
        return None if self.is_closed else self.by_id.get(surface_id) or self._again(surface_id)

    def made(self, given: object) -> Surface:
        """Give a surface that can be called on.

        Raises:
            ConfigError: it is none, or this runtime does not know it.
        """
        found = self.find(given)
        if found is None:
            raise ConfigError(why_lost(given).message)
        return found

    def close(self) -> None:
        """Let nobody call on a surface any more."""
        if self.closed is None:
            self.closed, self.by_id = self.by_id, {}

    def _put_away(self, surface_id: str) -> None:
        self._away[surface_id] = PutAway.of(self.by_id.pop(surface_id), self.changes)
        if len(self._away) > PUT_AWAY:
            del self._away[next(iter(self._away))]

    def _again(self, surface_id: SurfaceId) -> Surface | None:
        """Make a surface again, and the one that is in its place now."""
        facts = self._away.pop(surface_id, None)
        if facts is None:
            return None
        surface, newest = self._remake(surface_id, facts), facts.newer
        while newest is not None and newest in self._away and self._away[newest].newer is not None:
            newest = self._away[newest].newer
        if newest is not None:
            surface.newer = self.with_id(newest)
        self.add(surface)
        return surface


def why_lost(given: object) -> Unresolved:
    """Say why what was given as a surface leads nowhere."""
    if given is None:
        return NO_SURFACE
    if isinstance(given, ToolSurface):
        told = "this runtime does not know this surface: another runtime made it, or very many were made since"
    else:
        told = f"a surface is what `surface(...)` gives, got a {type(given).__name__}"
    return Unresolved(
        error_class=ErrorClass.UNKNOWN_TOOL,
        code="unknown_surface",
        message=f"{told}; make a new one with `surface(...)` and pass it along",
    )
