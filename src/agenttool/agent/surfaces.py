"""The surfaces of one agent: created, extended by loaded tools, and renewed when the situation changes."""

import asyncio
import dataclasses
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakSet

from agenttool.agent.builtin_tools import (
    READ_BACK_ID,
    TOOL_SEARCH_ID,
    index_tools,
    search_reply,
    search_scope,
    tool_search_tool,
)
from agenttool.agent.surface_options import (
    CAUSES,
    Changes,
    causes_of,
    changed_circumstances,
    changed_policy,
)
from agenttool.call.call import Core
from agenttool.call.evidence import surface_made
from agenttool.call.plan import names_in
from agenttool.call.tool import model_schema_of
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import TOOL_SEARCH, Entry
from agenttool.catalog.filters import Absence, Situation, denied_by
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.scope import SearchScope
from agenttool.catalog.snapshot import CatalogSnapshot
from agenttool.catalog.surface import Surface, SurfaceRequest
from agenttool.catalog.surface_record import build_surface_record
from agenttool.catalog.surface_store import ArchivedSurface, SurfaceStore
from agenttool.catalog.visibility import DEFERRED, decide_visibility
from agenttool.errors import ConfigError
from agenttool.journal import steps
from agenttool.policy.decide import Policy, deny_prefilter
from agenttool.policy.votes import PermissionMode
from agenttool.ports.deferred import Thread
from agenttool.ports.facts import Step
from agenttool.ports.offer import OfferedTool
from agenttool.ports.quota import OwnedEntries
from agenttool.ports.surfacing import Circumstances, ProviderState, SurfacePolicy
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    SURFACE,
    Behavior,
    InputContract,
    JsonObject,
    SearchMatch,
    SurfaceId,
    SurfaceScope,
    ToolId,
    ToolSearchResult,
    ToolSurface,
    replace,
)

_EVERYTHING = SurfaceRequest(scope=SurfaceScope.SESSION, reason="calls that name no surface", loads_all=True)

MAX_ROOTS = 10_000
"""How many conversations without ancestors keep their context; beyond it, an old one starts again."""

MAX_RULE_REFS = 50
"""Up to this many rules are listed one by one in a surface record; beyond it, the version of the rule book."""

MAX_LOGGED_REFS = 200
"""Up to this many deferred tools are logged with their references; beyond it, only their ids."""

