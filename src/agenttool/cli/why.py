"""Why a model can or cannot see a tool, in one sentence for a person and in a few words for a program."""

from difflib import get_close_matches

from agenttool.records import AbsentTool, DeferredToolRef, JsonObject, LoadingState, ToolDeclaration, ToolSurface

MOST_NEAR = 3
"""How many tools are named to somebody who may have meant one of them."""

NEAR = 0.7
"""How alike two names must be, from nothing to one, for the one to be a slip of the other."""


def why(name: str, declarations: list[ToolDeclaration], surface: ToolSurface) -> list[JsonObject]:
    """Say for each tool that answers to a name what became of it on a surface; nothing if there is none."""
    return [_fate(each, surface) for each in declarations if name in _names(each)]


def near(name: str, declarations: list[ToolDeclaration]) -> list[str]:
    """Give the tools that somebody may have meant: those written so in other capitals, else a few written nearly so."""
    bearers: dict[str, list[str]] = {}
    for each in declarations:
        for spelling in {spelling.casefold() for spelling in _names(each)}:
            bearers.setdefault(spelling, []).append(f"{each.namespace}.{each.name}")
    folded = name.casefold()
    spellings = [folded] if folded in bearers else get_close_matches(folded, bearers, MOST_NEAR, NEAR)
    meant = dict.fromkeys(each for spelling in spellings for each in bearers[spelling])
    return [*meant][:MOST_NEAR]


def _names(declaration: ToolDeclaration) -> tuple[str, ...]:
    qualified = f"{declaration.namespace}.{declaration.name}"
    return (qualified, declaration.name, declaration.tool_id, *(declaration.aliases or ()))


def _fate(declaration: ToolDeclaration, surface: ToolSurface) -> JsonObject:
    name, tool_id = f"{declaration.namespace}.{declaration.name}", declaration.tool_id
    lists = {
        "blocked": surface.blocked_tools,
        "excluded": surface.excluded_tools,
        "unoffered": surface.unoffered_tools,
    }
    for state, entries in lists.items():
        for entry in entries or ():
            if entry.tool_id == tool_id:
                return _absent(name, state, entry)
    for ref in surface.deferred_tools or ():
        if isinstance(ref, DeferredToolRef) and ref.tool_id == tool_id:
            return _deferred(name, ref, surface)
    return {"name": name, "state": "loaded", "why": f"{name} is loaded: a model sees it"}


def _absent(name: str, state: str, entry: AbsentTool) -> JsonObject:
    change = f"to change that: {entry.would_change}" if entry.would_change else "nothing would change that"
    return {
        "name": name,
        "state": state,
        "reason": str(entry.reason),
        "may_change": bool(entry.may_change),
        "would_change": entry.would_change,
        "why": f"{name} is not shown: {entry.message} ({entry.reason}); {change}",
    }


def _deferred(name: str, ref: DeferredToolRef, surface: ToolSurface) -> JsonObject:
    if ref.loading_state in (LoadingState.PENDING_PROVIDER, LoadingState.UNAVAILABLE):
        change, sentence = "let its provider answer", f"{name} waits: {ref.reason}"
    else:
        finder = (surface.selection_policy or {}).get("discovery")
        change = f"call {finder} with {ref.selection_ref}"
        sentence = f"{name} is deferred, because {_because(surface)}; a model finds it by search, and sees it after"
        sentence += f" `{ref.selection_ref}`"
    return {
        "name": name,
        "state": str(ref.loading_state),
        "reason": ref.reason,
        "may_change": True,
        "would_change": change,
        "why": sentence,
    }


def _because(surface: ToolSurface) -> str:
    because = (surface.selection_policy or {}).get("deferred_because")
    limits = because.get("over_limit") if isinstance(because, dict) else None
    if not isinstance(limits, dict):
        return "it asks for that"
    told = (f"{limit} {name.removeprefix('max_')}" for name, limit in limits.items() if limit is not None)
    return f"there is more than fits ({' or '.join(told)})"
