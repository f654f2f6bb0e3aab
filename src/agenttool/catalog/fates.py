"""What becomes of each tool on one surface; a hundred thousand of them are decided kind by kind, not one by one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from itertools import compress
from operator import mul

from agenttool.catalog.filters import (
    NOT_ASKED_FOR,
    NOT_HANDED_ON,
    NOTHING_TO_FIND,
    Absence,
    Situation,
    first_absence,
    not_for,
)
from agenttool.catalog.roster import Roster
from agenttool.catalog.traits import Traits
from agenttool.ports.surfacing import ProviderState, SurfacePolicy
from agenttool.records import Lifecycle, SchemaVisibility, ToolId


class Fate(IntEnum):
    """What becomes of a tool on a surface."""

    ABSENT = 0
    LOADED = 1
    PINNED = 2
    """Loaded, and stays so however many there are."""
    ASKED_FOR = 3
    """Loaded because somebody asked for it; it does not count towards a limit, so that loading never hides."""
    UNOFFERED = 4
    """Answers to those who know it, and is shown to nobody: it is deprecated."""
    DISCOVERABLE = 5
    BY_NAME = 6
    PENDING = 7
    UNAVAILABLE = 8


COUNTED = frozenset({Fate.LOADED, Fate.PINNED})
SHOWN = COUNTED | {Fate.ASKED_FOR}
CALLABLE = SHOWN | {Fate.UNOFFERED}
LOADABLE = frozenset({Fate.DISCOVERABLE, Fate.BY_NAME})
DEFERRED = LOADABLE | {Fate.PENDING, Fate.UNAVAILABLE}

FEW = 10
"""So many tools are shown however large they are: to wait for one another they would have to be more."""

_HAND_ON = bytes(code if code in CALLABLE else Fate.ABSENT for code in range(256))
_DEFER = bytes(Fate.DISCOVERABLE if code == Fate.LOADED else code for code in range(256))
_HELD_UP = {ProviderState.CONNECTING: Fate.PENDING, ProviderState.UNAVAILABLE: Fate.UNAVAILABLE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fates:
    """The fate of every tool of a roster, a byte each.

    Attributes:
        by_kind: why tools of a kind are absent, if they are.
        apart: why single tools are absent though their kind is not.
        is_crowded: there were more tools than a surface may show.
        otherwise: why any other tool is absent.
    """

    roster: Roster
    codes: bytes
    by_kind: tuple[Absence | None, ...]
    apart: Mapping[int, Absence]
    is_crowded: bool
    otherwise: Absence = NOT_ASKED_FOR

    def numbers(self, fates: frozenset[Fate]) -> Iterator[int]:
        """Give the tools that met one of these fates, in order."""
        return compress(range(len(self.codes)), self.mask(fates))

    def mask(self, fates: frozenset[Fate]) -> bytes:
        """Tell of each tool, by a one or a zero, whether it met one of these fates."""
        return self.codes.translate(_table(fates))

    def count(self, fates: frozenset[Fate]) -> int:
        """Count the tools that met one of these fates."""
        return sum(map(self.codes.count, fates))

    def absence(self, number: int) -> Absence:
        """Say why a tool is absent; what holds for its kind comes first, since no wish could change it."""
        return self.by_kind[self.roster.kinds[number]] or self.apart.get(number) or self.otherwise

    def as_before(self, codes: bytes) -> "Fates":
        """Give the fates of an earlier moment, without what is not there now; what came since was not there then."""
        earlier = codes.ljust(len(self.codes), bytes([Fate.ABSENT]))
        return replace(self, codes=bytes(map(mul, earlier, map(bool, self.codes))))

    def narrowed(self, situation: Situation, denied: Iterable[ToolId]) -> "Fates":
        """Give what is left of these in another situation: what is not there any more is gone, and nothing comes."""
        roster = self.roster
        stays = [first_absence(traits, situation) is None for traits in roster.traits]
        codes = bytearray(map(mul, self.codes, map(stays.__getitem__, roster.kinds)))
        for number in (*map(roster.numbers.get, denied), *roster.withdrawn):
            if number is not None and number < len(codes):
                codes[number] = Fate.ABSENT
        _hold_up(codes, roster, situation)
        return replace(self, codes=bytes(codes))

    def bounded(self) -> "Fates":
        """Give what is left of these for a sub-agent: what could be called, and nothing that could be loaded."""
        return replace(self, codes=self.codes.translate(_HAND_ON), otherwise=NOT_HANDED_ON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a surface is asked for beyond its situation.

    Attributes:
        loaded: deferred tools that somebody asked for.
        denied: tools that rules deny whatever their arguments, and why.
        finder: the tool that finds the others; it is there if there is something to find.
    """

    loaded: frozenset[ToolId] = frozenset()
    denied: Mapping[ToolId, Absence] = field(default_factory=dict["ToolId", Absence])
    finder: ToolId | None = None
    policy: SurfacePolicy = field(default_factory=SurfacePolicy)


