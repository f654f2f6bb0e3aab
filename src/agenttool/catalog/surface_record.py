"""Build the record of a surface: which tools are loaded, deferred, blocked or excluded, and why."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from agenttool.catalog.entry import TOOL_SEARCH, unreachable_ref
from agenttool.catalog.filters import NOT_FOR_ROLE, Absence, Situation
from agenttool.catalog.snapshot import CatalogSnapshot, ListedTools, apply_mask, invert_mask, masked_numbers
from agenttool.catalog.surface import SurfaceRequest
from agenttool.catalog.visibility import DEFERRED, LOADABLE, SHOWN, UNREACHABLE, Visibility, VisibilityMap
from agenttool.ports.surfacing import SurfacePolicy
from agenttool.records import AbsenceReason, AbsentTool, DeferredToolRef, JsonObject, SurfaceId, Timestamp, ToolSurface

DEPRECATED = Absence(
    reason=AbsenceReason.FEATURE_DISABLED,
    message="it is deprecated: it can be called, and is not offered for new work",
    change=None,
)


def build_surface_record(  # noqa: PLR0913 -- the members of the record
    visibility: VisibilityMap,
    *,
    surface_id: SurfaceId,
    created_at: Timestamp,
    request: SurfaceRequest,
    situation: Situation,
    policy: SurfacePolicy,
    policy_refs: tuple[str, ...] = (),
    reason: str | None = None,
) -> ToolSurface:
    """Return the record of a surface."""
    snapshot = visibility.snapshot
    listed, unreachable, absent = _listed(visibility), _unreachable(visibility), [*_absent(visibility)]
    groups = frozenset(map(snapshot.columns.groups.__getitem__, visibility.numbers(SHOWN)))
    needs = {word for group in groups for word in snapshot.traits[group].needs}
    deprecated = [*visibility.numbers(frozenset({Visibility.UNOFFERED}))]
    return ToolSurface(
        surface_id=surface_id,
        scope=request.scope,
        created_at=created_at,
        producer="agenttool",
        tool_refs=listed.considered + tuple(each.tool_id for each in unreachable),
        loaded_tools=listed.loaded,
        deferred_tools=listed.deferred_refs + tuple(unreachable),
        blocked_tools=_records(snapshot, ((why, numbers) for why, numbers in absent if not why.is_excluded)),
        excluded_tools=_records(snapshot, ((why, numbers) for why, numbers in absent if why.is_excluded)),
        unoffered_tools=_records(snapshot, [(DEPRECATED, deprecated)]),
        selection_policy=_selection_policy(visibility, situation, policy, listed),
        default_tool_choice=request.tool_choice,
        capability_requirements=tuple(sorted(needs)),
        model_capabilities=None if situation.model is None else situation.model.as_json(),
        role_constraints=_constraints(situation),
        surface_reason=reason or request.reason,
        policy_refs=policy_refs,
        runtime_refs=request.refs,
    )


def _listed(visibility: VisibilityMap) -> ListedTools:
    """List loaded and deferred tools; the lists of the last surface are reused if it has the same codes."""
    snapshot, refs = visibility.snapshot, visibility.snapshot.columns.refs
    last = snapshot.last_listed[0] if snapshot.last_listed else None
    if last is not None and last.refs is refs and last.codes == visibility.codes:
        return last
    ids, tokens = snapshot.names.ids, snapshot.columns.tokens
    shown, loadable = list(visibility.numbers(SHOWN)), list(visibility.numbers(LOADABLE))
    loaded = tuple(map(ids.__getitem__, shown))
    listed = ListedTools(
        refs=refs,
        codes=visibility.codes,
        loaded=loaded,
        considered=loaded + tuple(map(ids.__getitem__, loadable)),
        deferred_refs=tuple(map(refs.__getitem__, loadable)),
        loaded_tokens=sum(map(tokens.__getitem__, shown)),
        deferred_tokens=sum(map(tokens.__getitem__, visibility.numbers(DEFERRED))),
    )
    snapshot.last_listed[:] = [listed]
    return listed


def _unreachable(visibility: VisibilityMap) -> list[DeferredToolRef]:
    """Return references of the tools whose providers are connecting or unavailable."""
    refs = visibility.snapshot.columns.refs
    return [
        unreachable_ref(refs[number], state)
        for each, state in UNREACHABLE.items()
        if each in visibility.codes
        for number in visibility.numbers(frozenset({each}))
    ]


def _absent(visibility: VisibilityMap) -> Iterator[tuple[Absence, Sequence[int]]]:
    """Yield each reason with the tools that are absent for it.

    The reasons of traits groups come first, then those of single tools, then the role, then the default.
    """
    snapshot, absent = visibility.snapshot, visibility.mask(frozenset({Visibility.ABSENT}))
    if any(visibility.by_group):
        in_groups = snapshot.by_group([255 if why else 0 for why in visibility.by_group])
        members = defaultdict[int, list[int]](list)
        for number in masked_numbers(apply_mask(absent, in_groups)):
            members[snapshot.columns.groups[number]].append(number)
        yield from ((why, members[group]) for group, why in enumerate(visibility.by_group) if why is not None)
        absent = apply_mask(absent, invert_mask(in_groups))
    if visibility.individual:
        by_reason, rest = defaultdict[Absence, list[int]](list), bytearray(absent)
        for number, why in sorted(visibility.individual.items()):
            if rest[number]:
                by_reason[why].append(number)
                rest[number] = 0
        yield from by_reason.items()
        absent = bytes(rest)
    if visibility.role_excluded is not None:
        yield NOT_FOR_ROLE, masked_numbers(apply_mask(absent, visibility.role_excluded[1]))
        absent = apply_mask(absent, invert_mask(visibility.role_excluded[1]))
    yield visibility.default_absence, masked_numbers(absent)


def _records(snapshot: CatalogSnapshot, absent: Iterable[tuple[Absence, Sequence[int]]]) -> tuple[AbsentTool, ...]:
    return tuple(chain.from_iterable(snapshot.names.absent(why, numbers) for why, numbers in absent))


def _selection_policy(
    visibility: VisibilityMap, situation: Situation, limits: SurfacePolicy, listed: ListedTools
) -> JsonObject:
    """Return how tools may be selected, their size in tokens, and how deferred tools are found."""
    model = situation.model
    policy: JsonObject = {
        "select_from": "loaded_tools",
        "parallel_calls": model is None or model.parallel_calls,
        "loaded_tokens": listed.loaded_tokens,
    }
    if not visibility.count(DEFERRED):
        return policy
    policy["deferred_tokens"] = listed.deferred_tokens
    policy["discovery"] = visibility.builtin_name(TOOL_SEARCH)
    over_limit: JsonObject = {"max_tools": limits.max_tools, "max_tokens": limits.max_tokens}
    policy["deferred_because"] = {"over_limit": over_limit} if visibility.is_over_limit else "tools_ask_for_it"
    return policy


def _constraints(situation: Situation) -> JsonObject:
    role = {} if situation.role is None else situation.role.as_json()
    constraints: JsonObject = {**role, "is_sub_agent": True} if situation.is_child else role
    return {**constraints, "is_interactive": situation.is_interactive, "allows_writes": situation.allows_writes}
