"""A surface as the runtime uses it: resolves a name to a tool, or to the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from types import MappingProxyType
from typing import NamedTuple

from agenttool.catalog import unresolved
from agenttool.catalog.entry import TOOL_SEARCH, Entry, qualified_builtin
from agenttool.catalog.filters import Situation, first_absence
from agenttool.catalog.snapshot import CatalogSnapshot
from agenttool.catalog.unresolved import Unresolved
from agenttool.catalog.visibility import CALLABLE, DEFERRED, LOADABLE, SHOWN, UNREACHABLE, Visibility, VisibilityMap
from agenttool.ports.surfacing import ModelCapabilities, ProviderState, Role
from agenttool.records import SurfaceScope, ToolId, ToolSurface

_NO_NAMES: Mapping[str, str] = MappingProxyType({})

MAX_COMPARED = 1_000
"""How many tools are compared with an unknown name; more would block the event loop."""

_PRIMARY = 2
"""Qualified and bare names are primary. Aliases and ids come after them."""


class SurfaceRequest(NamedTuple):
    """The request for a surface. A later version of the surface uses the same request.

    Attributes:
        only: the names of the wanted tools; None for all.
        model: the model that it is for; None for the model of the runtime.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        refs: the runtime, session, task or sandbox that it is for.
        reason: why it was created.
        loads_all: load every deferred tool: it is for a program, which sends no schema to a model.
    """

    scope: SurfaceScope = SurfaceScope.TURN
    only: frozenset[str] | None = None
    role: Role | None = None
    model: ModelCapabilities | None = None
    tool_choice: str = "auto"
    refs: tuple[str, ...] = ()
    reason: str | None = None
    loads_all: bool = False


class VisibleTools(Mapping[ToolId, Entry]):
    """The tools of a surface that have one of the wanted visibilities."""

    def __init__(self, visibility: VisibilityMap, wanted: frozenset[Visibility]) -> None:
        """Create a view of a visibility map."""
        self._visibility = visibility
        self._wanted = wanted

    def __getitem__(self, tool_id: ToolId) -> Entry:
        number = self._visibility.snapshot.number(tool_id)
        if number is None or self._visibility.codes[number] not in self._wanted:
            raise KeyError(tool_id)
        return self._visibility.snapshot.entries[number]

    def __iter__(self) -> Iterator[ToolId]:
        return compress(self._visibility.snapshot.names.ids, self._visibility.mask(self._wanted))

    def __len__(self) -> int:
        return self._visibility.count(self._wanted)


class ResolvedNames(dict[str, "Entry | None"]):
    """Tools by the names that were called on a surface; a name is resolved once."""

    def __init__(self, surface: "Surface") -> None:
        super().__init__()
        self._surface = surface

    def __missing__(self, name: str) -> Entry | None:
        """Resolve a name; only names of callable tools are cached."""
        found = self._surface.resolve(name)
        if isinstance(found, Unresolved):
            return None
        self[name] = found
        return found


@dataclass(slots=True, kw_only=True, eq=False)
class Surface:
    """A surface as the runtime uses it. What it shows never changes; what may be called can only become less.

    Attributes:
        loaded: deferred tools that were loaded on request.
        now: the current situation, if it changed since.
        extra: tools, by name, that can be called in addition to the requested ones.
        entries: the cache of resolved names, which calls look up first.
    """

    record: ToolSurface
    visibility: VisibilityMap
    request: SurfaceRequest
    situation: Situation
    loaded: frozenset[ToolId] = frozenset()
    now: Situation | None = None
    newer: "Surface | None" = None
    extra: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _remaining: VisibilityMap | None = field(init=False, default=None)
    entries: ResolvedNames = field(init=False)

    def __post_init__(self) -> None:
        self.entries = ResolvedNames(self)

    @property
    def snapshot(self) -> CatalogSnapshot:
        """The snapshot of the catalog that it was created from."""
        return self.visibility.snapshot

    @property
    def _qualified(self) -> Sequence[str]:
        """The qualified name of each tool, by number."""
        return self.snapshot.names.qualified

    @property
    def shown(self) -> VisibleTools:
        """The tools that a model sees."""
        return VisibleTools(self.visibility, SHOWN)

    @property
    def loadable(self) -> VisibleTools:
        """The tools that can be found, and loaded on a newer surface."""
        return VisibleTools(self.visibility, LOADABLE)

    @property
    def callable(self) -> VisibleTools:
        """The tools that may be called."""
        return VisibleTools(self.visibility, CALLABLE)

    @property
    def reach(self) -> frozenset[ToolId] | None:
        """The ids of the callable tools, if the caller may not see every tool; else None."""
        if not self.situation.is_limited:
            return None
        return frozenset((*self.callable, *(each.tool_id for each in self.extra.values())))

    @property
    def pending_providers(self) -> tuple[str, ...]:
        """The providers that are connecting; a limited caller sees only those of its own deferred tools."""
        situation = self.now or self.situation
        states = situation.circumstances.providers.items()
        connecting = sorted(name for name, state in states if state is ProviderState.CONNECTING)
        if not situation.is_limited:
            return tuple(connecting)
        tools = VisibleTools(self.visibility, frozenset({Visibility.PENDING})).values()
        known = {each.tool.declaration.namespace for each in tools}
        return tuple(each for each in connecting if each in known)

    def remaining(self, denied: Callable[[CatalogSnapshot], Iterable[ToolId]]) -> VisibilityMap:
        """Return what remains visible in the current situation, without tools that rules deny now."""
        if self.now is None:
            return self.visibility
        if self._remaining is None:
            self._remaining = self.visibility.narrowed(self.now, denied(self.snapshot))
        return self._remaining

    def contains(self, tool_id: ToolId) -> bool:
        """Return whether a tool was callable, deferred or pending when the surface was created."""
        number = self.snapshot.number(tool_id)
        return number is not None and self.visibility.codes[number] != Visibility.ABSENT

    def offer(self, entry: Entry) -> None:
        """Make a tool callable in addition to the requested ones; existing names are not replaced."""
        for name in (entry.name, entry.qualified_name, entry.tool_id):
            self.extra.setdefault(name, entry)

    def narrow(self, situation: Situation) -> None:
        """Apply a new situation: tools that are absent in it can no longer be called."""
        self.now, self._remaining = situation, None
        self.entries.clear()

    def resolve(self, name: str, known_as: Mapping[str, str] = _NO_NAMES) -> Entry | Unresolved:
        """Resolve a qualified name, bare name, alias or id; a shared name resolves to none of its tools.

        A primary name takes precedence over an alias, also while its tool is deferred. A qualified name stays with
        its owner even where the owner may not be called (G-42), until the owner is withdrawn.

        Args:
            name: the name in the call.
            known_as: the names of built-in tools for this caller, by qualified name, if they differ.
        """
        offered = self.extra.get(name)
        for rank, numbers in enumerate(self._meanings(name)):
            if offered is not None and rank >= _PRIMARY:
                return offered
            callable_here = [each for each in numbers if self.visibility.codes[each] in CALLABLE]
            owners = {self._qualified[each] for each in callable_here}
            if offered is not None and owners:
                owners.add(offered.qualified_name)
            if len(owners) > 1:
                return unresolved.ambiguous(name, tuple(owners))
            if callable_here:
                return self._check_still_callable(callable_here[0])
            if offered is None and rank < _PRIMARY and self._is_reserved(rank, numbers):
                break
        return self._why_not(name, known_as)

    def builtin_name(self, name: str, known_as: Mapping[str, str] = _NO_NAMES) -> str:
        """Return the name by which a caller of this surface calls a built-in tool."""
        return known_as.get(qualified_builtin(name)) or self.visibility.builtin_name(name)

    def _meanings(self, name: str) -> Iterator[Sequence[int]]:
        """Yield the tools with a name, by rank: qualified name, bare name, alias, id."""
        snapshot = self.snapshot
        owner, number = snapshot.owner(name), snapshot.number(ToolId(name))
        yield () if owner is None else (owner,)
        yield snapshot.sharing(snapshot.names.by_name, name)
        yield snapshot.sharing(snapshot.names.aliases, name)
        yield () if number is None else (number,)

    def _is_reserved(self, rank: int, numbers: Sequence[int]) -> bool:
        """Return whether a primary name belongs to a tool that is not callable: its owner, or a deferred tool."""
        if rank == 0:
            return any(each not in self.snapshot.withdrawn for each in numbers)
        return any(self.visibility.codes[each] in DEFERRED for each in numbers)

    def _meant(self, name: str) -> list[int]:
        """Return the tools that a name most likely means, present ones before absent ones."""
        for rank, numbers in enumerate(self._meanings(name)):
            present = [each for each in numbers if self.visibility.codes[each] != Visibility.ABSENT]
            if present or (rank == 0 and self._is_reserved(rank, numbers)):
                return present or [*numbers]
        return [number for numbers in self._meanings(name) for number in numbers]

    def _check_still_callable(self, number: int) -> Entry | Unresolved:
        if number in self.snapshot.withdrawn:
            return unresolved.blocked(self._qualified[number], self.snapshot.withdrawn[number])
        if self.now is not None:
            absence = first_absence(self.snapshot.traits[self.snapshot.columns.groups[number]], self.now)
            if absence is not None:
                return unresolved.blocked(self._qualified[number], absence)
            provider = self.snapshot.entries[number].tool.declaration.namespace
            state = self.now.circumstances.providers.get(provider, ProviderState.READY)
            if state is not ProviderState.READY:
                return unresolved.unreachable(self._qualified[number], provider, state)
        return self.snapshot.entries[number]

    def _why_not(self, name: str, known_as: Mapping[str, str]) -> Unresolved:
        meant = self._meant(name)
        deferred = [each for each in dict.fromkeys(meant) if self.visibility.codes[each] in LOADABLE]
        if self.newer is not None:
            found = self.latest().resolve(name, known_as)
            if isinstance(found, Unresolved):
                return found
            return unresolved.on_newer_surface(name, was_deferred=bool(deferred))
        if not meant:
            return self._why_unknown(name)
        if deferred:
            names = [self._qualified[each] for each in deferred]
            return unresolved.not_loaded(names, self.builtin_name(TOOL_SEARCH, known_as))
        return self._why_absent(meant[0])

    def _spellings(self) -> Iterator[tuple[str, str]]:
        """Yield the bare and the qualified name of tools that a caller sees or finds, each with the qualified name."""
        for number in islice(self.visibility.numbers(SHOWN | LOADABLE), MAX_COMPARED):
            entry = self.snapshot.entries[number]
            yield from ((each, entry.qualified_name) for each in (entry.name, entry.qualified_name))

    def _why_unknown(self, name: str) -> Unresolved:
        situation, provider = self.now or self.situation, name.partition(".")[0]
        state = situation.circumstances.providers.get(provider, ProviderState.READY)
        if state is ProviderState.READY or provider == name or situation.is_limited:
            # Providers are not revealed to a caller that may not see every tool.
            return unresolved.unknown(name, self._spellings())
        return unresolved.undiscovered(name, provider, state)

    def _why_absent(self, number: int) -> Unresolved:
        name, provider = self._qualified[number], self.snapshot.entries[number].tool.declaration.namespace
        state = UNREACHABLE.get(Visibility(self.visibility.codes[number]))
        if state is not None:
            return unresolved.unreachable(name, provider, state)
        return unresolved.blocked(name, self.visibility.absence(number))

    def latest(self) -> "Surface":
        """Return the newest surface that replaced this one, or this one."""
        surface = self
        while surface.newer is not None:
            surface = surface.newer
        return surface