def decide_fates(roster: Roster, situation: Situation, wish: Wish) -> Fates:
    """Decide about every tool."""
    by_kind = tuple(first_absence(traits, situation) for traits in roster.traits)
    fates = [
        Fate.ABSENT if absence else _natural(traits) for traits, absence in zip(roster.traits, by_kind, strict=True)
    ]
    codes = _codes(fates, roster, situation)
    apart = _left_out(roster, situation, wish)
    for number in apart:
        codes[number] = Fate.ABSENT
    _hold_up(codes, roster, situation)
    for tool_id in wish.loaded:
        number = roster.numbers.get(tool_id)
        if number is not None and codes[number] in (Fate.LOADED, *LOADABLE):
            codes[number] = Fate.ASKED_FOR
    finder = None if wish.finder is None else roster.numbers.get(wish.finder)
    if finder is not None:
        codes[finder] = Fate.ABSENT
    is_crowded = _is_crowded(codes, roster, situation, wish.policy)
    if is_crowded:
        codes = codes.translate(_DEFER)
    if finder is not None:
        if any(map(codes.count, DEFERRED)) and by_kind[roster.kinds[finder]] is None:
            codes[finder] = Fate.ASKED_FOR
            apart.pop(finder, None)
        else:
            apart[finder] = NOTHING_TO_FIND
    return Fates(roster=roster, codes=bytes(codes), by_kind=by_kind, apart=apart, is_crowded=is_crowded)


def _codes(fates: list[Fate], roster: Roster, situation: Situation) -> bytearray:
    """Give each tool the fate of its kind, if it is among those that are asked for."""
    chosen = _chosen(roster, situation)
    if chosen is None:
        return bytearray(map(fates.__getitem__, roster.kinds))
    codes = bytearray(len(roster.kinds))
    for number in chosen:
        codes[number] = fates[roster.kinds[number]]
    return codes


def _chosen(roster: Roster, situation: Situation) -> frozenset[int] | None:
    """Find what is asked for; bounds go by id, since a name of one tool may be the qualified name of another."""
    asked = None if situation.only is None else roster.chosen(situation.only)
    if situation.bounds is None:
        return asked
    within = frozenset(roster.numbers[each] for each in situation.bounds if each in roster.numbers)
    return within if asked is None else asked & within


def _natural(traits: Traits) -> Fate:
    """Say what becomes of tools that nothing speaks against, as long as there is room."""
    if traits.waits and not traits.stays:
        by_name = traits.visibility == SchemaVisibility.NATIVE_REF
        return Fate.BY_NAME if by_name else Fate.DISCOVERABLE
    if traits.lifecycle is Lifecycle.DEPRECATED:
        return Fate.UNOFFERED
    return Fate.PINNED if traits.stays else Fate.LOADED


def _left_out(roster: Roster, situation: Situation, wish: Wish) -> dict[int, Absence]:
    """Find the tools that are absent for themselves, not for their kind."""
    found: dict[int, Absence] = {}
    for tool_id, absence in wish.denied.items():
        if tool_id in roster.numbers:
            found[roster.numbers[tool_id]] = absence
    everyone = range(len(roster.ids))
    found.update((number, absence) for number, absence in roster.withdrawn.items() if number in everyone)
    if situation.role is not None:
        unwanted = (not each for each in roster.for_role(situation.role))
        found.update(dict.fromkeys(compress(everyone, unwanted), not_for(situation.role)))
    return found


def _hold_up(codes: bytearray, roster: Roster, situation: Situation) -> None:
    """Mark the tools whose providers do not answer."""
    waiting = {
        namespace: _HELD_UP[state]
        for namespace, state in situation.circumstances.providers.items()
        if state in _HELD_UP
    }
    if not waiting:
        return
    for number, ref in enumerate(roster.refs):
        if codes[number] and ref.namespace in waiting:
            codes[number] = waiting[ref.namespace]


def _is_crowded(codes: bytearray, roster: Roster, situation: Situation, policy: SurfacePolicy) -> bool:
    shown = sum(map(codes.count, COUNTED))
    limits = (policy.max_tools, None if situation.model is None else situation.model.max_tools)
    most = min((each for each in limits if each is not None), default=None)
    if most is not None and shown > most:
        return True
    if policy.max_tokens is None or shown <= FEW:
        return False
    return sum(compress(roster.tokens, codes.translate(_table(COUNTED)))) > policy.max_tokens


@cache
def _table(fates: frozenset[Fate]) -> bytes:
    return bytes(code in fates for code in range(256))
