"""A surface as the runtime uses it: from a name to the tool that it means there, or to the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from types import MappingProxyType

from agenttool.catalog.entry import Entry
from agenttool.catalog.fates import CALLABLE, DEFERRED, LOADABLE, SHOWN, Fate, Fates
from agenttool.catalog.filters import Situation, first_absence
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.roster import Roster
from agenttool.catalog.spoken import FINDER, qualified, spoken
from agenttool.catalog.unresolved import (
    Unresolved,
    ambiguous,
    blocked,
    came_later,
    not_loaded,
    pending,
    unavailable,
    undiscovered,
    unknown,
)
from agenttool.ports.surfacing import ProviderState
from agenttool.records import ToolId, ToolSurface

_NO_OTHERS: Mapping[str, str] = MappingProxyType({})

_PRIMARY = 2
"""The first two meanings of a name are those of a qualified and of a bare one; aliases and ids come after them."""


class Members(Mapping[ToolId, Entry]):
    """The tools of a surface that met certain fates."""

    def __init__(self, fates: Fates, wanted: frozenset[Fate]) -> None:
        """Take where to look, and for what."""
        self._fates = fates
        self._wanted = wanted

    def __contains__(self, tool_id: object) -> bool:
        """Tell whether a tool is one of them."""
        number = self._fates.roster.number(tool_id)  # pyright: ignore[reportArgumentType] -- a stranger is not found
        return number is not None and self._fates.codes[number] in self._wanted

    def __getitem__(self, tool_id: ToolId) -> Entry:
        """Give a tool that is one of them."""
        number = self._fates.roster.number(tool_id)
        if number is None or self._fates.codes[number] not in self._wanted:
            raise KeyError(tool_id)
        return self._fates.roster.entries[number]

    def __iter__(self) -> Iterator[ToolId]:
        """Go through their ids, in the order they were declared."""
        return compress(self._fates.roster.names.ids, self._fates.mask(self._wanted))

    def __len__(self) -> int:
        """Count them."""
        return self._fates.count(self._wanted)


class Entries(dict[str, "Entry | None"]):
    """What names mean on a surface; each is worked out when it is first called, and remembered if it means a tool."""

    def __init__(self, surface: "Surface") -> None:
        """Take the surface."""
        super().__init__()
        self._surface = surface

    def __missing__(self, name: str) -> Entry | None:
        """Work out what a name means."""
        found = self._surface.resolve(name)
        if isinstance(found, Unresolved):
            return None
        self[name] = found
        return found


@dataclass(slots=True, kw_only=True, eq=False)
class Surface:
    """A surface as the runtime uses it. What it shows never changes; what may be called on it can only become less.

    Attributes:
        record: what everyone may read.
        situation: what it was made in.
        loaded: deferred tools that were asked for.
        now: what holds now, if something about the world changed since.
        newer: the surface that took its place.
        extra: tools that can be called whatever the surface was asked for.
    """

    record: ToolSurface
    fates: Fates
    request: SurfaceRequest
    situation: Situation
    loaded: frozenset[ToolId] = frozenset()
    now: Situation | None = None
    newer: "Surface | None" = None
    extra: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _left: Fates | None = field(init=False, default=None)
    entries: Entries = field(init=False)
    """For the path of a call, which looks here and nowhere else."""

    def __post_init__(self) -> None:
        """Begin with no name worked out."""
        self.entries = Entries(self)

    @property
    def roster(self) -> Roster:
        """What it was made from."""
        return self.fates.roster

    @property
    def shown(self) -> Members:
        """The tools that a caller sees."""
        return Members(self.fates, SHOWN)

    @property
    def loadable(self) -> Members:
        """The tools that can be found, and loaded on a later surface."""
        return Members(self.fates, LOADABLE)

    @property
    def callable(self) -> Members:
        """The tools that may be called."""
        return Members(self.fates, CALLABLE)

    @property
    def reach(self) -> frozenset[ToolId] | None:
        """Name what may be called, if it is for somebody who may not know of every tool; none if it is for anybody."""
        if not self.situation.is_limited:
            return None
        return frozenset((*self.callable, *(each.tool_id for each in self.extra.values())))

    @property
    def pending_providers(self) -> tuple[str, ...]:
        """Name the providers that are still connecting; where only some tools may be known, only those of such."""
        situation = self.now or self.situation
        states = situation.circumstances.providers.items()
        connecting = sorted(name for name, state in states if state is ProviderState.CONNECTING)
        if not situation.is_limited:
            return tuple(connecting)
        waiting = Members(self.fates, frozenset({Fate.PENDING})).values()
        known = {each.tool.declaration.namespace for each in waiting}
        return tuple(each for each in connecting if each in known)

    def left(self, denied: Callable[[Roster], Iterable[ToolId]]) -> Fates:
        """Give what is left of its tools as things stand now, without those that rules deny by now."""
        if self.now is None:
            return self.fates
        if self._left is None:
            self._left = self.fates.narrowed(self.now, denied(self.roster))
        return self._left

    def holds(self, tool_id: ToolId) -> bool:
        """Tell whether a tool was there when this was made, be it to be called, found or waited for."""
        number = self.roster.number(tool_id)
        return number is not None and self.fates.codes[number] != Fate.ABSENT

    def offer(self, entry: Entry) -> None:
        """Let a tool be called whatever this surface was asked for; names that lead elsewhere stay as they are."""
        for name in (entry.name, entry.qualified_name, entry.tool_id):
            self.extra.setdefault(name, entry)

    def narrow(self, situation: Situation) -> None:
        """Let nothing be called that is not there in a new situation, though it was there when this was made."""
        self.now, self._left = situation, None
        self.entries.clear()

    def resolve(self, name: str, known_as: Mapping[str, str] = _NO_OTHERS) -> Entry | Unresolved:
        """Find a tool by qualified name, bare name, alias or id; a name that several share leads to none of them.

        A primary name hides an alias, also while its tool waits to be loaded, and a qualified name has one owner, who
        has it even where it may not be called (G-42): no other tool runs in its place until it is taken back.

        Args:
            name: what the caller called it.
            known_as: what the caller calls our own tools, by their qualified names, if not as they are called here.
        """
        offered = self.extra.get(name)
        for rank, numbers in enumerate(self._meanings(name)):
            if offered is not None and rank >= _PRIMARY:
                return offered
            callable_here = [each for each in numbers if self.fates.codes[each] in CALLABLE]
            owners = {self.roster.names.qualified[each] for each in callable_here}
            if offered is not None and owners:
                owners.add(offered.qualified_name)
            if len(owners) > 1:
                return ambiguous(name, tuple(owners))
            if callable_here:
                return self._still_there(callable_here[0])
            if offered is None and rank < _PRIMARY and self._is_kept(rank, numbers):
                break
        return self._why_not(name, known_as)

    def spoken(self, name: str, known_as: Mapping[str, str] = _NO_OTHERS) -> str:
        """Give the name by which a caller here calls one of our own tools."""
        return known_as.get(qualified(name)) or spoken(self.fates, name)

    def _meanings(self, name: str) -> Iterator[Sequence[int]]:
        roster = self.roster
        owner, number = roster.owner(name), roster.number(ToolId(name))
        yield () if owner is None else (owner,)
        yield roster.bearers(name)
        yield roster.aliased(name)
        yield () if number is None else (number,)

    def _is_kept(self, rank: int, numbers: Sequence[int]) -> bool:
        """Tell whether a primary name is kept for a tool that cannot be called: its owner, or one that waits."""
        if rank == 0:
            return any(each not in self.roster.withdrawn for each in numbers)
        return any(self.fates.codes[each] in DEFERRED for each in numbers)

    def _meant(self, name: str) -> list[int]:
        """Give the tools that a name means first, those that are there before the others."""
        for rank, numbers in enumerate(self._meanings(name)):
            there = [each for each in numbers if self.fates.codes[each] != Fate.ABSENT]
            if there or (rank == 0 and self._is_kept(rank, numbers)):
                return there or [*numbers]
        return [number for numbers in self._meanings(name) for number in numbers]

    def _still_there(self, number: int) -> Entry | Unresolved:
        if number in self.roster.withdrawn:
            return blocked(self.roster.names.qualified[number], self.roster.withdrawn[number])
        if self.now is not None:
            absence = first_absence(self.roster.traits[self.roster.columns.kinds[number]], self.now)
            if absence is not None:
                return blocked(self.roster.names.qualified[number], absence)
            provider = self.roster.entries[number].tool.declaration.namespace
            if self.now.circumstances.providers.get(provider, ProviderState.READY) is not ProviderState.READY:
                return unavailable(self.roster.names.qualified[number], provider)
        return self.roster.entries[number]

    def _why_not(self, name: str, known_as: Mapping[str, str]) -> Unresolved:
        meant = self._meant(name)
        if not meant:
            return self._why_unknown(name, known_as)
        waiting = [each for each in dict.fromkeys(meant) if self.fates.codes[each] in LOADABLE]
        if self.newer is not None:
            now = self.latest().resolve(name, known_as)
            return now if isinstance(now, Unresolved) else came_later(name, was_waiting=bool(waiting))
        if waiting:
            names = [self.roster.names.qualified[each] for each in waiting]
            return not_loaded(names, self.spoken(FINDER, known_as))
        return self._why_absent(meant[0])

    def _why_unknown(self, name: str, known_as: Mapping[str, str]) -> Unresolved:
        """Say why nothing has a name: it came later, its provider has not said what it offers, or there is none."""
        if self.newer is not None:
            later = self.latest().resolve(name, known_as)
            return later if isinstance(later, Unresolved) else came_later(name, was_waiting=False)
        situation, provider = self.now or self.situation, name.partition(".")[0]
        state = situation.circumstances.providers.get(provider, ProviderState.READY)
        if state is ProviderState.READY or provider == name or situation.is_limited:
            return unknown(name)  # whoever may not know of every tool is not told of providers either
        return undiscovered(name, provider, state)

    def _why_absent(self, number: int) -> Unresolved:
        name, provider = self.roster.names.qualified[number], self.roster.entries[number].tool.declaration.namespace
        if self.fates.codes[number] == Fate.PENDING:
            return pending(name, provider)
        if self.fates.codes[number] == Fate.UNAVAILABLE:
            return unavailable(name, provider)
        return blocked(name, self.fates.absence(number))

    def latest(self) -> "Surface":
        """Give the surface that took its place, and the place of that one, up to the current one."""
        surface = self
        while surface.newer is not None:
            surface = surface.newer
        return surface