MAX_CAUSES = 5
"""How many causes the reason of a renewed surface lists."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolServices:
    """The services that all agents of a runtime share: the catalog, its index, the surface policy and `declare`."""

    catalog: Catalog
    index: ToolIndex
    policy: SurfacePolicy
    declare: Callable[[DeclaredTool], None]


class AgentSurfaces:
    """The surfaces of one agent and the circumstances that decide about them."""

    def __init__(
        self,
        core: Core,
        services: ToolServices,
        circumstances: Circumstances,
        *,
        parent: "AgentSurfaces | None" = None,
    ) -> None:
        """Start with no surfaces; `parent` holds those of the agent that started this one."""
        self.surfaces = SurfaceStore(self._rebuild)
        self.core = core
        self._services = services
        self._own_circumstances = circumstances
        self._provider_states: dict[str, ProviderState] = {}
        self._tools: CatalogSnapshot | None = None
        """The tools when provider states were recorded last."""
        self._parent = parent
        self._bounds: frozenset[ToolId] | None = None
        self._default: Surface | None = None
        self._denied = DeniedTools(core, services.policy)
        self._children: WeakSet[AgentSurfaces] = WeakSet()
        self._views: WeakSet[Core] = WeakSet()
        self._roots: OwnedEntries[Thread, Core] = OwnedEntries("conversations", MAX_ROOTS)
        """The cores of other conversations of this agent; they follow its policy."""
        self._renewals = SurfaceRenewals(core.timing.loop, self._renew)

    def for_child(self, core: Core, given: ToolSurface) -> "AgentSurfaces":
        """Return the surfaces of a sub-agent, which starts with the callable tools of one surface.

        Raises:
            ConfigError: the surface is not one of this runtime.
        """
        found = self.surfaces.find(given)
        if found is None:
            raise ConfigError("a sub-agent needs a surface of this runtime; create one with `surface(...)`")
        child = AgentSurfaces(core, self._services, self.circumstances, parent=self)
        visibility = found.visibility.for_sub_agent()
        child.start_with(dataclasses.replace(found, visibility=visibility, newer=None, extra={**found.extra}))
        self._children.add(child)
        return child

    def start_with(self, surface: Surface) -> None:
        """Add the surface that the parent passed on; its tools are the bounds of this agent."""
        self._bounds = frozenset((*surface.callable, *(each.tool_id for each in surface.extra.values())))
        surface.narrow(self._situation(surface.request))
        self.surfaces.add(surface)

    @property
    def circumstances(self) -> Circumstances:
        """The circumstances of this agent, limited by those of its parent."""
        own = self._own_circumstances
        if self._provider_states:  # what the application sets takes precedence
            own = dataclasses.replace(own, providers={**self._provider_states, **own.providers})
        return own if self._parent is None else own.within(self._parent.circumstances)

    def create(self, request: SurfaceRequest) -> ToolSurface:
        """Create a surface from all tools."""
        return self._publish(self._build(request)).record

    def default(self) -> ToolSurface | None:
        """Return the surface of calls that name none: every tool that this agent may call; None if it is closed.

        It is renewed here if tools were declared, or the situation changed.
        """
        if self.surfaces.default is None and not self.surfaces.is_closed:
            self._default = self._refreshed(self._default or self.surfaces.get(self.create(_EVERYTHING)))
            self.surfaces.default = self._default.record
        return self.surfaces.default

    def refresh(self, given: ToolSurface) -> ToolSurface:
        """Return the latest version of a surface, renewed if tools were declared or the situation changed.

        Raises:
            ConfigError: there is no such surface.
        """
        return self._refreshed(self.surfaces.get(given)).record

    def _refreshed(self, surface: Surface) -> Surface:
        latest = self._latest(surface)
        if latest.now is not None or latest.snapshot is not self._services.catalog.snapshot():
            self._renew(latest, "tools or the situation changed")
        return latest.latest()

    def restored(self, surface_id: str, reach: frozenset[ToolId] | None, loaded: frozenset[ToolId]) -> Surface:
        """Return a stored surface, or rebuild one of another process; it reaches no more tools than that one did.

        `loaded` names deferred tools that were callable there.
        """
        stored = self.surfaces.with_id(SurfaceId(surface_id))
        if stored is not None:
            return stored
        built = self._build(SurfaceRequest(), loaded=loaded, bounds=reach)
        return dataclasses.replace(built, record=replace(built.record, surface_id=SurfaceId(surface_id)))

    def _rebuild(self, surface_id: SurfaceId, archived: ArchivedSurface) -> Surface:
        """Rebuild an archived surface without tools that are gone; renew it if something changed since."""
        built = self._build(archived.request, loaded=archived.loaded, reason=archived.reason, earlier=archived.codes())
        record = replace(built.record, surface_id=surface_id, created_at=archived.created_at)
        surface = dataclasses.replace(built, record=record)
        for entry in archived.extra:
            surface.offer(entry)
        if archived.newer is None and archived.changes < self.surfaces.changes:
            surface.newer = self._renewed(surface, "the situation changed while it was archived")
        return surface

    def load(self, given: ToolSurface, found: ToolSearchResult | Iterable[str]) -> ToolSurface:
        """Create a surface that also shows found or named tools; return the same one if it shows them already.

        Raises:
            ConfigError: there is no such surface, or a name leads to no tool that can be loaded there.
        """
        before = self.surfaces.get(given)
        names = found.names if isinstance(found, ToolSearchResult) else names_in(found)
        chosen = SearchScope.of(before, before.visibility).to_load(self._services.index, names)
        if not chosen:
            return before.record
        built = self._with_loaded(before, chosen)
        missing = [each.qualified_name for each in chosen if each.tool_id not in built.shown]
        if missing:
            raise ConfigError(
                f"{missing[0]!r} can no longer be loaded; the surface `current(surface)` gives the reason"
            )
        return self._record_loaded(before, built, chosen).record

    def current(self, given: ToolSurface) -> ToolSurface:
        """Return the newest surface that replaced a surface, or that one itself.

        Raises:
            ConfigError: there is no such surface.
        """
        return self._latest(self.surfaces.get(given)).record

    def _latest(self, surface: Surface) -> Surface:
        """Return the newest surface that replaced a surface, or that one itself; a scheduled renewal is done now."""
        surface = surface.latest()
        self._renewals.renew_now(surface)
        return surface.latest()

    async def search(self, given: ToolSurface | None, query: str, limit: int) -> ToolSearchResult:
        """Search among the tools that a surface shows or defers.

        Raises:
            ConfigError: there is no such surface, or the query or the limit is invalid.
        """
        return (await self._search(self.surfaces.get(given), query, limit))[1]

    async def _search(self, surface: Surface, query: str, limit: int) -> tuple[SearchScope, ToolSearchResult]:
        """Search what a surface may find, and record which deferred tools were found; the query is not recorded."""
        scope = SearchScope.of(surface, surface.remaining(self._denied.among))
        result = await search_scope(self._services.index, scope, query, limit)
        for match in result.matches:
            if isinstance(match, SearchMatch) and match.tool_id in scope.deferred:
                self._note_deferred(steps.DEFERRED_DISCOVERED, surface, scope[match.tool_id])
        return scope, result

    def _note_deferred(self, step: Step, surface: Surface, entry: Entry) -> None:
        details: JsonObject = {"tool_id": entry.tool_id, "name": entry.qualified_name}
        self.core.journal.note_apart(step, {**details, "surface_id": surface.record.surface_id})

    async def prepare_search(self, seconds: float) -> bool:
        """Index all tools and wait for the search model; return whether it has encoded all of them."""
        index = self._services.index
        await index_tools(index)
        if index.semantic_index is None:
            return True
        await asyncio.to_thread(index.semantic_index.wait, seconds)
        return not index.semantic_index.pending

    async def change(self, changes: Changes) -> dict[SurfaceId, ToolSurface]:
        """Apply changes; return the renewed surfaces by the ids of those they replace.

        Raises:
            ConfigError: a change is invalid; then nothing has changed.
        """
        causes = causes_of(changes)
        policy = changed_policy(self.core.policy, changes)
        circumstances = changed_circumstances(self._own_circumstances, changes)
        self.core.policy, self._own_circumstances = policy, circumstances
        self.narrow()
        return await self.renew(causes)

    async def set_provider_states(self, providers: Mapping[str, ProviderState]) -> None:
        """Record the states of the servers behind namespaces, and renew surfaces with the tools there are now.

        Nothing is renewed if neither has changed: sources report each time they have read their lists.
        """
        known, tools = self._provider_states, self._services.catalog.snapshot()
        if tools is self._tools and all(known.get(name) is state for name, state in providers.items()):
            return
        self._tools = tools
        self._provider_states.update(providers)
        self.narrow()
        await self.renew((CAUSES["providers"],))

    def declared(self) -> None:
        """Renew the default surfaces before they are used again, because a tool was declared."""
        self.surfaces.outdate_default()
        for child in self._children or ():
            child.declared()

    def withdraw(self, entry: Entry) -> None:
        """Remove a withdrawn tool from all surfaces at once; surfaces that contained it are renewed soon."""
        self.narrow()
        self._mark_withdrawn(entry)

    def _mark_withdrawn(self, entry: Entry) -> None:
        self.surfaces.changes += 1
        for surface in self.surfaces:
            if surface.newer is None and surface.contains(entry.tool_id):
                self._renewals.mark(surface, f"{entry.qualified_name} taken back")
        for child in self._children:
            child._mark_withdrawn(entry)  # noqa: SLF001 -- same class

    def renew_after_policy_change(self) -> None:
        """Renew all surfaces soon, because an approver asked for a rule to be remembered."""
        self.narrow()
        self.surfaces.changes += 1
        for surface in self.surfaces:
            if surface.newer is None:
                self._renewals.mark(surface, f"{CAUSES['rules']} changed")

    def view(self, core: Core, thread: Thread, caller: str | None = None) -> Core:
        """Return the core for calls in another conversation; one without ancestors has a context of its own."""
        known = self._roots.get(thread)
        if known is not None:
            return known
        shared = core.shared if thread.ancestors else {}
        view = dataclasses.replace(core, thread=thread, parent=core, shared=shared)
        self._views.add(view)
        if not thread.ancestors:
            self._roots.add(caller, thread, view)
        return view

    def narrow(self) -> None:
        """Apply the current situation to all surfaces, also those of sub-agents."""
        self.surfaces.outdate_default()
        for surface in self.surfaces:
            surface.narrow(self._situation(surface.request))
        for view in self._views:
            view.policy = self.core.policy
        for child in self._children:
            child.core.policy = dataclasses.replace(child.core.policy, parent=self.core.policy)
            child.narrow()

    async def renew(self, causes: tuple[str, ...]) -> dict[SurfaceId, ToolSurface]:
        """Renew every surface that was not replaced yet; other tasks run in between."""
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
        return self._replace(before, self._build(before.request, loaded=before.loaded, reason=reason))

    def _with_loaded(self, before: Surface, chosen: Iterable[Entry]) -> Surface:
        """Build a surface from the snapshot of another, with some of its deferred tools loaded."""
        chosen = tuple(chosen)
        loaded = before.loaded.union(each.tool_id for each in chosen)
        names = ", ".join(each.qualified_name for each in chosen)
        return self._build(before.request, loaded=loaded, reason=f"{names} loaded", snapshot=before.snapshot)

    def _record_loaded(self, before: Surface, built: Surface, chosen: Iterable[Entry]) -> Surface:
        for entry in chosen:
            self._note_deferred(steps.DEFERRED_LOADED, built, entry)
        return self._replace(before, built)

    def _replace(self, before: Surface, built: Surface) -> Surface:
        built.extra.update(before.extra)
        return self._publish(built, before.record.surface_id)

    def _publish(self, built: Surface, replaced: SurfaceId | None = None) -> Surface:
        """Record and store a surface."""
        step = steps.SURFACE_CREATED if replaced is None else steps.SURFACE_UPDATED
        self.core.journal.note_apart(step, surface_made(_shortened(built.record), replaced))
        calls = self.core.registry.calls.values()
        self.surfaces.add(built, frozenset(call.request.surface_id for call in calls))
        return built

    def _build(
        self,
        request: SurfaceRequest,
        *,
        loaded: frozenset[ToolId] = frozenset(),
        reason: str | None = None,
        snapshot: CatalogSnapshot | None = None,
        bounds: frozenset[ToolId] | None = None,
        earlier: bytes | None = None,
    ) -> Surface:
        """Build a surface without storing it; `earlier` are the visibility codes of one that is rebuilt."""
        situation = self._situation(request, bounds)
        snapshot = snapshot or self._services.catalog.snapshot()
        visibility = decide_visibility(
            snapshot,
            situation,
            loaded=loaded.union(situation.bounds or ()),
            denied=self._denied.among(snapshot),
            finder=TOOL_SEARCH_ID,
            reader=READ_BACK_ID,
            loads_all=request.loads_all,
            policy=self._services.policy,
        )
        if visibility.count(DEFERRED) and snapshot.number(TOOL_SEARCH_ID) is None:
            self._services.declare(tool_search_tool())
            self._services.index.remove(TOOL_SEARCH_ID)  # it does not find itself
            return self._build(request, loaded=loaded, reason=reason, bounds=bounds, earlier=earlier)
        if earlier is not None:
            visibility = visibility.restored(earlier)
        record = build_surface_record(
            visibility,
            surface_id=self.core.ids.new(SURFACE),
            created_at=self.core.timestamp(),
            request=request,
            situation=situation,
            policy=self._services.policy,
            policy_refs=self._policy_refs(),
            reason=reason,
        )
        return Surface(record=record, visibility=visibility, request=request, situation=situation, loaded=loaded)

    def _situation(self, request: SurfaceRequest, bounds: frozenset[ToolId] | None = None) -> Situation:
        cores = tuple(self.core.with_ancestors())
        circumstances = self.circumstances
        return Situation(
            allows_writes=all(each.policy.mode is not PermissionMode.READ_ONLY for each in cores),
            is_interactive=all(each.policy.interactive for each in cores),
            is_child=self._parent is not None,
            circumstances=circumstances,
            model=request.model or circumstances.model,
            role=request.role,
            only=request.only,
            bounds=self._bounds if bounds is None else bounds,
        )

    def _policy_refs(self) -> tuple[str, ...]:
        policy = self.core.policy
        is_short = len(policy.book) <= MAX_RULE_REFS
        rules = [rule.ref for rule in policy.book] if is_short else [f"rules:{policy.book.version}"]
        return (f"mode:{policy.mode}", *rules)

    async def find_for_model(
        self, given: Surface | None, query: str, limit: int, known_as: Mapping[str, str]
    ) -> JsonObject:
        """Search for a model; what is found is loaded on a surface that replaces its own."""
        if given is None:
            raise AssertionError("a search tool is called on a surface")
        surface = given.latest()
        scope, result = await self._search(surface, query, limit)
        chosen = scope.found_to_load(result)
        if chosen:
            surface = given.latest()  # another search may have loaded tools meanwhile
            built = self._with_loaded(surface, chosen)
            chosen = tuple(each for each in chosen if each.tool_id in built.shown)
            if chosen:
                surface.newer = self._record_loaded(surface, built, chosen)
                surface = surface.newer
        reply = search_reply(result, scope, chosen, surface.builtin_name(TOOL_SEARCH, known_as))
        return {**reply, "surface_id": surface.record.surface_id}


def _shortened(record: ToolSurface) -> ToolSurface:
    """Return the record that is logged: very many deferred tools are reduced to their ids."""
    if len(record.deferred_tools or ()) <= MAX_LOGGED_REFS:
        return record
    deferred = (record.tool_refs or ())[len(record.loaded_tools or ()) :]  # loaded tools come first
    return replace(record, deferred_tools=deferred)


class SurfaceRenewals:
    """Surfaces that are renewed soon, one per iteration of the event loop."""

    def __init__(self, loop: AbstractEventLoop, renew: Callable[[Surface, str], None]) -> None:
        """Start with no surfaces; `renew` takes a surface and the reason."""
        self._loop = loop
        self._renew = renew
        self._causes: dict[Surface, dict[str, None]] = {}

    def mark(self, surface: Surface, cause: str) -> None:
        """Schedule the renewal of a surface; several causes lead to one renewal."""
        if not self._causes:
            self._loop.call_soon(self._renew_next)
        self._causes.setdefault(surface, {})[cause] = None

    def renew_now(self, surface: Surface) -> None:
        """Renew a surface at once, if it is scheduled and was not replaced otherwise."""
        causes = [*self._causes.pop(surface, ())]
        if causes and surface.newer is None:
            more = f" and {len(causes) - MAX_CAUSES} more" if len(causes) > MAX_CAUSES else ""
            self._renew(surface, f"{', '.join(causes[:MAX_CAUSES])}{more}")

    def _renew_next(self) -> None:
        if self._causes:
            self.renew_now(next(iter(self._causes)))
        if self._causes:
            self._loop.call_soon(self._renew_next)


class DeniedTools:
    """The tools that rules deny whatever their arguments. Each tool is evaluated once per policy."""

    def __init__(self, core: Core, surface_policy: SurfacePolicy) -> None:
        """Start with no decisions; nothing is evaluated unless the surface policy hides denied tools."""
        self._core = core
        self._surface_policy = surface_policy
        self._policy: Policy | None = None
        self._may_be_denied = deny_prefilter(core.policy)
        self._seen: Sequence[Entry] = ()
        self._size = 0
        self._found: dict[ToolId, Absence] = {}

    def among(self, snapshot: CatalogSnapshot) -> Mapping[ToolId, Absence]:
        """Return the denied tools and the reasons; empty unless the surface policy hides denied tools."""
        if not self._surface_policy.hide_denied:
            return {}
        policy = self._core.policy
        if policy is not self._policy:
            self._policy, self._seen, self._size, self._found = policy, (), 0, {}
            self._may_be_denied = deny_prefilter(policy)
        for entry in self._unseen(snapshot):
            subject = partial(self._core.tools.subjects.__getitem__, entry)
            may_be_denied = self._may_be_denied(entry.tool.declaration, subject)
            verdict = policy.standing(subject()) if may_be_denied else None
            if verdict is not None and verdict.behavior is Behavior.DENY:
                self._found[entry.tool_id] = denied_by(verdict.rule_refs)
            else:
                self._found.pop(entry.tool_id, None)
        self._seen = snapshot.entries
        # An older snapshot is smaller: later tools must be evaluated again, since they may have been replaced.
        self._size = min(max(self._size, snapshot.size), len(self._seen))
        return self._found

    def _unseen(self, snapshot: CatalogSnapshot) -> Iterator[Entry]:
        """Yield the tools that were added or replaced since the last call."""
        if snapshot.entries is not self._seen:
            pairs = zip(self._seen, snapshot.entries, strict=False)
            yield from (new for old, new in pairs if old is not new)
        yield from snapshot.entries[self._size : snapshot.size]


def offered_tools(surface: Surface, *, deferred: bool) -> tuple[OfferedTool, ...]:
    """Return the tools that a surface shows, those offered later, and optionally the deferred ones."""
    later = {each.tool_id: each for each in surface.extra.values() if each.tool_id not in surface.shown}
    shown = (*surface.shown.values(), *(later[each] for each in sorted(later)))
    loadable = surface.loadable.values() if deferred else ()
    return (
        *(_offered(entry.tool, is_deferred=False) for entry in shown),
        *(_offered(entry.tool, is_deferred=True) for entry in loadable),
    )


def _offered(tool: DeclaredTool, *, is_deferred: bool) -> OfferedTool:
    contract = tool.declaration.input_contract or InputContract()
    strict = (tool.interface.strict, contract.strict)
    return OfferedTool(
        tool_id=tool.declaration.tool_id,
        namespace=tool.declaration.namespace,
        name=tool.declaration.name,
        description=tool.declaration.description,
        input_schema=model_schema_of(tool),
        strict=False if False in strict else True if True in strict else None,
        is_deferred=is_deferred,
        declared=tool,
    )
