"""The reasons why a surface leaves a tool out: one function per reason."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agenttool.catalog.entry import Traits
from agenttool.ports.surfacing import Circumstances, ModelCapabilities, Role
from agenttool.records import AbsenceReason, Lifecycle, SchemaVisibility, ToolId, ToolKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The context that a surface is created for.

    Attributes:
        is_child: the agent is a sub-agent.
        model: the model that the surface is for; None if it is unknown.
        only: the names of the requested tools; None for all.
        bounds: the tools that the agent may use, whatever it requests; None for all.
    """

    allows_writes: bool = True
    is_interactive: bool = True
    is_child: bool = False
    circumstances: Circumstances = field(default_factory=Circumstances)
    model: ModelCapabilities | None = None
    role: Role | None = None
    only: frozenset[str] | None = None
    bounds: frozenset[ToolId] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the caller may not see every tool."""
        return self.only is not None or self.bounds is not None or self.role is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why tools are absent from a surface.

    Attributes:
        change: what would change it; None if nothing would.
        is_excluded: the tool is excluded from consideration; otherwise it is blocked for now (G-35).
    """

    reason: AbsenceReason
    message: str
    change: str | None
    is_excluded: bool = False
    policy_refs: tuple[str, ...] | None = None


Filter = Callable[[Traits, Situation], Absence | None]

_BY_LIFECYCLE = {
    Lifecycle.DRAFT: ("it is still a draft", "make it available"),
    Lifecycle.DISABLED: ("it is disabled", "enable it"),
    Lifecycle.RETIRED: ("it is retired", None),
}
_COMMANDS = frozenset({ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION})


