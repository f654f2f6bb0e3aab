"""Why a tool is not on a surface: one small function per reason."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agenttool.catalog.traits import Traits
from agenttool.ports.surfacing import Circumstances, ModelCapabilities, Role
from agenttool.records import AbsenceReason, Lifecycle, SchemaVisibility, ToolId, ToolKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The context a surface is built for.

    Attributes:
        is_child: the agent was started by another.
        model: the one that this surface is for; none if nobody says which.
        only: the names that the surface was asked for; none for all.
        bounds: the tools that its agent may know of, whatever it asks for; none for all.
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
        """Tell whether it is for somebody who may not know of every tool."""
        return self.only is not None or self.bounds is not None or self.role is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """One reason for any number of tools.

    Attributes:
        change: what would change it; none if nothing would.
        is_excluded: it was never considered here; else it was, and is refused as things stand (G-35).
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
    """Leave out what is not (or no longer) meant to be called."""
    found = _BY_LIFECYCLE.get(traits.lifecycle)
    return found and _excluded(AbsenceReason.FEATURE_DISABLED, *found)


def by_switch(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what its own interface says is off."""
    if traits.is_enabled:
        return None
    return _excluded(AbsenceReason.FEATURE_DISABLED, "its interface says it is not enabled", "enable it")


def by_visibility(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what no model may be shown (AT-IFACE-04)."""
    if traits.visibility != SchemaVisibility.INTERNAL:
        return None
    return _excluded(AbsenceReason.ROLE_NOT_ALLOWED, "it is internal, and no model is shown it", None)


def by_gates(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what stands behind a feature gate that nobody opened."""
    shut = sorted(traits.gates - situation.circumstances.gates)
    if not shut:
        return None
    told = ", ".join(shut)
    return _excluded(AbsenceReason.FEATURE_DISABLED, f"the feature gate {told} is closed", f"open the gate {told}")


def by_recursion(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what would start an agent inside an agent that is itself a child."""
    if not situation.is_child or traits.kind != ToolKind.PEER_AGENT_TOOL:
        return None
    told = "it starts an agent, and a sub-agent may not start another"
    return _excluded(AbsenceReason.RECURSIVE_TOOL_FORBIDDEN, told, "let the agent above call it")


def by_model(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what the model cannot support; of a model that nobody described, nothing is assumed."""
    if situation.model is None or not traits.needs:
        return None
    lacking = ", ".join(sorted(traits.needs - situation.model.words()))
    if not lacking:
        return None
    told = f"it needs {lacking}, which the model does not support"
    return _excluded(AbsenceReason.MODEL_UNSUPPORTED, told, f"use a model that supports {lacking}")


def by_skill(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out the tools of skills that are not active."""
    active = situation.circumstances.skills
    if active is None or traits.kind != ToolKind.SKILL_TOOL or traits.owner in active:
        return None
    told = f"its skill {traits.owner} is not active"
    return _excluded(AbsenceReason.FEATURE_DISABLED, told, f"activate the skill {traits.owner}")


def by_peer(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out the tools of peer agents that cannot be reached."""
    reachable = situation.circumstances.peers
    if reachable is None or traits.kind != ToolKind.PEER_AGENT_TOOL or traits.owner in reachable:
        return None
    told = f"the peer agent {traits.owner} cannot be reached"
    return _excluded(AbsenceReason.SETUP_REQUIRED, told, f"connect to {traits.owner}")


def by_browser(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out browser actions while there is no browser."""
    if situation.circumstances.has_browser is not False or traits.kind != ToolKind.BROWSER_ACTION:
        return None
    return _excluded(AbsenceReason.SETUP_REQUIRED, "no browser session exists", "open a browser session")


def by_platform(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out commands and code where the sandbox or the platform forbids them."""
    if situation.circumstances.allows_shell is not False or traits.kind not in _COMMANDS:
        return None
    told = "the sandbox or the platform forbids commands and code"
    return _excluded(AbsenceReason.POLICY_BLOCKED, told, "run it where commands are allowed")


def by_setup(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what says that it is not set up yet."""
    if not traits.needs_setup and traits.lifecycle is not Lifecycle.REQUIRES_SETUP:
        return None
    return _blocked(AbsenceReason.SETUP_REQUIRED, "it is not set up", "finish its setup")


def by_credentials(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what needs a credential that nobody has."""
    missing = ", ".join(sorted(traits.credentials - situation.circumstances.credentials))
    if not missing:
        return None
    told = f"it needs the credential {missing}, which is not there"
    return _blocked(AbsenceReason.CREDENTIAL_MISSING, told, f"provide the credential {missing}")


def by_mode(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what writes while only reading is allowed; a tool that does not say that it only reads, writes."""
    if situation.allows_writes or traits.only_reads:
        return None
    told = "it may write, and only reading is allowed"
    return _blocked(AbsenceReason.POLICY_BLOCKED, told, "leave read-only mode")


def by_interaction(traits: Traits, situation: Situation) -> Absence | None:
    """Leave out what needs a person while nobody is there."""
    in_background = situation.role is not None and situation.role.is_background
    if not traits.needs_person or (situation.is_interactive and not in_background):
        return None
    return _blocked(AbsenceReason.POLICY_BLOCKED, "it needs a person, and nobody is there", "run interactively")


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
"""In this order; the first reason found is the one that is told."""

NOT_ASKED_FOR = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="it is not among the tools this surface was asked for",
    change="ask for it",
    is_excluded=True,
)

NOT_HANDED_ON = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="whoever started this sub-agent did not hand it on",
    change="let the agent above load it before it starts a sub-agent",
    is_excluded=True,
)

NOTHING_TO_FIND = Absence(
    reason=AbsenceReason.FEATURE_DISABLED,
    message="it finds deferred tools, and none is deferred here",
    change="defer a tool",
    is_excluded=True,
)


NOT_FOR_ROLE = Absence(
    reason=AbsenceReason.ROLE_NOT_ALLOWED,
    message="the role that this surface is for may not use it",
    change="let somebody in another role use it",
    is_excluded=True,
)
"""As a surface tells it, which names its role once: so surfaces for any role share what is told of each tool."""


def not_for(role: Role) -> Absence:
    """Say that a tool is not for a role."""
    return replace(NOT_FOR_ROLE, message=f"the role {role.name} may not use it")


def denied_by(rules: tuple[str, ...]) -> Absence:
    """Say that rules deny a tool, whatever its arguments."""
    told = f"the rule {', '.join(rules)} denies it" if rules else "no rule and no mode lets it run"
    return Absence(
        reason=AbsenceReason.POLICY_BLOCKED, message=told, change="change the rule", policy_refs=rules or None
    )


def withdrawal(traits: Traits) -> Absence | None:
    """Say why such tools are there in no situation: their authors took them back; none if they did not."""
    anywhere = Situation()
    return by_lifecycle(traits, anywhere) or by_switch(traits, anywhere)


def first_absence(traits: Traits, situation: Situation) -> Absence | None:
    """Give the first reason why such tools are not there; none if they are."""
    return next((found for each in FILTERS if (found := each(traits, situation))), None)


def _excluded(reason: AbsenceReason, message: str, change: str | None) -> Absence:
    return Absence(reason=reason, message=message, change=change, is_excluded=True)


def _blocked(reason: AbsenceReason, message: str, change: str | None) -> Absence:
    return Absence(reason=reason, message=message, change=change)
