"""Votes and verdicts about a call, and the records of a verdict."""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from agenttool.codec import Lazy
from agenttool.policy.rules import AUTHORITY, Rule
from agenttool.records import (
    Behavior,
    ClassifierCheck,
    DecisionId,
    Digest,
    ErrorClass,
    InvocationId,
    Part,
    PermissionDecision,
    Reason,
    ReasonType,
    RuleSource,
    SuggestedUpdate,
    Timestamp,
    ToolError,
    ToolKind,
    replace,
)


class Weight(IntEnum):
    """The strength of a vote: the lowest value decides the call."""

    DENY = 0
    """A deny of a rule, the mode, a hook, a classifier or an engine."""
    ASK = 1
    """An ask of a rule, a hook or an external vote, a deny rule that cannot be ruled out, or a question to a user."""
    ALLOW = 2
    """An allow of a rule, or of an external vote with the authority to approve."""
    ASK_FOR_APPROVAL = 3
    """The tool requires an approval for each call."""
    ALLOW_EDIT = 4
    """The mode accepts changes to files of the workspace."""
    ASK_ABOUT_HARM = 5
    """The call may be destructive, or its tool does not declare otherwise (G-14)."""
    ALLOW_HINT = 6
    """A hook allows it, or its own records say in every respect that it is harmless."""
    ASK_ANYONE = 7
    """No other vote; an approver decides."""

    @property
    def behavior(self) -> Behavior:
        """The behavior of the vote."""
        return Behavior.DENY if self is Weight.DENY else Behavior.ALLOW if "ALLOW" in self.name else Behavior.ASK


_STRICTNESS = (Behavior.DENY, Behavior.ASK, Behavior.ALLOW)


class Vote(NamedTuple):
    """One vote about a call, and its source.

    Attributes:
        authority: the order in which votes of one weight are named; never changes the decision.
    """

    weight: Weight
    authority: tuple[int, str]
    source: str
    reason: Reason
    rules: tuple[Rule, ...] = ()
    policy_refs: tuple[str, ...] = ()
    blocked_path: str | None = None
    check: ClassifierCheck | None = None


BELOW_RULES = len(AUTHORITY) + 1
"""The authority of votes that come from no rule; rules are named before them."""


class Verdict(Part, frozen=True, kw_only=True):
    """The outcome of one decision, with everything that its record holds."""

    behavior: Behavior
    weight: Weight
    mode: str
    source: str
    reason: Reason
    rule_refs: tuple[str, ...] = ()
    policy_refs: tuple[str, ...] = ()
    blocked_path: str | None = None
    pending_classifier_check: ClassifierCheck | None = None
    expires_at: Timestamp | None = None

    @property
    def error_class(self) -> ErrorClass | None:
        """The error class of a deny: `policy_blocked` from the policy layer, else `permission_denied` (G-72)."""
        if self.behavior != Behavior.DENY:
            return None
        by_policy = self.reason.type == ReasonType.POLICY or self.reason.rule_source == RuleSource.POLICY_SETTINGS
        return ErrorClass.POLICY_BLOCKED if by_policy else ErrorClass.PERMISSION_DENIED

    def is_stricter_than(self, other: "Verdict") -> bool:
        """Return whether this allows less than another verdict."""
        return _STRICTNESS.index(self.behavior) < _STRICTNESS.index(other.behavior)


SuggestedUpdates: TypeAlias = Lazy[tuple[SuggestedUpdate, ...]]
"""Changes that would allow a call; they are computed when they are first read."""
NO_UPDATES = SuggestedUpdates(tuple)


