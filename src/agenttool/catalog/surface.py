"""Declarations to the surface of one context, and from a name back to a declaration."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agenttool.catalog.catalog import Entry
from agenttool.catalog.filters import FILTERS, Situation
from agenttool.records import (
    AbsenceReason,
    AbsentTool,
    DeferredToolRef,
    ErrorClass,
    Lifecycle,
    LoadingState,
    SchemaVisibility,
    SurfaceId,
    SurfaceScope,
    Timestamp,
    ToolId,
    ToolSurface,
)

MAX_TOLD = 200
"""How many characters of a name that leads nowhere are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """Why a name leads to no tool that may run, for a program and for a person."""

    error_class: ErrorClass
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """A surface as the runtime uses it: the record that everyone may read, and every name that leads somewhere.

    Attributes:
        loaded: the tools that are shown.
        deferred: the tools that can be found, and loaded on a later surface.
        tools: what it was built from, absent ones included.
        only: the tools that it was asked for; none if for all.
    """

    record: ToolSurface
    entries: dict[str, Entry]
    absences: dict[str, Unresolved] = field(default_factory=dict[str, Unresolved])
    loaded: dict[ToolId, Entry] = field(default_factory=dict[ToolId, Entry])
    deferred: dict[ToolId, Entry] = field(default_factory=dict[ToolId, Entry])
    tools: tuple[Entry, ...] = ()
    only: frozenset[str] | None = None

    def resolve(self, name: str) -> Entry | Unresolved:
        """Find a tool by qualified name, bare name or alias; a name that several share leads to none of them."""
        return self.entries.get(name) or self.absence_of(name)

    def offer(self, entry: Entry) -> None:
        """Let a tool be called whatever this surface was asked for; names that lead elsewhere stay as they are."""
        for name in (entry.name, entry.qualified_name, entry.tool_id):
            if self.entries.setdefault(name, entry) is entry:
                self.absences.pop(name, None)

    def absence_of(self, name: str) -> Unresolved:
        """Say why a name leads nowhere."""
        return self.absences.get(name) or Unresolved(
            error_class=ErrorClass.UNKNOWN_TOOL,
            code="unknown_tool",
            message=f"no tool on this surface is named {_shortened(name)!r}; call one that is listed, or search for it",
        )


def _shortened(name: str) -> str:
    """Cut a name that is none, such as a whole paragraph, to a length that can be read."""
    return name if len(name) <= MAX_TOLD else f"{name[:MAX_TOLD]}…"


NO_SURFACE = Unresolved(
    error_class=ErrorClass.UNKNOWN_TOOL,
    code="no_surface",
    message="a call without a surface reaches no tool; make one with `surface(...)` and pass it along",
)


def build_surface(
    entries: Iterable[Entry],
    situation: Situation,
    *,
    surface_id: SurfaceId,
    scope: SurfaceScope,
    created_at: Timestamp,
    loaded: frozenset[str] = frozenset(),
) -> Surface:
    """Sort every tool into loaded, deferred or absent, and say why; `loaded` are deferred tools that were asked for."""
    offered: list[Entry] = []
    callable_only: list[Entry] = []
    deferred: list[Entry] = []
    absent: list[tuple[Entry, AbsentTool]] = []
    tools = tuple(entries)
    for entry in tools:
        reason = next((found for each in FILTERS if (found := each(entry, situation))), None)
        if reason is not None:
            absent.append((entry, reason))
        elif _is_deferred(entry) and entry.tool_id not in loaded:
            deferred.append(entry)
        elif entry.lifecycle is Lifecycle.DEPRECATED:
            callable_only.append(entry)
        else:
            offered.append(entry)
    names = _names([*offered, *callable_only])
    return Surface(
        record=ToolSurface(
            surface_id=surface_id,
            scope=scope,
            created_at=created_at,
            producer="agenttool",
            tool_refs=tuple(entry.tool_id for entry in (*offered, *deferred)),
            loaded_tools=tuple(entry.tool_id for entry in offered),
            deferred_tools=tuple(_deferred_ref(entry) for entry in deferred),
            blocked_tools=tuple(each for _, each in absent if each.reason is not AbsenceReason.ROLE_NOT_ALLOWED),
            excluded_tools=tuple(each for _, each in absent if each.reason is AbsenceReason.ROLE_NOT_ALLOWED),
        ),
        entries={name: found[0] for name, found in names.items() if len(found) == 1},
        absences=_absences(names, deferred, absent),
        loaded={entry.tool_id: entry for entry in offered},
        deferred={entry.tool_id: entry for entry in deferred},
        tools=tools,
        only=situation.only,
    )


