"""The surfaces of one agent: made, grown by tools that were asked for, and made anew when the world changes."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast
from weakref import WeakSet

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import Entry
from agenttool.catalog.fates import DEFERRED, Wish, decide_fates
from agenttool.catalog.filters import Situation
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.roster import Roster
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.known import Known
from agenttool.catalog.spoken import FINDER
from agenttool.catalog.surface import Surface
from agenttool.catalog.surface_record import Making, record_of
from agenttool.catalog.surfaces import PutAway, Surfaces
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError
from agenttool.journal import steps
from agenttool.pipeline.asked import names_in
from agenttool.pipeline.call import Call
from agenttool.pipeline.changes import CAUSES, Changes, causes_of, changed_circumstances, changed_policy
from agenttool.pipeline.core import Core
from agenttool.pipeline.denied import Denied
from agenttool.pipeline.discover import prepare_search, search_tools, told_to_model
from agenttool.pipeline.evidence import SurfaceMade
from agenttool.pipeline.renewals import Renewals
from agenttool.pipeline.tool_search import FINDER_ID, tool_search_tool
from agenttool.policy.votes import PermissionMode
from agenttool.ports.surfacing import Circumstances, ProviderState, SurfacePolicy
from agenttool.ports.tool import DeclaredTool
from agenttool.records import SURFACE, JsonObject, SurfaceId, ToolId, ToolSearchResult, ToolSurface, replace

MOST_RULES = 50
"""So many rules are named one by one where a surface says what it rests on; of more, only the whole book."""

MOST_REFS = 200
"""Of so many deferred tools the log keeps all that a surface tells of them; of more, only their ids."""


@dataclass(frozen=True, slots=True, eq=False)
class Shop:
    """What all agents of a runtime share: the tools, how they are found, and how one more is declared."""

    catalog: Catalog
    index: Index
    policy: SurfacePolicy
    declare: Callable[[DeclaredTool], None]


class Surfacing:
    """The surfaces of one agent, and what decides about them."""

    def __init__(
        self, core: Core, shop: Shop, circumstances: Circumstances, *, parent: "Surfacing | None" = None
    ) -> None:
        """Take the agent, and that of whoever started it."""
        self.surfaces = Surfaces(self._remade)
        self.core = core
        self._shop = shop
        self._own = circumstances
        self._sources: dict[str, ProviderState] = {}
        self._parent = parent
        self._bounds: frozenset[ToolId] | None = None
        self._denied = Denied(core, shop.policy)
        self._children: WeakSet[Surfacing] = WeakSet()
        self._renewals = Renewals(core.loop, self._renew)
        core.find_tools = self._find_for_model
        core.policy_changed = self._after_policy

    def for_child(self, core: Core, given: ToolSurface) -> "Surfacing":
        """Give the surfaces of a sub-agent: the one that it is handed, without what waits there, and those it makes.

        Raises:
            ConfigError: the surface was not made here.
        """
        found = self.surfaces.find(given)
        if found is None:
            raise ConfigError("a sub-agent gets a surface that was made here; make one with `surface(...)`")
        child = Surfacing(core, self._shop, self.circumstances, parent=self)
        child.take(dataclasses.replace(found, fates=found.fates.bounded(), newer=None, extra={**found.extra}))
        self._children.add(child)
        return child

    def take(self, handed: Surface) -> None:
        """Begin with a surface that somebody handed on, and know nothing beyond it."""
        self._bounds = frozenset((*handed.callable, *(each.tool_id for each in handed.extra.values())))
        handed.narrow(self._situation(handed.request))
        self.surfaces.add(handed)

    @property
    def circumstances(self) -> Circumstances:
        """What holds for this agent: nothing beyond what holds for the one above it."""
        own = self._own
        if self._sources:  # what their owner says of providers counts for more
            own = dataclasses.replace(own, providers={**self._sources, **own.providers})
        return own if self._parent is None else own.within(self._parent.circumstances)

    def make(self, request: SurfaceRequest) -> ToolSurface:
        """Make the surface of a context from all tools."""
        built = self._built(request)
        self.core.journal.note_apart(steps.SURFACE_CREATED, SurfaceMade(_brief(built.record)))
        return self._kept(built)

    def as_before(self, surface_id: str, reach: frozenset[ToolId] | None) -> Surface:
        """Give a surface that is kept, or make one again of another process: it reaches no further than that did."""
        kept = self.surfaces.with_id(SurfaceId(surface_id))
        if kept is not None:
            return kept
        built = self._built(SurfaceRequest(), bounds=reach)
        return dataclasses.replace(built, record=replace(built.record, surface_id=SurfaceId(surface_id)))

    def _remade(self, surface_id: SurfaceId, facts: PutAway) -> Surface:
        """Make a surface again as it was, but for what is gone; if something changed since, another takes its place."""
        built = self._built(facts.request, loaded=facts.loaded, reason=facts.reason, earlier=facts.codes())
        record = replace(built.record, surface_id=surface_id, created_at=facts.created_at)
        surface = dataclasses.replace(built, record=record)
        for entry in facts.extra:
            surface.offer(entry)
        if facts.newer is None and facts.changes < self.surfaces.changes:
            surface.newer = self._renewed(surface, "something changed while it was put away")
        return surface

    def load(self, given: ToolSurface, names: Iterable[str]) -> ToolSurface:
        """Make a surface that shows the named tools besides; the same one, if it shows them all.

        Raises:
            ConfigError: there is no such surface, or a name leads to no tool that can be loaded there.
        """
        before = self.surfaces.made(given)
        chosen = Known.on(before).to_load(self._shop.index, names_in(names))
        if not chosen:
            return before.record
        built = self._grown(before, chosen)
        gone = [each.qualified_name for each in chosen if each.tool_id not in built.shown]
        if gone:
            raise ConfigError(f"{gone[0]!r} cannot be loaded any more; the surface `current(surface)` says why")
        return self._loaded(before, built, chosen).record

    def current(self, given: ToolSurface) -> ToolSurface:
        """Give the surface that took the place of another, or that one itself.

        Raises:
            ConfigError: there is no such surface.
        """
        surface = self.surfaces.made(given).latest()
        self._renewals.settle(surface)
        return surface.latest().record

    async def search(self, given: ToolSurface, query: str, limit: int) -> ToolSearchResult:
        """Search among what a surface lets its caller know of.

        Raises:
            ConfigError: there is no such surface, or the query is none.
        """
        found = self.surfaces.made(given)
        surface_id = found.record.surface_id
        return await search_tools(self.core, self._shop.index, self._known(found), query, limit, surface_id)

    async def prepare_search(self, seconds: float) -> bool:
        """Read all tools, and wait for a search model to have read them; tell whether it has."""
        return await prepare_search(self._shop.index, seconds)

    async def change(self, changes: Changes) -> dict[SurfaceId, ToolSurface]:
        """Let something about the world be otherwise from now on; give the surfaces made anew by those they replace.

        Raises:
            ConfigError: what changes is not what it should be; then nothing has changed.
        """
        causes = causes_of(changes)
        policy, own = changed_policy(self.core.policy, changes), changed_circumstances(self._own, changes)
        self.core.policy, self._own = policy, own
        self.narrow()
        return await self.renew(causes)

    async def hear(self, providers: Mapping[str, ProviderState]) -> None:
        """Know how far the servers behind namespaces are; surfaces are made anew, with the tools there are by now."""
        self._sources.update(providers)
        self.narrow()
        await self.renew((CAUSES["providers"],))

    def withdraw(self, entry: Entry) -> None:
        """Let no surface of any agent offer what an author took back just now; those that held it are made anew."""
        self.narrow()
        self._mark(entry)

    def _mark(self, entry: Entry) -> None:
        self.surfaces.changes += 1
        for surface in self.surfaces:
            if surface.newer is None and surface.holds(entry.tool_id):
                self._renewals.mark(surface, f"{entry.qualified_name} taken back")
        for child in self._children:
            child._mark(entry)  # noqa: SLF001 -- one of ours

    def _after_policy(self) -> None:
        """Let surfaces be made anew, because a person wanted a rule to be remembered."""
        self.narrow()
        self.surfaces.changes += 1
        for surface in self.surfaces:
            if surface.newer is None:
                self._renewals.mark(surface, f"{CAUSES['rules']} changed")

    def narrow(self) -> None:
        """Let old surfaces, and those of sub-agents, offer nothing that is not there any more; at once for all."""
        for surface in self.surfaces:
            surface.narrow(self._situation(surface.request))
        for child in self._children:
            child.core.policy = dataclasses.replace(child.core.policy, parent=self.core.policy)
            child.narrow()

    async def renew(self, causes: tuple[str, ...]) -> dict[SurfaceId, ToolSurface]:
        """Make every surface anew that no other has replaced, one after the other between other work."""
        self.surfaces.changes += 1
        renewed: dict[SurfaceId, ToolSurface] = {}
        reason = f"{' and '.join(causes)} changed"
        for before in tuple(self.surfaces):
            if before.newer is None and not self.surfaces.is_closed:
                self._renew(before, reason)
                renewed[before.record.surface_id] = before.latest().record
                await asyncio.sleep(0)
        for child in tuple(self._children):
            renewed.update(await child.renew(causes))
        return renewed

    def _renew(self, before: Surface, reason: str) -> None:
        if not self.surfaces.is_closed:
            before.newer = self._renewed(before, reason)

    def _renewed(self, before: Surface, reason: str) -> Surface:
        return self._put_after(before, self._built(before.request, loaded=before.loaded, reason=reason))

    def _grown(self, before: Surface, chosen: Iterable[Entry]) -> Surface:
        """Make a surface from the tools of another, with some of its deferred tools loaded that are still there."""
        chosen = tuple(chosen)
        loaded = before.loaded.union(each.tool_id for each in chosen)
        names = ", ".join(each.qualified_name for each in chosen)
        return self._built(before.request, loaded=loaded, reason=f"{names} loaded", roster=before.roster)

    def _loaded(self, before: Surface, built: Surface, chosen: Iterable[Entry]) -> Surface:
        """Let a surface with tools loaded follow the one without."""
        for entry in chosen:
            told = {"tool_id": entry.tool_id, "name": entry.qualified_name, "surface_id": built.record.surface_id}
            self.core.journal.note_apart(steps.DEFERRED_LOADED, {**told})
        return self._put_after(before, built)

    def _put_after(self, before: Surface, built: Surface) -> Surface:
        built.extra.update(before.extra)
        replaced = before.record.surface_id
        self.core.journal.note_apart(steps.SURFACE_UPDATED, SurfaceMade(_brief(built.record), replaced))
        self._kept(built)
        return built

    def _built(
        self,
        request: SurfaceRequest,
        *,
        loaded: frozenset[ToolId] = frozenset(),
        reason: str | None = None,
        roster: Roster | None = None,
        bounds: frozenset[ToolId] | None = None,
        earlier: bytes | None = None,
    ) -> Surface:
        situation = self._situation(request, bounds)
        roster = roster or self._shop.catalog.roster()
        wish = Wish(
            loaded=loaded.union(situation.bounds or ()),
            denied=self._denied.among(roster),
            finder=FINDER_ID,
            policy=self._shop.policy,
        )
        fates = decide_fates(roster, situation, wish)
        if fates.count(DEFERRED) and roster.number(FINDER_ID) is None:
            self._shop.declare(tool_search_tool())
            self._shop.index.remove(FINDER_ID)  # it finds the others, and not itself
            return self._built(request, loaded=loaded, reason=reason, bounds=bounds, earlier=earlier)
        if earlier is not None:
            fates = fates.as_before(earlier)
        making = Making(
            surface_id=self.core.ids.new(SURFACE),
            created_at=timestamp(self.core.now_ns()),
            request=request,
            situation=situation,
            policy=self._shop.policy,
            policy_refs=self._policy_refs(),
            reason=reason,
        )
        record = record_of(fates, making)
        return Surface(record=record, fates=fates, request=request, situation=situation, loaded=loaded)

    def _situation(self, request: SurfaceRequest, bounds: frozenset[ToolId] | None = None) -> Situation:
        line = tuple(self.core.line())
        circumstances = self.circumstances
        return Situation(
            allows_writes=all(each.policy.mode is not PermissionMode.READ_ONLY for each in line),
            is_interactive=all(each.policy.interactive for each in line),
            is_child=self._parent is not None,
            circumstances=circumstances,
            model=request.model or circumstances.model,
            role=request.role,
            only=request.only,
            bounds=self._bounds if bounds is None else bounds,
        )

    def _policy_refs(self) -> tuple[str, ...]:
        policy = self.core.policy
        rules = (
            [rule.ref for rule in policy.book] if len(policy.book) <= MOST_RULES else [f"rules:{policy.book.version}"]
        )
        return (f"mode:{policy.mode}", *rules)

    def _kept(self, built: Surface) -> ToolSurface:
        calls = (cast("Call", call) for call in self.core.calls.values())
        self.surfaces.add(built, frozenset(call.request.surface_id for call in calls))
        return built.record

    def _known(self, surface: Surface) -> Known:
        """Give what may be known of on a surface: nothing that was left out since it was made."""
        return Known.of(surface, surface.left(self._denied.among))

    async def _find_for_model(
        self, asked_on: Surface, query: str, limit: int, known_as: Mapping[str, str]
    ) -> JsonObject:
        """Search for a model; what it selects by name is loaded on a surface that takes the place of its own."""
        surface = asked_on.latest()
        known, surface_id = self._known(surface), surface.record.surface_id
        result = await search_tools(self.core, self._shop.index, known, query, limit, surface_id)
        chosen = known.selected(result)
        if chosen:
            surface = asked_on.latest()  # another search may have loaded something meanwhile
            built = self._grown(surface, chosen)
            chosen = tuple(each for each in chosen if each.tool_id in built.shown)
            if chosen:
                surface.newer = self._loaded(surface, built, chosen)
                surface = surface.newer
        told = told_to_model(result, known, chosen, surface.spoken(FINDER, known_as))
        return {**told, "surface_id": surface.record.surface_id}


def _brief(record: ToolSurface) -> ToolSurface:
    """Shorten what the log keeps of a surface on which very many tools wait: the declarations say the rest."""
    if len(record.deferred_tools or ()) <= MOST_REFS:
        return record
    waiting = (record.tool_refs or ())[len(record.loaded_tools or ()) :]  # it names what is loaded, then what waits
    return replace(record, deferred_tools=waiting)
