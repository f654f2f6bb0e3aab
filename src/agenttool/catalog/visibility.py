"""Decide which tools a surface shows, defers or leaves out.

Tools with equal traits are decided together, so that 100,000 tools take milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from itertools import compress
from types import MappingProxyType

from agenttool.catalog.entry import Traits, qualified_builtin
from agenttool.catalog.filters import (
    NOT_PASSED_ON,
    NOT_REQUESTED,
    NOTHING_DEFERRED,
    Absence,
    Situation,
    first_absence,
    not_for,
)
from agenttool.catalog.snapshot import CatalogSnapshot, apply_mask, invert_mask, nonzero_mask
from agenttool.ports.surfacing import ProviderState, SurfacePolicy
from agenttool.records import Lifecycle, SchemaVisibility, ToolId


class Visibility(IntEnum):
    """The visibility of a tool on a surface."""

    ABSENT = 0
    LOADED = 1
    PINNED = 2
    """Loaded, and never deferred because of a limit."""
    REQUESTED = 3
    """Loaded on request. It does not count towards a limit, so that loading never hides another tool."""
    UNOFFERED = 4
    """Callable, but not shown: it is deprecated."""
    DISCOVERABLE = 5
    BY_NAME = 6
    PENDING = 7
    UNAVAILABLE = 8


COUNTED = frozenset({Visibility.LOADED, Visibility.PINNED})
SHOWN = COUNTED | {Visibility.REQUESTED}
CALLABLE = SHOWN | {Visibility.UNOFFERED}
LOADABLE = frozenset({Visibility.DISCOVERABLE, Visibility.BY_NAME})
DEFERRED = LOADABLE | {Visibility.PENDING, Visibility.UNAVAILABLE}

ALWAYS_SHOWN = 10
"""Up to this many tools are shown, however large they are."""

_CALLABLE_ONLY = bytes(code if code in CALLABLE else Visibility.ABSENT for code in range(256))
_DEFER_LOADED = bytes(Visibility.DISCOVERABLE if code == Visibility.LOADED else code for code in range(256))
_LOAD_ALL = bytes(
    Visibility.REQUESTED if code == Visibility.LOADED or code in LOADABLE else code for code in range(256)
)
UNREACHABLE = {Visibility.PENDING: ProviderState.CONNECTING, Visibility.UNAVAILABLE: ProviderState.UNAVAILABLE}
"""The visibility of tools whose provider cannot be used, and the state of that provider."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VisibilityMap:
    """The visibility of every tool of a snapshot, one byte each.

    Attributes:
        by_group: why the tools of each traits group are absent; None if they are not.
        individual: why single tools are absent though their group is not.
        role_excluded: why the role may not use some tools, and the mask of those.
        is_over_limit: there were more tools than a surface may show.
        default_absence: why any other tool is absent.
    """

    snapshot: CatalogSnapshot
    codes: bytes
    by_group: tuple[Absence | None, ...]
    individual: Mapping[int, Absence]
    role_excluded: tuple[Absence, bytes] | None
    is_over_limit: bool
    default_absence: Absence = NOT_REQUESTED

    def numbers(self, wanted: frozenset[Visibility]) -> Iterator[int]:
        """Return the numbers of the tools with one of these visibilities."""
        return compress(range(len(self.codes)), self.mask(wanted))

    def mask(self, wanted: frozenset[Visibility]) -> bytes:
        """Return a one for each tool with one of these visibilities, else a zero."""
        return self.codes.translate(_table(wanted))

    def count(self, wanted: frozenset[Visibility]) -> int:
        """Count the tools with one of these visibilities."""
        return sum(map(self.codes.count, wanted))

    def absence(self, number: int) -> Absence:
        """Return why a tool is absent; the reason of its group comes first, since no request could change it."""
        found = self.by_group[self.snapshot.columns.groups[number]] or self.individual.get(number)
        if found is None and self.role_excluded is not None and self.role_excluded[1][number]:
            found = self.role_excluded[0]
        return found or self.default_absence

    def builtin_name(self, name: str) -> str:
        """Return the name of a built-in tool on this surface: qualified if another tool has the same bare name."""
        names, qualified = self.snapshot.names, qualified_builtin(name)
        same = self.snapshot.sharing(names.by_name, name)
        is_shared = any(self.codes[each] and names.qualified[each] != qualified for each in same)
        return qualified if is_shared else name

    def restored(self, codes: bytes) -> "VisibilityMap":
        """Return an earlier visibility, without tools that are absent now; later tools are absent."""
        earlier = codes.ljust(len(self.codes), bytes([Visibility.ABSENT]))
        return replace(self, codes=apply_mask(earlier, nonzero_mask(self.codes)))

    def narrowed(self, situation: Situation, denied: Iterable[ToolId]) -> "VisibilityMap":
        """Return what remains visible in another situation; no tool becomes visible."""
        snapshot = self.snapshot
        present = [0 if first_absence(traits, situation) else 255 for traits in snapshot.traits]
        codes = bytearray(apply_mask(self.codes, snapshot.by_group(present)))
        for number in (*map(snapshot.number, denied), *snapshot.withdrawn):
            if number is not None and number < len(codes):
                codes[number] = Visibility.ABSENT
        _mark_unreachable(codes, snapshot, situation)
        return replace(self, codes=bytes(codes))

    def for_sub_agent(self) -> "VisibilityMap":
        """Return what a sub-agent may use: callable tools, and nothing that could be loaded."""
        return replace(self, codes=self.codes.translate(_CALLABLE_ONLY), default_absence=NOT_PASSED_ON)


