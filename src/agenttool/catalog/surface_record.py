"""The record of a surface: which tools are loaded, deferred, blocked or excluded, and under which constraints."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from agenttool.catalog.deferred import held_up
from agenttool.catalog.fates import DEFERRED, LOADABLE, SHOWN, Fate, Fates
from agenttool.catalog.filters import NOT_FOR_ROLE, Absence, Situation
from agenttool.catalog.masks import kept, numbers, without
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.roster import Lists, Roster
from agenttool.catalog.spoken import FINDER, spoken
from agenttool.ports.surfacing import ProviderState, SurfacePolicy
from agenttool.records import (
    AbsenceReason,
    AbsentTool,
    DeferredToolRef,
    JsonObject,
    SurfaceId,
    Timestamp,
    ToolSurface,
)

UNOFFERED = Absence(
    reason=AbsenceReason.FEATURE_DISABLED,
    message="it is deprecated: it can be called, and is not offered for new work",
    change=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What a surface was made from and for, besides the fates of its tools."""

    surface_id: SurfaceId
    created_at: Timestamp
    request: SurfaceRequest
    situation: Situation
    policy: SurfacePolicy
    policy_refs: tuple[str, ...] = ()
    reason: str | None = None


def record_of(fates: Fates, making: Making) -> ToolSurface:
    """Write a surface down."""
    roster, request, situation = fates.roster, making.request, making.situation
    lists, held, absent = _lists(fates), _held_up(fates), [*_absent(fates)]
    kinds = frozenset(map(roster.columns.kinds.__getitem__, fates.numbers(SHOWN)))
    needs = {word for kind in kinds for word in roster.traits[kind].needs}
    return ToolSurface(
        surface_id=making.surface_id,
        scope=request.scope,
        created_at=making.created_at,
        producer="agenttool",
        tool_refs=lists.considered + tuple(each.tool_id for each in held) if held else lists.considered,
        loaded_tools=lists.loaded,
        deferred_tools=lists.deferred_refs + tuple(held) if held else lists.deferred_refs,
        blocked_tools=_told(roster, ((why, told) for why, told in absent if not why.is_excluded)),
        excluded_tools=_told(roster, ((why, told) for why, told in absent if why.is_excluded)),
        unoffered_tools=_told(roster, [(UNOFFERED, [*fates.numbers(frozenset({Fate.UNOFFERED}))])]),
        selection_policy=_selection(fates, making, lists),
        default_tool_choice=request.tool_choice,
        capability_requirements=tuple(sorted(needs)),
        model_capabilities=None if situation.model is None else situation.model.told(),
        role_constraints=_constraints(situation),
        surface_reason=making.reason or request.reason,
        policy_refs=making.policy_refs,
        runtime_refs=request.refs,
    )


def _lists(fates: Fates) -> Lists:
    """List what is shown and what waits; a surface is mostly made like the one before, or like that and a bit more."""
    roster, refs = fates.roster, fates.roster.columns.refs
    last = roster.written[0] if roster.written else None
    if last is None or last.refs is not refs or not fates.codes.startswith(last.codes):
        last = Lists(refs=refs, codes=b"")
    begin = len(last.codes)
    if begin == len(fates.codes):
        return last
    ids, tokens = roster.names.ids, roster.columns.tokens
    shown, waiting = list(fates.numbers(SHOWN, begin)), list(fates.numbers(LOADABLE, begin))
    held = fates.numbers(DEFERRED - LOADABLE, begin)
    loaded = last.loaded + tuple(map(ids.__getitem__, shown))
    deferred = last.deferred + tuple(map(ids.__getitem__, waiting))
    lists = Lists(
        refs=refs,
        codes=fates.codes,
        loaded=loaded,
        deferred=deferred,
        considered=loaded + deferred,
        deferred_refs=last.deferred_refs + tuple(map(refs.__getitem__, waiting)),
        loaded_tokens=last.loaded_tokens + sum(map(tokens.__getitem__, shown)),
        deferred_tokens=last.deferred_tokens + sum(map(tokens.__getitem__, chain(waiting, held))),
    )
    roster.written[:] = [lists]  # one is enough
    return lists


def _held_up(fates: Fates) -> list[DeferredToolRef]:
    """Tell of the tools whose providers do not answer."""
    states = {Fate.PENDING: ProviderState.CONNECTING, Fate.UNAVAILABLE: ProviderState.UNAVAILABLE}
    refs = fates.roster.columns.refs
    return [
        held_up(refs[number], state)
        for fate, state in states.items()
        if fate in fates.codes
        for number in fates.numbers(frozenset({fate}))
    ]


def _absent(fates: Fates) -> Iterator[tuple[Absence, Sequence[int]]]:
    """Find the tools that are absent, together those that are so for one reason.

    First what holds for their kind, then for each by itself, then for its role; the others nobody asked for.
    """
    roster, absent = fates.roster, fates.mask(frozenset({Fate.ABSENT}))
    if any(fates.by_kind):
        of_kinds = roster.by_kind([255 if why else 0 for why in fates.by_kind])
        members = defaultdict[int, list[int]](list)
        for number in numbers(kept(absent, of_kinds)):
            members[roster.columns.kinds[number]].append(number)
        yield from ((why, members[kind]) for kind, why in enumerate(fates.by_kind) if why is not None)
        absent = kept(absent, without(of_kinds))
    if fates.apart:
        apart = sorted(each for each in fates.apart if absent[each])
        alone = defaultdict[Absence, list[int]](list)
        for number in apart:
            alone[fates.apart[number]].append(number)
        yield from alone.items()
        left = bytearray(absent)
        for number in apart:
            left[number] = 0
        absent = bytes(left)
    if fates.barred is not None:
        yield NOT_FOR_ROLE, numbers(kept(absent, fates.barred[1]))
        absent = kept(absent, without(fates.barred[1]))
    yield fates.otherwise, numbers(absent)


def _told(roster: Roster, absent: Iterable[tuple[Absence, Sequence[int]]]) -> tuple[AbsentTool, ...]:
    return tuple(chain.from_iterable(roster.names.absent(why, numbers) for why, numbers in absent))


def _selection(fates: Fates, making: Making, lists: Lists) -> JsonObject:
    """Say how tools may be selected, what they cost to show, and how the others are come by."""
    model = making.situation.model
    told: JsonObject = {
        "select_from": "loaded_tools",
        "parallel_calls": model is None or model.parallel_calls,
        "loaded_tokens": lists.loaded_tokens,
    }
    if not fates.count(DEFERRED):
        return told
    told["deferred_tokens"] = lists.deferred_tokens
    told["discovery"] = spoken(fates, FINDER)
    limits = {"max_tools": making.policy.max_tools, "max_tokens": making.policy.max_tokens}
    told["deferred_because"] = {"over_limit": {**limits}} if fates.is_crowded else "tools_ask_for_it"
    return told


def _constraints(situation: Situation) -> JsonObject:
    role = {} if situation.role is None else situation.role.told()
    told: JsonObject = {**role, "is_sub_agent": True} if situation.is_child else role
    return {**told, "is_interactive": situation.is_interactive, "allows_writes": situation.allows_writes}
