"""The surfaces of a runtime by id. Old ones are archived in a compact form and rebuilt when they are used again."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self
from zlib import compress, decompress

from agenttool.catalog.entry import Entry
from agenttool.catalog.surface import Surface, SurfaceRequest
from agenttool.catalog.unresolved import unknown_surface
from agenttool.errors import ConfigError
from agenttool.ports.quota import OwnedEntries
from agenttool.records import SurfaceId, SurfaceScope, Timestamp, ToolId, ToolSurface

MAX_SURFACES = 1000
"""How many surfaces are stored as they are; beyond it, the oldest are archived."""

MAX_ARCHIVED = 100_000
"""How many archived surfaces are stored; beyond it, the oldest of the caller with the most are deleted."""

_SHORT_LIVED = (SurfaceScope.TURN, SurfaceScope.MODEL_REQUEST)
"""Surfaces of these scopes are archived first."""


class ArchivedSurface(NamedTuple):
    """The state to rebuild a surface from, in a few hundred bytes.

    Attributes:
        visibility: the compressed visibility codes of its tools, by number.
        newer: the id of the surface that replaced it.
        changes: the number of changes when it was archived.
    """

    request: SurfaceRequest
    loaded: frozenset[ToolId]
    extra: tuple[Entry, ...]
    visibility: bytes
    created_at: Timestamp | None
    reason: str | None
    newer: SurfaceId | None
    changes: int

    @classmethod
    def of(cls, surface: Surface, changes: int) -> Self:
        """Return the archived form of a surface."""
        return cls(
            request=surface.request,
            loaded=surface.loaded,
            extra=tuple({each.tool_id: each for each in surface.extra.values()}.values()),
            visibility=compress(surface.visibility.codes, 1),
            created_at=surface.record.created_at,
            reason=surface.record.surface_reason,
            newer=None if surface.newer is None else surface.newer.record.surface_id,
            changes=changes,
        )

    def codes(self) -> bytes:
        """Return the visibility codes of its tools."""
        return decompress(self.visibility)


Rebuild = Callable[[SurfaceId, ArchivedSurface], Surface]


class SurfaceStore:
    """Surfaces by id. A running call holds its own reference, so that archiving does not affect it.

    Attributes:
        by_id: the surfaces that can be called on; calls look here first.
        default: the surface of calls that name none; None if it has to be created or renewed.
        watchers: are called when the default surface has to be renewed, in any thread.
        closed: the surfaces at the time the runtime was closed; None while it is open.
        changes: how often the situation has changed.
    """

    def __init__(self, rebuild: Rebuild, max_surfaces: int = MAX_SURFACES) -> None:
        """Start with no surfaces; `rebuild` restores an archived one."""
        self.by_id: dict[str, Surface] = {}
        self.default: ToolSurface | None = None
        self.watchers: dict[object, Callable[[], object]] = {}
        self.closed: dict[str, Surface] | None = None
        self.changes = 0
        self._rebuild = rebuild
        self._max_surfaces = max_surfaces
        self._archived: OwnedEntries[str, ArchivedSurface] = OwnedEntries("archived surfaces", MAX_ARCHIVED)

    def outdate_default(self) -> None:
        """Renew the default surface before its next use, and notify the watchers once until then."""
        before, self.default = self.default, None
        if before is not None:
            for each in tuple(self.watchers.values()):
                each()

    def __iter__(self) -> Iterator[Surface]:
        """Iterate over the surfaces that are not archived, the oldest first."""
        return iter(tuple((self.closed or self.by_id).values()))

    @property
    def is_closed(self) -> bool:
        """Whether no surface can be called on any more."""
        return self.closed is not None

    def add(self, surface: Surface, in_use: frozenset[str | None] = frozenset()) -> None:
        """Add a surface; if there are too many, archive the oldest that is not in use."""
        if len(self.by_id) >= self._max_surfaces:
            idle = [each for each in self.by_id if each not in in_use]
            short_lived = (each for each in idle if self.by_id[each].record.scope in _SHORT_LIVED)
            oldest = next(short_lived, next(iter(idle), None))
            if oldest is not None:
                archived = ArchivedSurface.of(self.by_id.pop(oldest), self.changes)
                self._archived.add(archived.request.refs[:1], oldest, archived)  # a server puts the caller first
        self.by_id[surface.record.surface_id] = surface

    def find(self, given: object) -> Surface | None:
        """Return the surface of a record; None if it is no surface or not known."""
        return self.with_id(given.surface_id) if isinstance(given, ToolSurface) else None

    def with_id(self, surface_id: SurfaceId) -> Surface | None:
        """Return the surface with an id, rebuilt if it is archived; None if it is not known."""
        return None if self.is_closed else self.by_id.get(surface_id) or self._restore(surface_id)

    def get(self, given: object) -> Surface:
        """Return the surface of a record.

        Raises:
            ConfigError: it is no surface, or this runtime does not know it.
        """
        found = self.find(given)
        if found is None:
            raise ConfigError(unknown_surface(given).message)
        return found

    def remove(self, surface_id: SurfaceId) -> None:
        """Delete a surface and those that replaced it; running calls are not affected."""
        rest: SurfaceId | None = surface_id
        while rest is not None:
            live, archived = self.by_id.pop(rest, None), self._archived.pop(rest)
            newer = None if live is None or live.newer is None else live.newer.record.surface_id
            rest = newer if archived is None else archived.newer

    def close(self) -> None:
        """Allow no more calls on any surface."""
        if self.closed is None:
            self.closed, self.by_id = self.by_id, {}

    def _restore(self, surface_id: SurfaceId) -> Surface | None:
        """Rebuild an archived surface, and the newest one that replaced it."""
        archived = self._archived.pop(surface_id)
        if archived is None:
            return None
        surface, newest = self._rebuild(surface_id, archived), archived.newer
        while newest is not None and (older := self._archived.get(newest)) is not None and older.newer is not None:
            newest = older.newer
        if newest is not None:
            surface.newer = self.with_id(newest)
        self.add(surface)
        return surface