def decide_visibility(  # noqa: PLR0913 -- the inputs of the decision
    snapshot: CatalogSnapshot,
    situation: Situation,
    *,
    loaded: Iterable[ToolId] = (),
    denied: Mapping[ToolId, Absence] = MappingProxyType({}),
    finder: ToolId | None = None,
    reader: ToolId | None = None,
    loads_all: bool = False,
    policy: SurfacePolicy,
) -> VisibilityMap:
    """Decide the visibility of every tool.

    Args:
        snapshot: the tools.
        situation: what the surface is for.
        loaded: deferred tools that were loaded on request.
        denied: tools that rules deny whatever their arguments, and why.
        finder: the built-in search tool, which is shown only if a tool is deferred.
        reader: the built-in tool that reads stored output. A role or a request does not exclude it, because previews
            refer to it and it reads output of the same conversation only.
        loads_all: load every deferred tool, whatever the limits are.
        policy: the limits of the surface.
    """
    by_group = tuple(first_absence(traits, situation) for traits in snapshot.traits)
    visibilities = [
        Visibility.ABSENT if absence else _default(traits)
        for traits, absence in zip(snapshot.traits, by_group, strict=True)
    ]
    role = situation.role
    role_excluded = None if role is None else (not_for(role), invert_mask(snapshot.for_role(role)))
    codes = _codes(visibilities, snapshot, situation, role_excluded)
    individual = {**_beyond_bounds(snapshot, situation), **_denied_or_withdrawn(snapshot, denied)}
    for number in individual:
        codes[number] = Visibility.ABSENT
    _mark_unreachable(codes, snapshot, situation)
    for number in map(snapshot.number, loaded):
        if number is not None and codes[number] in (Visibility.LOADED, *LOADABLE):
            codes[number] = Visibility.REQUESTED
    if loads_all:
        codes = codes.translate(_LOAD_ALL)
    found = None if finder is None else snapshot.number(finder)
    if found is not None:
        codes[found] = Visibility.ABSENT
    is_over_limit = _is_over_limit(codes, snapshot, situation, policy)
    if is_over_limit:
        codes = codes.translate(_DEFER_LOADED)
    if found is not None:
        if any(map(codes.count, DEFERRED)) and by_group[snapshot.columns.groups[found]] is None:
            codes[found] = Visibility.REQUESTED
            individual.pop(found, None)
        else:
            individual[found] = NOTHING_DEFERRED
    found = None if reader is None else snapshot.number(reader)
    if found is not None and found not in individual and by_group[snapshot.columns.groups[found]] is None:
        codes[found] = codes[found] or Visibility.REQUESTED
    return VisibilityMap(
        snapshot=snapshot,
        codes=bytes(codes),
        by_group=by_group,
        individual=individual,
        role_excluded=role_excluded,
        is_over_limit=is_over_limit,
        default_absence=NOT_PASSED_ON if situation.is_child and situation.only is None else NOT_REQUESTED,
    )


