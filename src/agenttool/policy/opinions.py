"""What hooks, classifiers and outside policy engines said about a call, as inputs of its decision."""

from dataclasses import dataclass

from agenttool.records import Behavior, ClassifierAuthority, ClassifierCheck, ClosedEnum, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class HookHint:
    """What a hook thinks of a call; only a hint, unless the policy layer made its allow binding (AT-HOOK-14).

    Attributes:
        hook: the hook's name, which a rule with `hook` would use.
        hook_ref: the record of this run of it.
    """

    hook: str
    hook_ref: str
    behavior: Behavior
    message: str | None = None


class OpinionKind(ClosedEnum):
    """Who has an opinion."""

    CLASSIFIER = "classifier"
    """Judges by likeness; its silence is no refusal unless it was made to refuse."""
    ENGINE = "engine"
    """Evaluates policy; its silence, or a policy that does not parse, is a refusal."""


class OpinionStatus(ClosedEnum):
    """Whether an opinion is there."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


_UNDERSTOOD = frozenset(Behavior)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """A recorded answer from outside (AT-PERM-24).

    Attributes:
        ref: who answered.
        authority: what the answer is worth: `recommend` changes nothing, `deny` can only refuse, `approve` can also
            allow, as a rule would. None of them beats a rule's deny or ask.
        behavior: the answer; nothing if there is none, or none that could be understood.
        policy_refs: the policies that an engine applied.
    """

    ref: str
    kind: OpinionKind
    authority: ClassifierAuthority
    status: OpinionStatus = OpinionStatus.COMPLETED
    behavior: Behavior | None = None
    confidence: float | None = None
    reason: str | None = None
    policy_refs: tuple[str, ...] = ()

    @property
    def effect(self) -> Behavior:
        """What the answer does by itself; `passthrough` is nothing."""
        if self.authority == ClassifierAuthority.RECOMMEND:
            return Behavior.PASSTHROUGH
        if self.status == OpinionStatus.PENDING:
            return Behavior.ASK
        if self.behavior not in _UNDERSTOOD or self.status == OpinionStatus.FAILED:
            may_only_approve = self.kind == OpinionKind.CLASSIFIER and self.authority == ClassifierAuthority.APPROVE
            return Behavior.PASSTHROUGH if may_only_approve else Behavior.DENY
        if self.behavior == Behavior.ALLOW and self.authority != ClassifierAuthority.APPROVE:
            return Behavior.PASSTHROUGH
        return Behavior(self.behavior)

    @property
    def check(self) -> ClassifierCheck:
        """The five facts that a decision keeps of it."""
        return ClassifierCheck(
            classifier_ref=self.ref,
            status=self.status,
            confidence=self.confidence,
            classifier_reason=self.reason,
            authority=self.authority,
        )


def hooks_say(hints: tuple[HookHint, ...]) -> HookHint | None:
    """Give the hint that counts among several: deny, then ask, then passthrough, then allow (G-25)."""
    order = (Behavior.DENY, Behavior.ASK, Behavior.PASSTHROUGH, Behavior.ALLOW)
    return min(hints, key=lambda hint: (order.index(hint.behavior), hint.hook_ref), default=None)


def told(hints: tuple[HookHint, ...], opinions: tuple[Opinion, ...]) -> JsonObject:
    """List everything that was heard, whether it counted or not, for the record of the decision."""
    found: JsonObject = {}
    if hints:
        found["hooks"] = [{"hook_ref": hint.hook_ref, "behavior": hint.behavior} for hint in hints]
    if opinions:
        found["opinions"] = [
            {
                "ref": each.ref,
                "kind": each.kind,
                "authority": each.authority,
                "status": each.status,
                "behavior": each.behavior,
            }
            for each in opinions
        ]
    return found