def _is_deferred(entry: Entry) -> bool:
    interface = entry.tool.interface
    wants = bool(interface.should_defer) or interface.schema_visibility == SchemaVisibility.DEFERRED
    return not interface.always_load and (wants or entry.lifecycle is Lifecycle.DEFERRED)


def _names(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Collect who may be meant by a name: a primary name hides an alias, a qualified name has one owner (G-42)."""
    chosen = list(entries)
    names: dict[str, list[Entry]] = {}
    for entry in chosen:
        names.setdefault(entry.name, []).append(entry)
    for entry in chosen:
        for alias in entry.tool.declaration.aliases or ():
            if alias not in names or entry not in names[alias]:
                primary = any(other.name == alias for other in names.get(alias, ()))
                if not primary:
                    names.setdefault(alias, []).append(entry)
    for entry in chosen:
        names[entry.qualified_name] = [entry]
        names.setdefault(entry.tool_id, [entry])
    return names


def _absences(
    names: dict[str, list[Entry]], deferred: list[Entry], absent: list[tuple[Entry, AbsentTool]]
) -> dict[str, Unresolved]:
    found: dict[str, Unresolved] = {}
    for entry, reason in absent:
        for name in _all_names(entry):
            found.setdefault(name, _blocked(entry, reason))
    for entry in deferred:
        for name in _all_names(entry):
            found[name] = _not_loaded(entry)
    for name, owners in names.items():
        if len(owners) > 1:
            found[name] = _ambiguous(name, owners)
    return found


def _all_names(entry: Entry) -> tuple[str, ...]:
    return (entry.qualified_name, entry.name, entry.tool_id, *(entry.tool.declaration.aliases or ()))


def _blocked(entry: Entry, reason: AbsentTool) -> Unresolved:
    change = f"; to change that: {reason.would_change}" if reason.would_change else ""
    return Unresolved(
        error_class=ErrorClass.BLOCKED_TOOL,
        code=str(reason.reason),
        message=f"{entry.qualified_name!r} may not be called here: {reason.message}{change}",
    )


def _not_loaded(entry: Entry) -> Unresolved:
    return Unresolved(
        error_class=ErrorClass.SCHEMA_NOT_LOADED,
        code="schema_not_loaded",
        message=f"the schema of {entry.qualified_name!r} was not shown yet; "
        f"search for 'select:{entry.qualified_name}', load it, then call it with arguments that fit",
    )


def _ambiguous(name: str, owners: list[Entry]) -> Unresolved:
    choices = ", ".join(sorted(repr(owner.qualified_name) for owner in owners))
    return Unresolved(
        error_class=ErrorClass.UNKNOWN_TOOL,
        code="ambiguous_name",
        message=f"{len(owners)} tools answer to {name!r}; call one of {choices}",
    )


def _deferred_ref(entry: Entry) -> DeferredToolRef:
    declaration = entry.tool.declaration
    return DeferredToolRef(
        tool_id=entry.tool_id,
        name=declaration.name,
        namespace=declaration.namespace,
        search_hint=declaration.search_hint,
        source=declaration.tool_kind.value,
        schema_visibility=SchemaVisibility.DEFERRED,
        loading_state=LoadingState.DISCOVERABLE,
        reason=AbsenceReason.DEFERRED_UNTIL_DISCOVERED.value,
        selection_ref=f"select:{entry.qualified_name}",
    )
