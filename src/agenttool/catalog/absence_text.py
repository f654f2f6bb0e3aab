"""Why a model does not see a tool, as a sentence: read from the record of a surface."""

from collections.abc import Callable
from typing import NamedTuple

from agenttool.records import AbsentTool, DeferredToolRef, JsonObject, LoadingState, ToolId, ToolSurface


class ToolVisibility(NamedTuple):
    """Whether a model sees a tool.

    Attributes:
        state: `loaded`, `blocked`, `excluded`, `unoffered`, or the loading state of a deferred tool.
        would_change: what would change it; None if nothing would.
    """

    state: str
    why: str
    facts: JsonObject
    would_change: str | None = None


def visibility_on(surface: ToolSurface) -> Callable[[ToolId, str], ToolVisibility]:
    """Return a function that takes the id and the qualified name of a tool and returns its visibility."""
    lists = (
        ("blocked", surface.blocked_tools),
        ("excluded", surface.excluded_tools),
        ("unoffered", surface.unoffered_tools),
    )
    absent = {entry.tool_id: (state, entry) for state, entries in reversed(lists) for entry in entries or ()}
    deferred = {ref.tool_id: ref for ref in surface.deferred_tools or () if isinstance(ref, DeferredToolRef)}
    because = _deferral_reason(surface)
    finder = (surface.selection_policy or {}).get("discovery")

    def visibility(tool_id: ToolId, name: str) -> ToolVisibility:
        if tool_id in absent:
            return _absent(name, *absent[tool_id])
        if tool_id in deferred:
            return _deferred(name, deferred[tool_id], because, finder)
        return ToolVisibility("loaded", f"{name} is loaded: a model sees it", {})

    return visibility


def _absent(name: str, state: str, entry: AbsentTool) -> ToolVisibility:
    change = f"to change that: {entry.would_change}" if entry.would_change else "nothing would change that"
    why = f"{name} is not shown: {entry.message} ({entry.reason}); {change}"
    facts: JsonObject = {"reason": str(entry.reason), "may_change": bool(entry.may_change)}
    return ToolVisibility(state, why, facts, entry.would_change)


def _deferred(name: str, ref: DeferredToolRef, because: str, finder: object) -> ToolVisibility:
    if ref.loading_state in (LoadingState.PENDING_PROVIDER, LoadingState.UNAVAILABLE):
        change, sentence = "let its provider answer", f"{name} waits: {ref.reason}"
    else:
        change = f"call {finder} with {ref.selection_ref}"
        sentence = f"{name} is deferred, because {because}; a model finds it by search, and sees it"
        sentence += f" after `{ref.selection_ref}`"
    facts: JsonObject = {"reason": ref.reason, "may_change": True}
    return ToolVisibility(str(ref.loading_state), sentence, facts, change)


def _deferral_reason(surface: ToolSurface) -> str:
    because = (surface.selection_policy or {}).get("deferred_because")
    limits = because.get("over_limit") if isinstance(because, dict) else None
    if not isinstance(limits, dict):
        return "its declaration asks for that"
    exceeded = (f"{limit} {name.removeprefix('max_')}" for name, limit in limits.items() if limit is not None)
    return f"the tools exceed the limit ({' or '.join(exceeded)})"
