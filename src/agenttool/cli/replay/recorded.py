"""A call as the journal knows it at the moment when it was judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from agenttool.journal.fold import invocation_of, records_of
from agenttool.policy.subject import EffectFacts
from agenttool.policy.votes import ExternalVote, ExternalVoteKind, ExternalVoteStatus, HookVote
from agenttool.ports.facts import Fact
from agenttool.records import (
    Behavior,
    ClassifierAuthority,
    Json,
    PermissionDecision,
    ToolHook,
    ToolInvocation,
    UnsetType,
)

_NOBODY = "nobody can be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A call that came before the rules.

    Attributes:
        decision: what the rules said then; an answer to their question is not meant.
        answer: the answer, if they asked and somebody gave one.
        arguments: what was judged; sensitive values are redacted.
    """

    invocation: ToolInvocation
    decision: PermissionDecision
    answer: PermissionDecision | None
    arguments: Json
    hints: tuple[HookVote, ...]
    opinions: tuple[ExternalVote, ...]

    @property
    def facts(self) -> EffectFacts | None:
        """What the call does, where that was recorded."""
        told = self.invocation.scheduler
        if told is None or None in (told.is_read_only, told.is_destructive, told.is_open_world):
            return None
        return EffectFacts(
            is_read_only=bool(told.is_read_only),
            is_destructive=told.is_destructive is not False,
            is_open_world=told.is_open_world is not False,
        )

    @property
    def interactive(self) -> bool:
        """Whether anybody could be asked then."""
        reason = self.decision.reason
        return reason is None or not (reason.message or "").startswith(_NOBODY)

    @property
    def rests_on_the_tool(self) -> bool:
        """Whether no rule, no hook and no opinion decided then, but what the tool says of itself, and the mode."""
        return self.decision.source in ("mode", "permission_profile", "default") and not self.decision.rule_refs


def judged_call(facts: Sequence[Fact]) -> Judged | None:
    """Fold the facts of a call; none if it never came before the rules, or what they judged was not kept."""
    invocation = invocation_of(facts)
    records = tuple(records_of(facts))
    decisions = [each for each in records if isinstance(each, PermissionDecision)]
    by_rules = [each for each in decisions if each.answers is None]
    if invocation is None or not by_rules or isinstance(invocation.permission_input, UnsetType):
        return None
    return Judged(
        invocation=invocation,
        decision=by_rules[-1],
        answer=next((each for each in decisions if each.answers == by_rules[-1].decision_id), None),
        arguments=invocation.permission_input,
        hints=tuple(hint for each in records if isinstance(each, ToolHook) for hint in _hints(each)),
        opinions=tuple(_opinions(by_rules[-1])),
    )


def _hints(hook: ToolHook) -> Iterator[HookVote]:
    said = (hook.permission_result or {}).get("behavior")
    if said in list(Behavior):
        yield HookVote(hook=hook.name or "", hook_ref=hook.hook_id, behavior=Behavior(cast("str", said)))


def _opinions(decision: PermissionDecision) -> Iterator[ExternalVote]:
    """Read back what classifiers and engines said; one that cannot be read back is left out."""
    told = ((decision.reason and decision.reason.details) or {}).get("opinions")
    for each in told if isinstance(told, list) else ():
        if not isinstance(each, dict):
            continue
        try:
            behavior = each.get("behavior")
            yield ExternalVote(
                ref=str(each["ref"]),
                kind=ExternalVoteKind(str(each["kind"])),
                authority=ClassifierAuthority(str(each["authority"])),
                status=ExternalVoteStatus(str(each["status"])),
                behavior=None if behavior is None else Behavior(str(behavior)),
            )
        except (KeyError, ValueError):
            continue
