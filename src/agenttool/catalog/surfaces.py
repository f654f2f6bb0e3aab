"""The surfaces that a runtime has made: found again by id, and in the end forgotten."""

from collections.abc import Iterator

from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import NO_SURFACE, Unresolved
from agenttool.errors import ConfigError
from agenttool.records import ErrorClass, SurfaceScope, ToolSurface

KEEP = 1000
"""How many surfaces can be called on; of more, the oldest are forgotten."""

_PASSING = (SurfaceScope.TURN, SurfaceScope.MODEL_REQUEST)
"""Scopes that are soon over, so that their surfaces go first."""


class Surfaces:
    """Surfaces by id. A call under way has its own hold of its surface, and is not disturbed when that is forgotten.

    Attributes:
        by_id: what can be called on; for the path of a call, which looks here and nowhere else.
        closed: what could be called on until the runtime was closed.
    """

    def __init__(self, keep: int = KEEP) -> None:
        """Take how many to keep."""
        self.by_id: dict[str, Surface] = {}
        self.closed: dict[str, Surface] | None = None
        self._keep = keep

    def __iter__(self) -> Iterator[Surface]:
        """Go through the surfaces that are kept, the oldest first."""
        return iter(tuple((self.closed or self.by_id).values()))

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing can be called on any more."""
        return self.closed is not None

    def add(self, surface: Surface, in_use: frozenset[str | None] = frozenset()) -> None:
        """Keep a surface; if that is one too many, forget the oldest of those that nobody uses."""
        if len(self.by_id) >= self._keep:
            idle = [each for each in self.by_id if each not in in_use]
            passing = (each for each in idle if self.by_id[each].record.scope in _PASSING)
            oldest = next(passing, next(iter(idle), None))
            if oldest is not None:
                del self.by_id[oldest]
        self.by_id[surface.record.surface_id] = surface

    def made(self, given: object) -> Surface:
        """Give a surface that can be called on.

        Raises:
            ConfigError: it is none, or this runtime does not know it.
        """
        found = self.by_id.get(given.surface_id) if isinstance(given, ToolSurface) else None
        if found is None:
            raise ConfigError(why_lost(given).message)
        return found

    def close(self) -> None:
        """Let nobody call on a surface any more."""
        if self.closed is None:
            self.closed, self.by_id = self.by_id, {}


def why_lost(given: object) -> Unresolved:
    """Say why what was given as a surface leads nowhere."""
    if given is None:
        return NO_SURFACE
    if isinstance(given, ToolSurface):
        told = "this runtime does not know this surface: another runtime made it, or it is too old"
    else:
        told = f"a surface is what `surface(...)` gives, got a {type(given).__name__}"
    return Unresolved(
        error_class=ErrorClass.UNKNOWN_TOOL,
        code="unknown_surface",
        message=f"{told}; make a new one with `surface(...)` and pass it along",
    )
