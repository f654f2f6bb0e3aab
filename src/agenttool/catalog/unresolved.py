"""Explain why a name or a surface resolves to no callable tool."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from agenttool.catalog.filters import Absence
from agenttool.ports.surfacing import ProviderState
from agenttool.records import AbsentTool, ErrorClass, ToolSurface

MAX_SHOWN_NAME = 200
"""How many characters of an unknown name a message repeats."""

MAX_SUGGESTIONS = 3
MIN_SIMILARITY = 0.7
"""How similar two names must be, from 0 to 1, for one to be suggested instead of the other."""

_ASK_OPERATOR = "ask the operator to change that"


class Unresolved(NamedTuple):
    """Why a name resolves to no callable tool: an error class, a code and a message, which a model reads.

    Attributes:
        awaits: the provider to wait for, if waiting may help.
        remedy: what the operator or the developer can change; no model reads it.
    """

    error_class: ErrorClass
    code: str
    message: str
    awaits: str | None = None
    remedy: str | None = None


def unknown_surface(given: object) -> Unresolved:
    """Explain why a value is not a surface of this runtime."""
    if isinstance(given, ToolSurface):
        problem = "this runtime does not know this surface: it is from another runtime, or was deleted as too old"
    else:
        problem = f"a surface is what `surface(...)` returns, got a {type(given).__name__}"
    return Unresolved(
        ErrorClass.UNKNOWN_TOOL, "unknown_surface", f"{problem}; create a new one with `surface(...)` and pass it"
    )


def unknown(name: str, spellings: Iterable[tuple[str, str]]) -> Unresolved:
    """Explain that no tool has this name, and suggest tools with similar spellings."""
    similar = [] if len(name) > MAX_SHOWN_NAME else similar_names(name, spellings)
    meant = " or ".join(map(repr, similar))
    advice = f"did you mean {meant}?" if similar else "call one that is listed, or search for it"
    return Unresolved(
        ErrorClass.UNKNOWN_TOOL, "unknown_tool", f"no tool on this surface is named {_shortened(name)!r}; {advice}"
    )


def similar_names(name: str, spellings: Iterable[tuple[str, str]]) -> list[str]:
    """Return names that the caller may have meant, each given by a spelling: equal but for case, else similar."""
    owners: dict[str, list[str]] = {}
    for spelling, full in spellings:
        owners.setdefault(spelling.casefold(), []).append(full)
    folded = name.casefold()
    close = [folded] if folded in owners else get_close_matches(folded, owners, MAX_SUGGESTIONS, MIN_SIMILARITY)
    found = dict.fromkeys(each for spelling in close for each in owners[spelling])
    return [*found][:MAX_SUGGESTIONS]


def undiscovered(name: str, provider: str, state: ProviderState) -> Unresolved:
    """Explain that a tool may exist, but its provider has not listed its tools yet."""
    if state is ProviderState.CONNECTING:
        code, problem = "pending_provider", "has not listed its tools yet"
    else:
        code, problem = "unavailable_provider", "did not return a usable list of tools"
    return Unresolved(
        ErrorClass.UNKNOWN_TOOL,
        code,
        f"no tool is known as {_shortened(name)!r} yet: its provider {provider!r} {problem}; "
        "the runtime asks again automatically",
        awaits=provider,
    )


def blocked(name: str, absence: Absence) -> Unresolved:
    """Explain why a tool may not be called here, and who can change that."""
    advice = f"; {_ASK_OPERATOR}" if absence.change else ""
    return Unresolved(
        ErrorClass.BLOCKED_TOOL,
        str(absence.reason),
        f"{name!r} may not be called here: {absence.message}{advice}",
        remedy=_remedy(absence.change),
    )


def not_shown(name: str, absent: AbsentTool) -> Unresolved:
    """Explain that a tool of the surface was not sent to the model that calls it."""
    return Unresolved(
        ErrorClass.BLOCKED_TOOL,
        str(absent.reason),
        f"{name!r} was not shown to the caller and cannot be called: {absent.message}; {_ASK_OPERATOR}",
        remedy=_remedy(absent.would_change),
    )


def not_loaded(names: Sequence[str], finder: str) -> Unresolved:
    """Explain how to load a deferred tool, or one of several that share a name."""
    if len(names) > 1:
        choices = " or ".join(f"'select:{each}'" for each in sorted(names))
        problem = f"{len(names)} tools have this name, and none of their schemas is loaded"
        step = f"call {finder} with the query {choices}"
    else:
        problem = f"the schema of {names[0]!r} is not loaded"
        step = f"call {finder} with 'select:{names[0]}'"
    return Unresolved(ErrorClass.SCHEMA_NOT_LOADED, "schema_not_loaded", f"{problem}; {step}, then call the tool")


def on_newer_surface(name: str, *, was_deferred: bool) -> Unresolved:
    """Explain that a tool is on the current surface, but not on the older one that was passed."""
    message = f"{name!r} was added after the list of tools that this call was made with; call it in the next turn"
    remedy = "call it on `current(surface)`"
    if was_deferred:
        return Unresolved(ErrorClass.SCHEMA_NOT_LOADED, "schema_not_loaded", message, remedy=remedy)
    return Unresolved(ErrorClass.BLOCKED_TOOL, "later_surface", message, remedy=remedy)


def unreachable(name: str, provider: str, state: ProviderState) -> Unresolved:
    """Explain that the provider of a tool does not answer now, or cannot be reached."""
    if state is ProviderState.CONNECTING:
        return Unresolved(
            ErrorClass.DEPENDENCY_UNAVAILABLE,
            "pending_provider",
            f"{name!r} cannot be called now: its provider {provider!r} is not connected; try again later",
            awaits=provider,
        )
    return Unresolved(
        ErrorClass.BLOCKED_TOOL,
        "unavailable",
        f"{name!r} cannot be loaded: its provider {provider!r} cannot be reached; use another tool",
    )


def ambiguous(name: str, owners: Sequence[str]) -> Unresolved:
    """Explain that several tools have a name."""
    choices = ", ".join(sorted(map(repr, owners)))
    return Unresolved(
        ErrorClass.UNKNOWN_TOOL, "ambiguous_name", f"{len(owners)} tools have the name {name!r}; call one of {choices}"
    )


def _remedy(change: str | None) -> str | None:
    return f"to change that: {change}" if change else None


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"