def _codes(
    visibilities: list[Visibility],
    snapshot: CatalogSnapshot,
    situation: Situation,
    role_excluded: tuple[Absence, bytes] | None,
) -> bytearray:
    """Return the visibility of each tool's group, if the tool is requested and the role may use it."""
    requested = _requested(snapshot, situation)
    if requested is None:
        codes = snapshot.by_group(visibilities)
        return bytearray(codes if role_excluded is None else apply_mask(codes, invert_mask(role_excluded[1])))
    codes = bytearray(snapshot.size)
    for number in requested:
        if role_excluded is None or not role_excluded[1][number]:
            codes[number] = visibilities[snapshot.columns.groups[number]]
    return codes


def _requested(snapshot: CatalogSnapshot, situation: Situation) -> frozenset[int] | None:
    """Return the requested tools within the bounds; None for all.

    Bounds are ids, since the name of one tool may equal the qualified name of another.
    """
    requested = None if situation.only is None else snapshot.named(situation.only)
    if situation.bounds is None:
        return requested
    within = frozenset(number for each in situation.bounds if (number := snapshot.number(each)) is not None)
    return within if requested is None else requested & within


def _beyond_bounds(snapshot: CatalogSnapshot, situation: Situation) -> dict[int, Absence]:
    """Return the tools that a sub-agent requests by name and that were not passed on to it."""
    if not situation.is_child or situation.only is None or situation.bounds is None:
        return {}
    requested = snapshot.named(situation.only)
    return {number: NOT_PASSED_ON for number in requested if snapshot.names.ids[number] not in situation.bounds}


def _default(traits: Traits) -> Visibility:
    """Return the visibility of tools that are not absent, while there is no limit."""
    if traits.is_deferred and not traits.is_pinned:
        by_name = traits.visibility == SchemaVisibility.NATIVE_REF
        return Visibility.BY_NAME if by_name else Visibility.DISCOVERABLE
    if traits.lifecycle is Lifecycle.DEPRECATED:
        return Visibility.UNOFFERED
    return Visibility.PINNED if traits.is_pinned else Visibility.LOADED


def _denied_or_withdrawn(snapshot: CatalogSnapshot, denied: Mapping[ToolId, Absence]) -> dict[int, Absence]:
    numbers = ((snapshot.number(tool_id), absence) for tool_id, absence in denied.items())
    found = {number: absence for number, absence in numbers if number is not None}
    return {**found, **{number: absence for number, absence in snapshot.withdrawn.items() if number < snapshot.size}}


def _mark_unreachable(codes: bytearray, snapshot: CatalogSnapshot, situation: Situation) -> None:
    """Mark the tools whose providers are connecting or unavailable."""
    visibility = {state: code for code, state in UNREACHABLE.items()}
    for namespace, state in situation.circumstances.providers.items():
        if state in visibility:
            for number in snapshot.sharing(snapshot.names.namespaces, namespace):
                codes[number] = codes[number] and visibility[state]


def _is_over_limit(codes: bytearray, snapshot: CatalogSnapshot, situation: Situation, policy: SurfacePolicy) -> bool:
    count = sum(map(codes.count, COUNTED))
    limits = (policy.max_tools, None if situation.model is None else situation.model.max_tools)
    limit = min((each for each in limits if each is not None), default=None)
    if limit is not None and count > limit:
        return True
    if policy.max_tokens is None or count <= ALWAYS_SHOWN:
        return False
    return sum(compress(snapshot.columns.tokens, codes.translate(_table(COUNTED)))) > policy.max_tokens


@cache
def _table(wanted: frozenset[Visibility]) -> bytes:
    return bytes(code in wanted for code in range(256))
