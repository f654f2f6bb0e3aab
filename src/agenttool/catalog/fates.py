"""What becomes of each tool on one surface; a hundred thousand of them are decided kind by kind, not one by one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from itertools import compress

from agenttool.catalog.filters import (
    NOT_ASKED_FOR,
    NOT_HANDED_ON,
    NOTHING_TO_FIND,
    Absence,
    Situation,
    first_absence,
    not_for,
)
from agenttool.catalog.masks import kept, there, without
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

_FEW_AMONG = 20

_HAND_ON = bytes(code if code in CALLABLE else Fate.ABSENT for code in range(256))
_DEFER = bytes(Fate.DISCOVERABLE if code == Fate.LOADED else code for code in range(256))
_HELD_UP = {ProviderState.CONNECTING: Fate.PENDING, ProviderState.UNAVAILABLE: Fate.UNAVAILABLE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fates:
    """The fate of every tool of a roster, a byte each.

    Attributes:
        by_kind: why tools of a kind are absent, if they are.
        apart: why single tools are absent though their kind is not.
        barred: why a role may not use some, and a mask of them.
        is_crowded: there were more tools than a surface may show.
        otherwise: why any other tool is absent.
    """

    roster: Roster
    codes: bytes
    by_kind: tuple[Absence | None, ...]
    apart: Mapping[int, Absence]
    barred: tuple[Absence, bytes] | None
    is_crowded: bool
    otherwise: Absence = NOT_ASKED_FOR

    def numbers(self, fates: frozenset[Fate], begin: int = 0) -> Iterator[int]:
        """Give the tools from a number on that met one of these fates, in order; a few among many are jumped to."""
        mask = self.mask(fates)
        if mask.count(1, begin) > (len(mask) - begin) // _FEW_AMONG:
            yield from compress(range(begin, len(mask)), mask[begin:] if begin else mask)
            return
        number = mask.find(1, begin)
        while number >= 0:
            yield number
            number = mask.find(1, number + 1)

    def mask(self, fates: frozenset[Fate]) -> bytes:
        """Tell of each tool, by a one or a zero, whether it met one of these fates."""
        return self.codes.translate(_table(fates))

    def count(self, fates: frozenset[Fate]) -> int:
        """Count the tools that met one of these fates."""
        return sum(map(self.codes.count, fates))

    def absence(self, number: int) -> Absence:
        """Say why a tool is absent; what holds for its kind comes first, since no wish could change it."""
        found = self.by_kind[self.roster.columns.kinds[number]] or self.apart.get(number)
        if found is None and self.barred is not None and self.barred[1][number]:
            found = self.barred[0]
        return found or self.otherwise

    def as_before(self, codes: bytes) -> "Fates":
        """Give the fates of an earlier moment, without what is not there now; what came since was not there then."""
        earlier = codes.ljust(len(self.codes), bytes([Fate.ABSENT]))
        return replace(self, codes=kept(earlier, there(self.codes)))

    def narrowed(self, situation: Situation, denied: Iterable[ToolId]) -> "Fates":
        """Give what is left of these in another situation: what is not there any more is gone, and nothing comes."""
        roster = self.roster
        stays = [0 if first_absence(traits, situation) else 255 for traits in roster.traits]
        codes = bytearray(kept(self.codes, roster.by_kind(stays)))
        for number in (*map(roster.number, denied), *roster.withdrawn):
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
    barred = _barred(roster, situation)
    codes = _codes(fates, roster, situation, barred)
    apart = {**_beyond(roster, situation), **_left_out(roster, wish)}
    for number in apart:
        codes[number] = Fate.ABSENT
    _hold_up(codes, roster, situation)
    for number in map(roster.number, wish.loaded):
        if number is not None and codes[number] in (Fate.LOADED, *LOADABLE):
            codes[number] = Fate.ASKED_FOR
    finder = None if wish.finder is None else roster.number(wish.finder)
    if finder is not None:
        codes[finder] = Fate.ABSENT
    is_crowded = _is_crowded(codes, roster, situation, wish.policy)
    if is_crowded:
        codes = codes.translate(_DEFER)
    if finder is not None:
        if any(map(codes.count, DEFERRED)) and by_kind[roster.columns.kinds[finder]] is None:
            codes[finder] = Fate.ASKED_FOR
            apart.pop(finder, None)
        else:
            apart[finder] = NOTHING_TO_FIND
    return Fates(
        roster=roster,
        codes=bytes(codes),
        by_kind=by_kind,
        apart=apart,
        barred=barred,
        is_crowded=is_crowded,
        otherwise=NOT_HANDED_ON if situation.is_child and situation.only is None else NOT_ASKED_FOR,
    )


def _codes(fates: list[Fate], roster: Roster, situation: Situation, barred: tuple[Absence, bytes] | None) -> bytearray:
    """Give each tool the fate of its kind, if it is among those that are asked for and that the role may use."""
    chosen = _chosen(roster, situation)
    if chosen is None:
        codes = roster.by_kind(fates)
        return bytearray(codes if barred is None else kept(codes, without(barred[1])))
    codes = bytearray(roster.size)
    for number in chosen:
        if barred is None or not barred[1][number]:
            codes[number] = fates[roster.columns.kinds[number]]
    return codes


def _barred(roster: Roster, situation: Situation) -> tuple[Absence, bytes] | None:
    """Find the tools that a role may not use."""
    return None if situation.role is None else (not_for(situation.role), without(roster.for_role(situation.role)))


def _chosen(roster: Roster, situation: Situation) -> frozenset[int] | None:
    """Find what is asked for; bounds go by id, since a name of one tool may be the qualified name of another."""
    asked = None if situation.only is None else roster.chosen(situation.only)
    if situation.bounds is None:
        return asked
    within = frozenset(number for each in situation.bounds if (number := roster.number(each)) is not None)
    return within if asked is None else asked & within


def _beyond(roster: Roster, situation: Situation) -> dict[int, Absence]:
    """Find the tools that a sub-agent asks for by name though nobody handed them on."""
    if not situation.is_child or situation.only is None or situation.bounds is None:
        return {}
    asked = roster.chosen(situation.only)
    return {number: NOT_HANDED_ON for number in asked if roster.names.ids[number] not in situation.bounds}


def _natural(traits: Traits) -> Fate:
    """Say what becomes of tools that nothing speaks against, as long as there is room."""
    if traits.waits and not traits.stays:
        by_name = traits.visibility == SchemaVisibility.NATIVE_REF
        return Fate.BY_NAME if by_name else Fate.DISCOVERABLE
    if traits.lifecycle is Lifecycle.DEPRECATED:
        return Fate.UNOFFERED
    return Fate.PINNED if traits.stays else Fate.LOADED


def _left_out(roster: Roster, wish: Wish) -> dict[int, Absence]:
    """Find the tools that are absent for themselves, not for their kind or their name."""
    denied = ((roster.number(tool_id), absence) for tool_id, absence in wish.denied.items())
    found = {number: absence for number, absence in denied if number is not None}
    return {**found, **{number: absence for number, absence in roster.withdrawn.items() if number < roster.size}}


def _hold_up(codes: bytearray, roster: Roster, situation: Situation) -> None:
    """Mark the tools whose providers do not answer."""
    for namespace, state in situation.circumstances.providers.items():
        if state in _HELD_UP:
            for number in roster.in_namespace(namespace):
                codes[number] = codes[number] and _HELD_UP[state]


def _is_crowded(codes: bytearray, roster: Roster, situation: Situation, policy: SurfacePolicy) -> bool:
    shown = sum(map(codes.count, COUNTED))
    limits = (policy.max_tools, None if situation.model is None else situation.model.max_tools)
    most = min((each for each in limits if each is not None), default=None)
    if most is not None and shown > most:
        return True
    if policy.max_tokens is None or shown <= FEW:
        return False
    return sum(compress(roster.columns.tokens, codes.translate(_table(COUNTED)))) > policy.max_tokens


@cache
def _table(fates: frozenset[Fate]) -> bytes:
    return bytes(code in fates for code in range(256))