def by_lifecycle(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude drafts, and disabled and retired tools."""
    found = _BY_LIFECYCLE.get(traits.lifecycle)
    return found and _excluded(AbsenceReason.FEATURE_DISABLED, *found)


def by_switch(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude tools whose interface is not enabled."""
    if traits.is_enabled:
        return None
    return _excluded(AbsenceReason.FEATURE_DISABLED, "its interface is not enabled", "enable it")


def by_visibility(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude internal tools, which no model may see (AT-IFACE-04)."""
    if traits.visibility != SchemaVisibility.INTERNAL:
        return None
    return _excluded(AbsenceReason.ROLE_NOT_ALLOWED, "it is internal; models do not see it", None)


def by_gates(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude tools behind a closed feature gate."""
    shut = sorted(traits.gates - situation.circumstances.gates)
    if not shut:
        return None
    names = ", ".join(shut)
    return _excluded(AbsenceReason.FEATURE_DISABLED, f"the feature gate {names} is closed", f"open the gate {names}")


def by_recursion(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude tools that start an agent, for sub-agents."""
    if not situation.is_child or traits.kind != ToolKind.PEER_AGENT_TOOL:
        return None
    message = "it starts an agent, and a sub-agent may not start another"
    return _excluded(AbsenceReason.RECURSIVE_TOOL_FORBIDDEN, message, "let the agent above call it")


def by_model(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude tools that need what the model does not support; an unknown model excludes nothing."""
    if situation.model is None or not traits.needs:
        return None
    lacking = ", ".join(sorted(traits.needs - situation.model.words()))
    if not lacking:
        return None
    message = f"it needs {lacking}, which the model does not support"
    return _excluded(AbsenceReason.MODEL_UNSUPPORTED, message, f"use a model that supports {lacking}")


def by_skill(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude the tools of inactive skills."""
    active = situation.circumstances.skills
    if active is None or traits.kind != ToolKind.SKILL_TOOL or traits.owner in active:
        return None
    message = f"its skill {traits.owner} is not active"
    return _excluded(AbsenceReason.FEATURE_DISABLED, message, f"activate the skill {traits.owner}")


def by_peer(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude the tools of unreachable peer agents."""
    reachable = situation.circumstances.peers
    if reachable is None or traits.kind != ToolKind.PEER_AGENT_TOOL or traits.owner in reachable:
        return None
    message = f"the peer agent {traits.owner} cannot be reached"
    return _excluded(AbsenceReason.SETUP_REQUIRED, message, f"connect to {traits.owner}")


def by_browser(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude browser actions while there is no browser session."""
    if situation.circumstances.has_browser is not False or traits.kind != ToolKind.BROWSER_ACTION:
        return None
    return _excluded(AbsenceReason.SETUP_REQUIRED, "no browser session exists", "open a browser session")


def by_platform(traits: Traits, situation: Situation) -> Absence | None:
    """Exclude commands and code where the sandbox or the platform forbids them."""
    if situation.circumstances.allows_shell is not False or traits.kind not in _COMMANDS:
        return None
    message = "the sandbox or the platform forbids commands and code"
    return _excluded(AbsenceReason.POLICY_BLOCKED, message, "run it where commands are allowed")


def by_setup(traits: Traits, situation: Situation) -> Absence | None:
    """Block tools that are not set up yet."""
    if not traits.needs_setup and traits.lifecycle is not Lifecycle.REQUIRES_SETUP:
        return None
    return _blocked(AbsenceReason.SETUP_REQUIRED, "it is not set up", "finish its setup")


def by_credentials(traits: Traits, situation: Situation) -> Absence | None:
    """Block tools whose credentials are missing."""
    missing = ", ".join(sorted(traits.credentials - situation.circumstances.credentials))
    if not missing:
        return None
    message = f"it needs the credential {missing}, which is missing"
    return _blocked(AbsenceReason.CREDENTIAL_MISSING, message, f"provide the credential {missing}")


def by_mode(traits: Traits, situation: Situation) -> Absence | None:
    """Block tools that may write in read-only mode; a tool is assumed to write unless it is marked read-only."""
    if situation.allows_writes or traits.only_reads:
        return None
    message = "it may write, and only reading is allowed"
    return _blocked(AbsenceReason.POLICY_BLOCKED, message, "leave read-only mode")


def by_interaction(traits: Traits, situation: Situation) -> Absence | None:
    """Block tools that need a user while the runtime is not interactive."""
    in_background = situation.role is not None and situation.role.is_background
    if not traits.needs_person or (situation.is_interactive and not in_background):
        return None
    return _blocked(AbsenceReason.POLICY_BLOCKED, "it needs a user, and no user is present", "run interactively")


FILTERS: tuple[Filter, ...] = (
    by_lifecycle,
    by_switch,
    by_visibility,
    by_gates,
    by_recursion,
    by_model,
    by_skill,
    by_peer,
    by_browser,
    by_platform,
    by_setup,
    by_credentials,
    by_mode,
    by_interaction,
)
"""Applied in this order; the first reason is recorded."""

NOT_REQUESTED = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="it is not among the tools requested for this surface",
    change="ask for it",
    is_excluded=True,
)

NOT_PASSED_ON = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="the agent that started this sub-agent did not pass it on",
    change="let the agent above load it before it starts a sub-agent",
    is_excluded=True,
)

NOTHING_DEFERRED = Absence(
    reason=AbsenceReason.FEATURE_DISABLED,
    message="it finds deferred tools, and no tool is deferred here",
    change="defer a tool",
    is_excluded=True,
)


NOT_FOR_ROLE = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="the role that this surface is for may not use it",
    change="use another role",
    is_excluded=True,
)
"""Recorded by surfaces, which name their role elsewhere, so that all roles share one record per tool."""


def not_for(role: Role) -> Absence:
    """Return the reason that a role may not use a tool."""
    return replace(NOT_FOR_ROLE, message=f"the role {role.name} may not use it")


def denied_by(rules: tuple[str, ...]) -> Absence:
    """Return the reason that rules deny a tool whatever its arguments."""
    message = f"the rule {', '.join(rules)} denies it" if rules else "no rule and no mode allows it"
    return Absence(
        reason=AbsenceReason.POLICY_BLOCKED, message=message, change="change the rule", policy_refs=rules or None
    )


def withdrawal(traits: Traits) -> Absence | None:
    """Return why tools with these traits are on no surface in any situation; None if they may be."""
    anywhere = Situation()
    return by_lifecycle(traits, anywhere) or by_switch(traits, anywhere)


def first_absence(traits: Traits, situation: Situation) -> Absence | None:
    """Return the first reason why tools with these traits are absent; None if they are present."""
    return next((found for each in FILTERS if (found := each(traits, situation))), None)


def _excluded(reason: AbsenceReason, message: str, change: str | None) -> Absence:
    return Absence(reason=reason, message=message, change=change, is_excluded=True)


def _blocked(reason: AbsenceReason, message: str, change: str | None) -> Absence:
    return Absence(reason=reason, message=message, change=change)