def decision_record(
    verdict: Verdict,
    *,
    decision_id: DecisionId,
    invocation_id: InvocationId,
    decided_at: Timestamp,
    input_digest: Digest | None = None,
    suggestions: SuggestedUpdates = NO_UPDATES,
) -> PermissionDecision:
    """Return the decision record of a verdict."""
    return PermissionDecision(
        decision_id=decision_id,
        invocation_id=invocation_id,
        behavior=verdict.behavior,
        mode=verdict.mode,
        source=verdict.source,
        reason=verdict.reason,
        rule_refs=verdict.rule_refs or None,
        policy_refs=verdict.policy_refs or None,
        suggested_updates=suggestions.value or None,
        pending_classifier_check=verdict.pending_classifier_check,
        blocked_path=verdict.blocked_path,
        input_digest=input_digest,
        decided_at=decided_at,
        expires_at=verdict.expires_at,
    )


REMEDIES = "remedies"
"""The detail of a decision that has the text of `remedy_lines`."""


class Remedy(NamedTuple):
    """A change that helps after a denial for want of an approver.

    Attributes:
        weight: the strongest vote that it changes.
        text: the lines to write; `%s` is the name of the tool.
    """

    weight: Weight
    text: str
    reason: str


_DECLARE = "@tool(read_only=True)"
_DECLARED_ELSEWHERE = (ToolKind.MCP_TOOL, ToolKind.OPENAPI_OPERATION)
"""The kinds of tools that no decorator of this program declares."""

DECLARE_HARMLESS = Remedy(Weight.ASK_ABOUT_HARM, _DECLARE, "declare that it changes nothing")
ALLOW_IN_PROGRAM = Remedy(
    Weight.ASK_FOR_APPROVAL,
    'rules=[{"behavior": "allow", "tool": "%s"}]',
    "allow it in `Runtime.open`, or by [[rules]] in agenttool.toml",
)
ASK_IN_PROGRAM = Remedy(Weight.ASK, "approve=ask", 'a function that answers, or "wait", in `Runtime.open`')

IN_PROGRAM = (DECLARE_HARMLESS, ALLOW_IN_PROGRAM, ASK_IN_PROGRAM)
"""The changes to a program without a settings file."""


def in_settings(file: str, *, is_switched_off: bool | None) -> tuple[Remedy, ...]:
    """Return the changes to a settings file.

    Args:
        file: the name of the file.
        is_switched_off: whether the file says that no approver can be asked; none if the program decides about that.
    """
    allow = Remedy(Weight.ASK_FOR_APPROVAL, '[[rules]]\nbehavior = "allow"\ntool = "%s"', f"in {file}: allow it")
    if is_switched_off is None:
        return DECLARE_HARMLESS, allow, ASK_IN_PROGRAM
    table = "[permissions]\ninteractive = true" if is_switched_off else '[store]\nurl = "sqlite:agenttool.db"'
    return DECLARE_HARMLESS, allow, Remedy(Weight.ASK, table, f"in {file}: the call waits for `agenttool approvals`")


def with_note(verdict: Verdict, note: str) -> Verdict:
    """Return a verdict whose reason also contains a note."""
    return replace(verdict, reason=replace(verdict.reason, message=f"{verdict.reason.message}; {note}"))


def remedy_lines(weight: Weight, tool_name: str, kind: ToolKind | None, remedies: tuple[Remedy, ...]) -> str:
    """Return what the developer can write so that calls to a tool need no approver, or have one."""
    left_out = _DECLARE if kind in _DECLARED_ELSEWHERE else None
    lines: list[str] = []
    for each in remedies:
        if weight >= each.weight and each.text != left_out:
            first, *others = each.text.replace("%s", tool_name).split("\n")
            lines += [f"{first:<52}  # {each.reason}", *others]
    return "\n".join(lines)


def refusal(verdict: Verdict) -> ToolError:
    """Return the error that a denied call ends with (AT-ERR-14).

    The model reads it, so it has no remedy that the model could apply itself: that is in the decision, for developers.
    """
    return ToolError(
        error_class=verdict.error_class or ErrorClass.PERMISSION_DENIED,
        error_code=verdict.reason.rule_ref,
        message=verdict.reason.message,
        policy_refs=verdict.policy_refs or None,
    )
