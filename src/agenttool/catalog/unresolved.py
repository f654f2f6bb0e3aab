"""Why a name leads to no tool that may run, for a program and for a person."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenttool.catalog.filters import Absence
from agenttool.ports.surfacing import ProviderState
from agenttool.records import AbsentTool, ErrorClass

MAX_TOLD = 200
"""How many characters of a name that leads nowhere are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """Why a name leads to no tool that may run, for a program and for a person.

    Attributes:
        awaits: the provider that is waited for, if waiting may help.
    """

    error_class: ErrorClass
    code: str
    message: str
    awaits: str | None = None


NO_SURFACE = Unresolved(
    error_class=ErrorClass.UNKNOWN_TOOL,
    code="no_surface",
    message="a call without a surface reaches no tool; make one with `surface(...)` and pass it along",
)


def unknown(name: str) -> Unresolved:
    """Say that nothing is named so; a name that is none, such as a whole paragraph, is cut to what can be read."""
    return Unresolved(
        error_class=ErrorClass.UNKNOWN_TOOL,
        code="unknown_tool",
        message=f"no tool on this surface is named {_told(name)!r}; call one that is listed, or search for it",
    )


def undiscovered(name: str, provider: str, state: ProviderState) -> Unresolved:
    """Say that nobody knows yet whether there is such a tool, for its provider has not said what it offers."""
    if state is ProviderState.CONNECTING:
        code, told = "pending_provider", "did not answer yet when asked what it offers"
    else:
        code, told = "unavailable_provider", "answered nothing of use when asked what it offers"
    message = f"no tool is known as {_told(name)!r} yet: its provider {provider!r} {told}; it is asked again by itself"
    return Unresolved(error_class=ErrorClass.UNKNOWN_TOOL, code=code, message=message, awaits=provider)


def blocked(name: str, absence: Absence) -> Unresolved:
    """Say why a tool may not be called here, and what would change that."""
    change = f"; to change that: {absence.change}" if absence.change else ""
    return Unresolved(
        error_class=ErrorClass.BLOCKED_TOOL,
        code=str(absence.reason),
        message=f"{name!r} may not be called here: {absence.message}{change}",
    )


def not_shown(name: str, absent: AbsentTool) -> Unresolved:
    """Say why a tool may not be called by somebody to whom it was not shown, though it is on the surface."""
    return Unresolved(
        error_class=ErrorClass.BLOCKED_TOOL,
        code=str(absent.reason),
        message=f"{name!r} was not shown, and is not called unseen: {absent.message}; {absent.would_change}",
    )


def not_loaded(names: Sequence[str], finder: str) -> Unresolved:
    """Say how to come by a tool that waits to be searched for, or by one of several that share a name."""
    if len(names) > 1:
        choices = " or ".join(f"'select:{each}'" for each in sorted(names))
        told = f"{len(names)} tools answer to this name, and none of their schemas was shown yet; "
        step = f"call {finder} with the query {choices}"
    else:
        told, step = f"the schema of {names[0]!r} was not shown yet; ", f"call {finder} with 'select:{names[0]}'"
    return _not_loaded("schema_not_loaded", f"{told}{step}, then call it with arguments that fit")


def came_later(name: str, *, was_waiting: bool) -> Unresolved:
    """Say that a tool is there on the current surface, and was not on the one that was passed along."""
    told = f"{name!r} came to a later surface than this one; call it on the current one, `current(surface)`"
    if was_waiting:
        return _not_loaded("schema_not_loaded", told)
    return Unresolved(error_class=ErrorClass.BLOCKED_TOOL, code="later_surface", message=told)


def pending(name: str, provider: str) -> Unresolved:
    """Say that the provider of a tool is not there yet."""
    told = f"{name!r} cannot be loaded yet: its provider {provider!r} is still connecting; search for it in a moment"
    return replace(_not_loaded("pending_provider", told), awaits=provider)


def unavailable(name: str, provider: str) -> Unresolved:
    """Say that the provider of a tool is gone."""
    return Unresolved(
        error_class=ErrorClass.BLOCKED_TOOL,
        code="unavailable",
        message=f"{name!r} cannot be loaded: its provider {provider!r} cannot be reached; use another tool",
    )


def ambiguous(name: str, owners: Sequence[str]) -> Unresolved:
    """Say that several tools answer to a name."""
    choices = ", ".join(sorted(map(repr, owners)))
    return Unresolved(
        error_class=ErrorClass.UNKNOWN_TOOL,
        code="ambiguous_name",
        message=f"{len(owners)} tools answer to {name!r}; call one of {choices}",
    )


def _told(name: str) -> str:
    return name if len(name) <= MAX_TOLD else f"{name[:MAX_TOLD]}…"


def _not_loaded(code: str, message: str) -> Unresolved:
    return Unresolved(error_class=ErrorClass.SCHEMA_NOT_LOADED, code=code, message=message)
