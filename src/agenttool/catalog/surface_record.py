"""The record of a surface: which tools are loaded, deferred, blocked or excluded, and under which constraints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from agenttool.catalog.deferred import held_up
from agenttool.catalog.fates import DEFERRED, LOADABLE, SHOWN, Fate, Fates
from agenttool.catalog.filters import Absence, Situation
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.unresolved import FINDER
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
    lists = roster.lists.get(fates.codes)
    if lists is None:
        roster.lists.clear()  # one is enough: a surface is mostly made like the one before
        shown, waiting, held = compress(roster.ids, fates.mask(SHOWN)), fates.mask(LOADABLE), _held_up(fates)
        loaded = tuple(shown)
        considered = (*loaded, *compress(roster.ids, waiting), *(each.tool_id for each in held))
        lists = roster.lists[fates.codes] = (considered, loaded, (*compress(roster.refs, waiting), *held))
    absent = _absent(fates)
    kinds = frozenset(compress(roster.kinds, fates.mask(SHOWN)))
    needs = {word for kind in kinds for word in roster.traits[kind].needs}
    return ToolSurface(
        surface_id=making.surface_id,
        scope=request.scope,
        created_at=making.created_at,
        producer="agenttool",
        tool_refs=lists[0],
        loaded_tools=lists[1],
        deferred_tools=lists[2],
        blocked_tools=tuple(each for absence, told in absent if not absence.is_excluded for each in told),
        excluded_tools=tuple(each for absence, told in absent if absence.is_excluded for each in told),
        unoffered_tools=tuple(roster.absent(UNOFFERED, fates.numbers(frozenset({Fate.UNOFFERED})))),
        selection_policy=_selection(fates, making),
        default_tool_choice=request.tool_choice,
        capability_requirements=tuple(sorted(needs)),
        model_capabilities=None if situation.model is None else situation.model.told(),
        role_constraints=_constraints(situation),
        surface_reason=making.reason or request.reason,
        policy_refs=making.policy_refs,
        runtime_refs=request.refs,
    )


def _held_up(fates: Fates) -> list[DeferredToolRef]:
    """Tell of the tools whose providers do not answer."""
    states = {Fate.PENDING: ProviderState.CONNECTING, Fate.UNAVAILABLE: ProviderState.UNAVAILABLE}
    refs = fates.roster.refs
    return [
        held_up(refs[number], state)
        for fate, state in states.items()
        if fate in fates.codes
        for number in fates.numbers(frozenset({fate}))
    ]


def _absent(fates: Fates) -> list[tuple[Absence, Sequence[AbsentTool]]]:
    """Tell of the tools that are absent, together those that are so for one reason."""
    roster, by_kind = fates.roster, fates.by_kind
    told: list[tuple[Absence, Sequence[AbsentTool]]] = [
        (absence, roster.absent_kind(absence, kind)) for kind, absence in enumerate(by_kind) if absence is not None
    ]
    if fates.codes.count(Fate.ABSENT) > sum(len(entries) for _, entries in told):
        told += [(absence, roster.absent(absence, numbers)) for absence, numbers in _apart(fates, all_kinds=not told)]
    return told


def _apart(fates: Fates, *, all_kinds: bool) -> Iterable[tuple[Absence, list[int]]]:
    """Find the tools that are absent for themselves, together those that are so for one reason."""
    kinds, by_kind = fates.roster.kinds, fates.by_kind
    absent = fates.numbers(frozenset({Fate.ABSENT}))
    numbers = list(absent) if all_kinds else [each for each in absent if by_kind[kinds[each]] is None]
    if not fates.apart:
        return [(fates.otherwise, numbers)]
    reasons: dict[int, tuple[Absence, list[int]]] = {}
    for number in numbers:
        absence = fates.apart.get(number) or fates.otherwise
        reasons.setdefault(id(absence), (absence, []))[1].append(number)
    return reasons.values()


def _selection(fates: Fates, making: Making) -> JsonObject:
    """Say how tools may be selected, what they cost to show, and how the others are come by."""
    roster, model = fates.roster, making.situation.model
    told: JsonObject = {
        "select_from": "loaded_tools",
        "parallel_calls": model is None or model.parallel_calls,
        "loaded_tokens": sum(compress(roster.tokens, fates.mask(SHOWN))),
    }
    if not fates.count(DEFERRED):
        return told
    told["deferred_tokens"] = sum(compress(roster.tokens, fates.mask(DEFERRED)))
    told["discovery"] = FINDER
    limits = {"max_tools": making.policy.max_tools, "max_tokens": making.policy.max_tokens}
    told["deferred_because"] = {"over_limit": {**limits}} if fates.is_crowded else "tools_ask_for_it"
    return told


def _constraints(situation: Situation) -> JsonObject:
    role = {} if situation.role is None else situation.role.told()
    told: JsonObject = {**role, "is_sub_agent": True} if situation.is_child else role
    return {**told, "is_interactive": situation.is_interactive, "allows_writes": situation.allows_writes}
