"""What was decided about a call, and the record of it."""

from dataclasses import dataclass
from enum import IntEnum

from agenttool.policy.rules import AUTHORITY, Rule
from agenttool.records import (
    Behavior,
    ClassifierCheck,
    DecisionId,
    Digest,
    ErrorClass,
    InvocationId,
    PermissionDecision,
    Reason,
    ReasonType,
    Recoverability,
    RetryGuidance,
    RuleSource,
    SuggestedUpdate,
    Timestamp,
    ToolError,
)


class Weight(IntEnum):
    """Whose word counts: the first of these that anybody speaks decides the call."""

    DENY = 0
    """Anybody's refusal: a rule, the mode, a hook, a classifier or an engine that may refuse."""
    ASK = 1
    """A rule, a hook or an outside opinion wants a person to look."""
    ALLOW = 2
    """A rule covers the call, or somebody with the authority to approve did."""
    ASK_FOR_APPROVAL = 3
    """The tool itself wants an approval for each call."""
    ALLOW_EDIT = 4
    """The mode accepts changes to files of the workspace."""
    ASK_ABOUT_HARM = 5
    """The call may destroy something, or nobody said that it does not (G-14)."""
    ALLOW_HINT = 6
    """A hook allows it, or its own records say in every respect that it is harmless."""
    ASK_ANYONE = 7
    """Nobody had an opinion, so a person must have one."""

    @property
    def behavior(self) -> Behavior:
        """What the word says."""
        return _BEHAVIOR[self]


_BEHAVIOR = {
    weight: Behavior.DENY if weight is Weight.DENY else Behavior.ALLOW if "ALLOW" in weight.name else Behavior.ASK
    for weight in Weight
}

_STRICTNESS = (Behavior.DENY, Behavior.ASK, Behavior.ALLOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One word about a call, and who said it.

    Attributes:
        authority: who is named first among several of one weight; never changes what is decided.
        rules: the rules that speak here.
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
"""The authority of what is no rule, so that a rule is named before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one decision, with all that its record tells."""

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
        """The class of the failure that a deny is: the policy layer blocks, everyone else denies (G-72)."""
        if self.behavior != Behavior.DENY:
            return None
        by_policy = self.reason.type == ReasonType.POLICY or self.reason.rule_source == RuleSource.POLICY_SETTINGS
        return ErrorClass.POLICY_BLOCKED if by_policy else ErrorClass.PERMISSION_DENIED

    def is_stricter_than(self, other: "Verdict") -> bool:
        """Tell whether this lets less through than another."""
        return _STRICTNESS.index(self.behavior) < _STRICTNESS.index(other.behavior)


def decision_record(
    verdict: Verdict,
    *,
    decision_id: DecisionId,
    invocation_id: InvocationId,
    decided_at: Timestamp,
    input_digest: Digest | None = None,
    suggested_updates: tuple[SuggestedUpdate, ...] = (),
) -> PermissionDecision:
    """Write a verdict down as the decision about one call."""
    return PermissionDecision(
        decision_id=decision_id,
        invocation_id=invocation_id,
        behavior=verdict.behavior,
        mode=verdict.mode,
        source=verdict.source,
        reason=verdict.reason,
        rule_refs=verdict.rule_refs or None,
        policy_refs=verdict.policy_refs or None,
        suggested_updates=suggested_updates or None,
        pending_classifier_check=verdict.pending_classifier_check,
        blocked_path=verdict.blocked_path,
        input_digest=input_digest,
        decided_at=decided_at,
        expires_at=verdict.expires_at,
    )


def refusal(verdict: Verdict) -> ToolError:
    """Give the error that a denied call ends with (AT-ERR-14)."""
    return ToolError(
        error_class=verdict.error_class or ErrorClass.PERMISSION_DENIED,
        error_code=verdict.reason.rule_ref,
        message=verdict.reason.message,
        recoverability=Recoverability.CHANGE_ARGUMENTS_OR_POLICY,
        retry_after=None,
        retry=RetryGuidance(safe=True, arguments_must_change=True, discovery_required=False, approval_required=False),
        policy_refs=verdict.policy_refs or None,
    )
