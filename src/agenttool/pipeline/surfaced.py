"""The part of the public face for those who show tools to a model: make surfaces, search, load, tell what changed."""

from collections.abc import Iterable
from typing import Unpack

from agenttool.errors import ConfigError
from agenttool.pipeline.asked_surface import SurfaceContext, surface_request
from agenttool.pipeline.changes import Changes
from agenttool.pipeline.offering import offered_on
from agenttool.pipeline.surfacing import Surfacing
from agenttool.ports.offer import OfferedTool
from agenttool.records import SurfaceId, ToolSearchResult, ToolSurface


class Surfaced:
    """What a model may be shown, and how that changes; a `Runtime` is one of these, and more."""

    _surfacing: Surfacing

    def _refuse_if_closed(self) -> None:
        if self._surfacing.surfaces.is_closed:
            raise ConfigError("this runtime is closed; open another one")

    async def surface(
        self, scope: str = "turn", *, only: Iterable[str] | None = None, **context: Unpack[SurfaceContext]
    ) -> ToolSurface:
        """Make the surface of one context: which tools are loaded, deferred or absent, and why.

        Raises:
            ConfigError: the scope, the choice of tools or the context is none, or the runtime is closed.
        """
        self._refuse_if_closed()
        return self._surfacing.make(surface_request(scope, only, context))

    def surface_with(self, surface_id: str) -> ToolSurface | None:
        """Give the surface with an id, for those who pass ids around instead of records; none if it is unknown."""
        self._refuse_if_closed()
        found = self._surfacing.surfaces.with_id(SurfaceId(surface_id))
        return None if found is None else found.record

    async def search(self, query: str, *, surface: ToolSurface, limit: int = 10) -> ToolSearchResult:
        """Find tools that a surface offers or defers: by words, or exactly, as in `select:name,other_name`.

        Raises:
            ConfigError: there is no such surface, the query is no text, or the runtime is closed.
        """
        self._refuse_if_closed()
        return await self._surfacing.search(surface, query, limit)

    async def prepare_search(self, *, seconds: float = 60.0) -> bool:
        """Read all tools now, and wait until a search model has read them, too; no search needs this.

        Tells whether every tool can be found by its meaning, as far as there is a model. A model that is not done in
        time goes on in the background.

        Raises:
            ConfigError: the runtime is closed.
        """
        self._refuse_if_closed()
        return await self._surfacing.prepare_search(seconds)

    async def load(self, surface: ToolSurface, names: Iterable[str]) -> ToolSurface:
        """Make a surface that shows the named tools besides; the same one, if it shows them all.

        Raises:
            ConfigError: there is no such surface, a name leads to no tool there, or the runtime is closed.
        """
        self._refuse_if_closed()
        return self._surfacing.load(surface, names)

    async def current(self, surface: ToolSurface) -> ToolSurface:
        """Give the surface that took the place of this one, because a model loaded tools or something changed.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        return self.latest(surface)

    def latest(self, surface: ToolSurface) -> ToolSurface:
        """Do what `current` does, where nobody can wait.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        self._refuse_if_closed()
        return self._surfacing.current(surface)

    async def change(self, **changes: Unpack[Changes]) -> dict[SurfaceId, ToolSurface]:
        """Say that something changed under the surfaces: `await rt.change(credentials=["github"])`.

        It holds at once, also on surfaces made before: what is not there any more cannot be called. Those in use are
        made anew, and given by the ids of those they replace.

        Raises:
            ConfigError: what changes is not what it should be, or the runtime is closed; then nothing has changed.
        """
        self._refuse_if_closed()
        return await self._surfacing.change(changes)

    def offered(self, surface: ToolSurface, *, deferred: bool = True) -> tuple[OfferedTool, ...]:
        """List the tools of a surface that was made here as a model may be shown them, deferred ones last.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        self._refuse_if_closed()
        return offered_on(self._surfacing.surfaces.made(surface), deferred=deferred)
