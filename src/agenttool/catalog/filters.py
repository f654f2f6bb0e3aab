"""Why a tool is not on a surface: one small function per reason."""

from collections.abc import Callable
from dataclasses import dataclass

from agenttool.catalog.catalog import Entry
from agenttool.records import AbsenceReason, AbsentTool, Lifecycle, SchemaVisibility, ToolKind, acted_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The context a surface is built for; `credentials` are the refs of those that can be had."""

    allows_writes: bool = True
    is_interactive: bool = True
    is_child: bool = False
    credentials: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


Filter = Callable[[Entry, Situation], AbsentTool | None]

_BY_LIFECYCLE = {
    Lifecycle.DRAFT: (AbsenceReason.FEATURE_DISABLED, "still a draft", "make it available"),
    Lifecycle.DISABLED: (AbsenceReason.FEATURE_DISABLED, "disabled", "enable it"),
    Lifecycle.REQUIRES_SETUP: (AbsenceReason.SETUP_REQUIRED, "not set up", "finish its setup"),
    Lifecycle.RETIRED: (AbsenceReason.FEATURE_DISABLED, "retired", "use its successor"),
}


def by_lifecycle(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what is not (or no longer) meant to be called."""
    found = _BY_LIFECYCLE.get(entry.lifecycle)
    if found is None:
        return None
    reason, message, change = found
    return _absent(entry, reason, message, change if entry.lifecycle is not Lifecycle.RETIRED else None)


def by_switch(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what its own interface says is off."""
    if entry.tool.interface.is_enabled is not False:
        return None
    return _absent(entry, AbsenceReason.FEATURE_DISABLED, "its interface says it is not enabled", "enable it")


def by_visibility(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what no model may be shown (AT-IFACE-04)."""
    if entry.tool.interface.schema_visibility != SchemaVisibility.INTERNAL:
        return None
    return _absent(entry, AbsenceReason.ROLE_NOT_ALLOWED, "it is internal, and no model is shown it", None)


def by_setup(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what says that it is not set up yet."""
    if not entry.tool.interface.requires_setup:
        return None
    return _absent(entry, AbsenceReason.SETUP_REQUIRED, "not set up", "finish its setup")


def by_credentials(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what needs a credential that nobody has."""
    missing = [each for each in entry.tool.interface.required_credentials or () if each not in situation.credentials]
    if not missing:
        return None
    told = f"it needs the credential {', '.join(missing)}, which is not there"
    return _absent(entry, AbsenceReason.CREDENTIAL_MISSING, told, "provide the credential")


def by_mode(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what writes while only reading is allowed; a tool that does not say that it only reads, writes."""
    if situation.allows_writes or acted_on(entry.tool.interface, "is_read_only") is True:
        return None
    return _absent(
        entry, AbsenceReason.POLICY_BLOCKED, "it may write, and only reading is allowed", "leave read-only mode"
    )


def by_interaction(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what needs a person while nobody is there."""
    if situation.is_interactive or not entry.tool.interface.requires_user_interaction:
        return None
    return _absent(entry, AbsenceReason.POLICY_BLOCKED, "it needs a person, and nobody is there", "run interactively")


def by_recursion(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what would start an agent inside an agent that is itself a child."""
    if not situation.is_child or entry.tool.declaration.tool_kind is not ToolKind.PEER_AGENT_TOOL:
        return None
    return _absent(entry, AbsenceReason.RECURSIVE_TOOL_FORBIDDEN, "a child may not start agents", None)


def by_choice(entry: Entry, situation: Situation) -> AbsentTool | None:
    """Leave out what the caller did not choose."""
    if situation.only is None or {entry.tool_id, entry.name, entry.qualified_name} & situation.only:
        return None
    return _absent(
        entry, AbsenceReason.ROLE_NOT_ALLOWED, "not among the tools this surface was asked for", "ask for it"
    )


FILTERS: tuple[Filter, ...] = (
    by_lifecycle,
    by_switch,
    by_visibility,
    by_choice,
    by_setup,
    by_credentials,
    by_mode,
    by_interaction,
    by_recursion,
)
"""In this order; the first reason found is the one that is told."""


def _absent(entry: Entry, reason: AbsenceReason, message: str, change: str | None) -> AbsentTool:
    return AbsentTool(
        tool_id=entry.tool_id,
        name=entry.qualified_name,
        reason=reason,
        message=message,
        may_change=change is not None,
        would_change=change,
    )
