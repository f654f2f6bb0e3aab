"""The reasons why a surface leaves a tool out."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from agenttool.catalog.entry import Traits
from agenttool.ports.surfacing import Circumstances, ModelCapabilities, Role
from agenttool.records import AbsenceReason, Lifecycle, SchemaVisibility, ToolId, ToolKind


class Situation(NamedTuple):
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
    circumstances: Circumstances = Circumstances()
    model: ModelCapabilities | None = None
    role: Role | None = None
    only: frozenset[str] | None = None
    bounds: frozenset[ToolId] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the caller may not see every tool."""
        return self.only is not None or self.bounds is not None or self.role is not None


class Absence(NamedTuple):
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


_BY_LIFECYCLE = {
    Lifecycle.DRAFT: ("it is still a draft", "make it available"),
    Lifecycle.DISABLED: ("it is disabled", "enable it"),
    Lifecycle.RETIRED: ("it is retired", None),
}
_COMMANDS = frozenset({ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION})


def first_absence(traits: Traits, situation: Situation) -> Absence | None:
    """Return the first reason why tools with these traits are absent; None if they are present."""
    return withdrawal(traits) or next(chain(_exclusions(traits, situation), _obstacles(traits, situation)), None)


def withdrawal(traits: Traits) -> Absence | None:
    """Return why tools with these traits are on no surface in any situation; None if they may be."""
    found = _BY_LIFECYCLE.get(traits.lifecycle)
    if found is None and not traits.is_enabled:
        found = "its interface is not enabled", "enable it"
    return found and _excluded(AbsenceReason.FEATURE_DISABLED, *found)


def _exclusions(traits: Traits, situation: Situation) -> Iterator[Absence]:
    owner, now = traits.owner, situation.circumstances
    if traits.visibility == SchemaVisibility.INTERNAL:  # AT-IFACE-04
        yield _excluded(AbsenceReason.ROLE_NOT_ALLOWED, "it is internal; models do not see it", None)
    if shut := ", ".join(sorted(traits.gates - now.gates)):
        yield _excluded(AbsenceReason.FEATURE_DISABLED, f"the feature gate {shut} is closed", f"open the gate {shut}")
    if situation.is_child and traits.kind == ToolKind.PEER_AGENT_TOOL:
        yield _excluded(
            AbsenceReason.RECURSIVE_TOOL_FORBIDDEN,
            "it starts an agent, and a sub-agent may not start another",
            "let the agent above call it",
        )
    supported = traits.needs if situation.model is None else situation.model.words()
    if lacking := ", ".join(sorted(traits.needs - supported)):
        yield _excluded(
            AbsenceReason.MODEL_UNSUPPORTED,
            f"it needs {lacking}, which the model does not support",
            f"use a model that supports {lacking}",
        )
    if traits.kind == ToolKind.SKILL_TOOL and now.skills is not None and owner not in now.skills:
        yield _excluded(
            AbsenceReason.FEATURE_DISABLED, f"its skill {owner} is not active", f"activate the skill {owner}"
        )
    if traits.kind == ToolKind.PEER_AGENT_TOOL and now.peers is not None and owner not in now.peers:
        yield _excluded(
            AbsenceReason.SETUP_REQUIRED, f"the peer agent {owner} cannot be reached", f"connect to {owner}"
        )
    if traits.kind == ToolKind.BROWSER_ACTION and now.has_browser is False:
        yield _excluded(AbsenceReason.SETUP_REQUIRED, "no browser session exists", "open a browser session")
    if traits.kind in _COMMANDS and now.allows_shell is False:
        yield _excluded(
            AbsenceReason.POLICY_BLOCKED,
            "the sandbox or the platform forbids commands and code",
            "run it where commands are allowed",
        )


def _obstacles(traits: Traits, situation: Situation) -> Iterator[Absence]:
    if traits.needs_setup or traits.lifecycle is Lifecycle.REQUIRES_SETUP:
        message, _, change = (traits.setup or "it is not set up; finish its setup").partition("; ")
        yield Absence(AbsenceReason.SETUP_REQUIRED, message, change)
    if absent := sorted(traits.credentials - situation.circumstances.credentials):
        missing, faults = ", ".join(absent), situation.circumstances.credential_faults
        cause, _, remedy = next((faults[name] for name in absent if name in faults), "").partition("; ")
        message = f"it needs the credential {missing}, which is missing{cause and f': {cause}'}"
        change = remedy or f"provide the credential {missing} in [credentials]"
        yield Absence(AbsenceReason.CREDENTIAL_MISSING, message, change)
    if not situation.allows_writes and not traits.only_reads:
        yield Absence(AbsenceReason.POLICY_BLOCKED, "it may write, and only reading is allowed", "leave read-only mode")
    in_background = situation.role is not None and situation.role.is_background
    if traits.needs_person and (in_background or not situation.is_interactive):
        yield Absence(AbsenceReason.POLICY_BLOCKED, "it needs a user, and no user is present", "run interactively")


def _excluded(reason: AbsenceReason, message: str, change: str | None) -> Absence:
    return Absence(reason, message, change, is_excluded=True)


NOT_REQUESTED = _excluded(
    AbsenceReason.ROLE_NOT_ALLOWED, "it is not among the tools requested for this surface", "ask for it"
)
NOT_PASSED_ON = _excluded(
    AbsenceReason.ROLE_NOT_ALLOWED,
    "the agent that started this sub-agent did not pass it on",
    "let the agent above load it before it starts a sub-agent",
)
NOTHING_DEFERRED = _excluded(
    AbsenceReason.FEATURE_DISABLED, "it finds deferred tools, and no tool is deferred here", "defer a tool"
)
NOT_FOR_ROLE = _excluded(
    AbsenceReason.ROLE_NOT_ALLOWED, "the role that this surface is for may not use it", "use another role"
)
"""Recorded by surfaces, which name their role elsewhere, so that all roles share one record per tool."""


def not_for(role: Role) -> Absence:
    """Return the reason that a role may not use a tool."""
    return NOT_FOR_ROLE._replace(message=f"the role {role.name} may not use it")


def denied_by(rules: tuple[str, ...]) -> Absence:
    """Return the reason that rules deny a tool whatever its arguments."""
    return Absence(
        AbsenceReason.POLICY_BLOCKED,
        f"the rule {', '.join(rules)} denies it" if rules else "no rule and no mode allows it",
        "change the rule",
        policy_refs=rules or None,
    )
