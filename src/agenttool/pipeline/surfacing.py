"""The surfaces of an agent: made anew, or grown by tools that were asked for; each is noted."""

from collections.abc import Iterable

from agenttool.catalog.catalog import Entry
from agenttool.catalog.filters import Situation
from agenttool.catalog.surface import Surface, build_surface
from agenttool.journal import steps
from agenttool.journal.moments import timestamp
from agenttool.pipeline.asked import chosen_within
from agenttool.pipeline.core import Core
from agenttool.pipeline.evidence import SurfaceMade
from agenttool.policy.mode import PermissionMode
from agenttool.records import SURFACE, SurfaceScope


def new_surface(core: Core, tools: Iterable[Entry], scope: SurfaceScope, only: frozenset[str] | None) -> Surface:
    """Make the surface of a context from all tools."""
    built = _build(core, tools, scope, only, frozenset())
    core.journal.note_apart(steps.SURFACE_CREATED, SurfaceMade(built.record))
    return built


def grown(core: Core, before: Surface, chosen: Iterable[Entry], within: frozenset[str] | None) -> Surface:
    """Make a surface anew from the tools of another, with some of its deferred tools loaded, and no others."""
    chosen = tuple(chosen)
    loaded = frozenset(entry.tool_id for entry in (*before.entries.values(), *chosen))
    built = _build(core, before.tools, before.record.scope, chosen_within(within, before.only), loaded)
    for entry in set(before.entries.values()).difference(before.tools):
        built.offer(entry)  # as it was offered on the other, after that was made
    surface_id = built.record.surface_id
    for entry in chosen:
        told = {"tool_id": entry.tool_id, "name": entry.qualified_name, "surface_id": surface_id}
        core.journal.note_apart(steps.DEFERRED_LOADED, {**told})
    core.journal.note_apart(steps.SURFACE_UPDATED, SurfaceMade(built.record))
    return built


def _build(
    core: Core, tools: Iterable[Entry], scope: SurfaceScope, only: frozenset[str] | None, loaded: frozenset[str]
) -> Surface:
    return build_surface(
        tools,
        Situation(
            allows_writes=core.policy.mode is not PermissionMode.READ_ONLY,
            is_interactive=core.policy.interactive,
            only=only,
        ),
        surface_id=core.ids.new(SURFACE),
        scope=scope,
        created_at=timestamp(core.now_ns()),
        loaded=loaded,
    )
