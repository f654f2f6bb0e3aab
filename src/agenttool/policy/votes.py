"""Collect the votes about a call: rules, the permission mode, hooks, classifiers and the tool's own records."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agenttool.policy.fields import MatchingField
from agenttool.policy.matching import (
    RuleMatch,
    covering_rules,
    covers,
    covers_around,
    find_match,
    why_not_covered,
)
from agenttool.policy.paths import WORKSPACE, all_covered
from agenttool.policy.rules import Rule
from agenttool.policy.subject import EffectFacts, Subject
from agenttool.policy.targets import CallTargets
from agenttool.policy.verdict import BELOW_RULES, Vote, Weight
from agenttool.records import (
    AccessKind,
    Behavior,
    ClassifierAuthority,
    ClassifierCheck,
    ClosedEnum,
    JsonObject,
    OpenEnum,
    Reason,
    ReasonType,
    RiskLevel,
    RuleSource,
    ToolKind,
    WriteEffect,
)


class PermissionMode(OpenEnum):
    """Which calls run without a question. Whether an approver is available is a separate flag.

    In every mode rules, hooks and external votes count, and a call without any vote is asked about. An unlisted mode
    denies every call.
    """

    DEFAULT = "default"
    """Only calls that are declared harmless run unasked, and only inside the workspace.

    A function of this process is harmless if its owner declares it read-only, and not that it reaches an open world.
    A tool of any other kind must also be declared closed.
    """
    ACCEPT_EDITS = "accept_edits"
    """As the default; tools that only change files of the workspace run unasked too."""
    READ_ONLY = "read_only"
    """As the default; every tool that is not declared read-only is denied, whatever the rules allow."""


_OWN_READS = frozenset({AccessKind.FILE_READ, AccessKind.NETWORK})
_EDITS = frozenset({AccessKind.FILE_READ, AccessKind.FILE_WRITE})
_RUNS_COMMANDS = frozenset({ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION})
_LOCAL = frozenset({WriteEffect.NONE, WriteEffect.LOCAL_DRAFT, WriteEffect.LOCAL_PERSISTENT})


def mode_denies(mode: PermissionMode, facts: EffectFacts) -> str | None:
    """Return why a mode denies a call; None if it does not."""
    if not mode.is_listed:
        known = ", ".join(PermissionMode)
        return f"the permission mode {str(mode)!r} is not known, so nothing runs in it; use one of {known}"
    if mode == PermissionMode.READ_ONLY and (facts.is_destructive or not facts.is_read_only):
        return "the mode is read_only and the tool is not declared to be read-only; change the mode to run it"
    return None


def looks_at_paths(mode: PermissionMode, subject: Subject, facts: EffectFacts) -> bool:
    """Return whether the vote of a mode depends on the arguments of a call."""
    may_touch_files = _touches_files(subject) or subject.fields.is_open
    return (_is_harmless(subject, facts) or _is_edit(mode, subject, facts)) and may_touch_files


def mode_allows(mode: PermissionMode, subject: Subject, facts: EffectFacts, call: CallTargets | None) -> Vote | None:
    """Return the allow of a mode for a call, or an ask with the path that prevents it."""
    if _is_edit(mode, subject, facts):
        weight, why = Weight.ALLOW_EDIT, f"the mode {str(mode)!r} accepts changes to files of the workspace"
    elif _is_harmless(subject, facts):
        weight, why = Weight.ALLOW_HINT, "its owner declares the tool to be harmless: read-only, low risk, no approval"
    else:
        return None
    if _touches_files(subject) or (call is not None and call.paths):
        outside = _outside(subject, call)
        if outside is not None:
            path = None if subject.hides_fields else outside
            return _own_vote(
                Weight.ASK_ANYONE,
                "mode",
                ReasonType.WORKING_DIR,
                f"{'a path that is sensitive' if path is None else repr(path)} is not surely inside the workspace",
            )._replace(blocked_path=path)
    return _own_vote(weight, "mode", ReasonType.MODE, why)


def _outside(subject: Subject, call: CallTargets | None) -> str | None:
    """Return the first path that is not surely inside the workspace, or a text if no argument shows the paths."""
    is_shown = call is not None and (call.paths or MatchingField.PATH in subject.fields.places)
    if call is None or not is_shown or not call.is_sure_of(MatchingField.PATH):
        return "a path that no argument shows"
    return next((place.text for place in call.paths if not all_covered((WORKSPACE,), place, call.workspace)), None)


def _is_harmless(subject: Subject, facts: EffectFacts) -> bool:
    profile = subject.profile
    return (
        profile is not None
        and profile.approval_required is False
        and profile.risk_level == RiskLevel.LOW
        and facts.is_read_only
        and not facts.is_destructive
        and (subject.is_own_code or not facts.is_open_world)
        and all(WriteEffect(effect).is_harmless for effect in profile.write_effects or ())
        and _access(subject) <= (_OWN_READS if subject.is_own_code else {AccessKind.FILE_READ})
        and not _runs_commands(subject)
    )


def _is_edit(mode: PermissionMode, subject: Subject, facts: EffectFacts) -> bool:
    effects = frozenset((subject.profile and subject.profile.write_effects) or ())
    return (
        mode == PermissionMode.ACCEPT_EDITS
        and AccessKind.FILE_WRITE in _access(subject)
        and _access(subject) <= _EDITS
        and bool(effects)
        and effects <= _LOCAL
        and not facts.is_open_world
        and not _runs_commands(subject)
    )


def _runs_commands(subject: Subject) -> bool:
    """Return whether a tool declares that it runs commands; the name of an argument alone does not."""
    return MatchingField.COMMAND in subject.fields.declared or subject.declaration.tool_kind in _RUNS_COMMANDS


def _touches_files(subject: Subject) -> bool:
    return subject.fields.takes(MatchingField.PATH) or bool(_EDITS & _access(subject))


def _access(subject: Subject) -> frozenset[str]:
    return frozenset((subject.profile and subject.profile.access_kinds) or ())


class HookVote(NamedTuple):
    """The vote of a hook; its allow is weak unless a policy rule makes it binding (AT-HOOK-14).

    Attributes:
        hook: the hook's name, as a rule with `hook` refers to it.
        hook_ref: the record of this run of it.
    """

    hook: str
    hook_ref: str
    behavior: Behavior
    message: str | None = None


class ExternalVoteKind(ClosedEnum):
    """The source of an external vote."""

    CLASSIFIER = "classifier"
    """Estimates a call; it denies if it fails. It may abstain, which is no vote."""
    ENGINE = "engine"
    """Evaluates policy; it denies if it fails, and also if it abstains."""


class ExternalVoteStatus(ClosedEnum):
    """The state of an external vote."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


_UNDERSTOOD = frozenset(Behavior)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalVote:
    """The recorded answer of a classifier or an engine (AT-PERM-24).

    Attributes:
        ref: who answered.
        authority: what the answer is worth: `recommend` changes nothing, `deny` can only refuse, `approve` can also
            allow, as a rule would. None of them beats a rule's deny or ask.
        behavior: the answer; nothing if there is none, or none that could be understood.
        policy_refs: the policies that an engine applied.
    """

    ref: str
    kind: ExternalVoteKind
    authority: ClassifierAuthority
    status: ExternalVoteStatus = ExternalVoteStatus.COMPLETED
    behavior: Behavior | None = None
    confidence: float | None = None
    reason: str | None = None
    policy_refs: tuple[str, ...] = ()

    @property
    def effect(self) -> Behavior:
        """The behavior that the answer votes for; `passthrough` is no vote."""
        if self.authority == ClassifierAuthority.RECOMMEND:
            return Behavior.PASSTHROUGH
        if self.status == ExternalVoteStatus.PENDING:
            return Behavior.ASK
        if self.has_failed or (self.behavior is None and self.kind == ExternalVoteKind.ENGINE):
            return Behavior.DENY
        if self.behavior is None or (self.behavior == Behavior.ALLOW and self.authority != ClassifierAuthority.APPROVE):
            return Behavior.PASSTHROUGH
        return Behavior(self.behavior)

    @property
    def has_failed(self) -> bool:
        """Whether there is no answer, or none that can be understood; an abstention is an answer."""
        return self.status == ExternalVoteStatus.FAILED or self.behavior not in (None, *_UNDERSTOOD)

    @property
    def message(self) -> str:
        """What it says about the call, for the decision."""
        who = f"{self.kind} {self.ref!r}"
        if self.status == ExternalVoteStatus.PENDING:
            return f"{who} has not answered yet; wait for it, or decide yourself"
        if self.has_failed:
            return f"{who} failed to answer, so the call is denied; repair it, or give it the authority to recommend"
        if self.behavior is None:
            return f"{who} has no policy for this call, so the call is denied; add one"
        return self.reason or f"{who} {_VERBS.get(self.behavior, self.behavior)} this call"

    @property
    def check(self) -> ClassifierCheck:
        """The record of it in a decision."""
        return ClassifierCheck(
            classifier_ref=self.ref,
            status=self.status,
            confidence=self.confidence,
            classifier_reason=self.reason,
            authority=self.authority,
        )


def strongest_hook_vote(hook_votes: tuple[HookVote, ...]) -> HookVote | None:
    """Return the hook vote that counts: deny, then ask, then passthrough, then allow (G-25)."""
    order = (Behavior.DENY, Behavior.ASK, Behavior.PASSTHROUGH, Behavior.ALLOW)
    return min(hook_votes, key=lambda vote: (order.index(vote.behavior), vote.hook_ref), default=None)


def vote_details(hook_votes: tuple[HookVote, ...], external_votes: tuple[ExternalVote, ...]) -> JsonObject:
    """Return all hook and external votes for the record of the decision."""
    found: JsonObject = {}
    if hook_votes:
        found["hooks"] = [{"hook_ref": vote.hook_ref, "behavior": vote.behavior} for vote in hook_votes]
    if external_votes:
        names = ("ref", "kind", "authority", "status", "behavior")
        found["opinions"] = [{name: getattr(each, name) for name in names} for each in external_votes]
    return found


_WEIGHTS = {Behavior.DENY: Weight.DENY, Behavior.ASK: Weight.ASK, Behavior.ALLOW: Weight.ALLOW}
_VERBS = {Behavior.DENY: "denies", Behavior.ASK: "asks about", Behavior.ALLOW: "allows"}


class DecisionInput(NamedTuple):
    """The inputs of one decision.

    Attributes:
        call: the call; None to decide about the tool alone.
        rules: the rules that apply to the tool and are in force.
        notes: the rules that name the tool and cannot apply, for the record (AT-PERM-09).
    """

    subject: Subject
    call: CallTargets | None
    facts: EffectFacts
    mode: PermissionMode
    interactive: bool
    rules: tuple[Rule, ...]
    notes: JsonObject
    hook_votes: tuple[HookVote, ...] = ()
    external_votes: tuple[ExternalVote, ...] = ()


def collect_votes(inputs: DecisionInput) -> tuple[list[Vote], list[Rule]]:
    """Collect the votes, and the rules that were overridden."""
    votes, overridden = _apply_binding_hooks(inputs, *_drop_settled_asks(_rule_votes(inputs)))
    votes += [_external_vote(vote) for vote in inputs.external_votes if vote.effect in _WEIGHTS]
    vote = strongest_hook_vote(inputs.hook_votes)
    if vote is not None and vote.behavior in _WEIGHTS:
        weight = Weight.ALLOW_HINT if vote.behavior == Behavior.ALLOW else _WEIGHTS[vote.behavior]
        votes.append(_hook_vote(vote, weight))
    votes += _mandatory_votes(inputs)
    if not any(vote.weight <= Weight.ALLOW for vote in votes):
        # Weaker votes are collected only where they can matter.
        votes += _tool_votes(inputs)
    return votes, overridden


def _rule_votes(inputs: DecisionInput) -> list[Vote]:
    rules = [rule for rule in inputs.rules if rule.hook is None]
    matched = [(rule, match) for rule in rules if (match := _match(rule, inputs.call)) is not None]
    found = [_rule_vote(rule, match, inputs) for rule, match in matched if not _is_answered(match, rules, inputs.call)]
    if inputs.call is not None and not any(vote.weight is Weight.ALLOW for vote in found):
        found += _combined_allow(rules, inputs.call)
    return found


def _match(rule: Rule, call: CallTargets | None) -> RuleMatch | None:
    if not rule.reads_input:
        return RuleMatch()
    if call is None:
        return None
    if rule.is_allow:
        return RuleMatch() if covers(rule, call) else None
    return find_match(rule, call)


def _is_answered(match: RuleMatch, rules: Iterable[Rule], call: CallTargets | None) -> bool:
    """Return whether opaque commands are the only reason for a match, and allow rules name all of them."""
    if not match.programs or call is None:
        return False
    allowing = [rule for rule in rules if rule.is_allow and covers_around(rule, call)]
    patterns = [pattern for rule in allowing for pattern in rule.commands]
    return all(any(pattern.names_program(each) for pattern in patterns) for each in match.programs)


def _rule_vote(rule: Rule, match: RuleMatch, inputs: DecisionInput) -> Vote:
    """Return the vote of a rule; an ask rule that does not surely match says why no rule allows the call."""
    is_sure = match.is_certain and match.is_exact
    what = match.what or "this call"
    # The reason of an ask rule is left out if the rule may not even match.
    has_reason = rule.because is not None and (rule.behavior != Behavior.ASK or match.is_certain)
    because = f": {rule.because}" if has_reason else ""
    is_unclear = rule.behavior == Behavior.DENY and not match.is_certain
    verb = "may deny" if is_unclear else _VERBS[rule.behavior]
    message = f"rule {rule.ref!r} ({rule.origin}) {verb} {what}{because}"
    if rule.behavior == Behavior.ASK and not is_sure:
        message = _why_not_allowed(inputs) or message
    return Vote(
        weight=Weight.ASK if is_unclear else _WEIGHTS[rule.behavior],
        authority=rule.authority if is_sure else (rule.authority[0], f"~{rule.ref}"),
        source=rule.source,
        reason=Reason(
            type=ReasonType.RULE,
            message=message,
            rule_ref=rule.ref,
            rule_source=rule.source,
            policy_ref=rule.ref if rule.is_policy else None,
        ),
        rules=(rule,),
        policy_refs=(rule.ref,) if rule.is_policy else (),
        blocked_path=match.path,
    )


def _why_not_allowed(inputs: DecisionInput) -> str | None:
    """Return why the rules on commands do not allow the call; None if there are none, or if they do."""
    why = None if inputs.call is None else why_not_covered(inputs.rules, inputs.call)
    return None if why is None else f"no rule allows this command: {why}"


def _combined_allow(rules: Iterable[Rule], call: CallTargets) -> Iterator[Vote]:
    """Return an allow if several rules together cover every command of a line."""
    able = [rule for rule in rules if rule.is_allow and rule.commands and covers_around(rule, call)]
    used: dict[str, Rule] = {}
    for subcommand in call.subcommands:
        found = covering_rules(able, subcommand, call)
        if not found:
            return
        used.update((rule.ref, rule) for rule in found)
    if used:
        first = min(used.values(), key=lambda rule: rule.authority)
        yield Vote(
            weight=Weight.ALLOW,
            authority=first.authority,
            source=first.source,
            reason=Reason(
                type=ReasonType.SUBCOMMAND_RESULTS,
                message=f"each command is allowed by one of the rules {', '.join(sorted(used))}",
                rule_ref=first.ref,
                rule_source=first.source,
            ),
            rules=tuple(used.values()),
        )


def _drop_settled_asks(votes: list[Vote]) -> tuple[list[Vote], list[Rule]]:
    """Drop asks that a remembered answer settled; an ask of the policy layer is never settled."""
    settled = {
        ref
        for vote in votes
        for rule in vote.rules
        if rule.is_allow and rule.source == RuleSource.SESSION
        for ref in rule.settles
    }
    return _override(votes, lambda vote, rule: vote.weight is Weight.ASK and not rule.is_policy and rule.ref in settled)


def _apply_binding_hooks(
    inputs: DecisionInput, votes: list[Vote], overridden: list[Rule]
) -> tuple[list[Vote], list[Rule]]:
    """Apply the allow of a hook against rules, if a policy rule makes the hook binding (AT-HOOK-15)."""
    allowing = {vote.hook: vote for vote in inputs.hook_votes if vote.behavior == Behavior.ALLOW}
    binding = [
        rule
        for rule in inputs.rules
        if rule.hook in allowing and rule.is_policy and _match(rule, inputs.call) is not None
    ]
    if not binding:
        return votes, overridden
    rule = min(binding, key=lambda each: each.authority)
    left, more = _override(votes, lambda _, each: not each.is_allow and not each.is_policy)
    return [*left, _hook_vote(allowing[rule.hook or ""], Weight.ALLOW, rule)], [*overridden, *more]


def _override(votes: list[Vote], is_overridden: Callable[[Vote, Rule], bool]) -> tuple[list[Vote], list[Rule]]:
    left = [vote for vote in votes if not any(is_overridden(vote, rule) for rule in vote.rules)]
    return left, [rule for vote in votes if vote not in left for rule in vote.rules]


def _hook_vote(vote: HookVote, weight: Weight, rule: Rule | None = None) -> Vote:
    said = vote.message or f"hook {vote.hook!r} said {vote.behavior}"
    return Vote(
        weight=weight,
        authority=(BELOW_RULES + 1, vote.hook_ref),
        source=f"hook:{vote.hook}",
        reason=Reason(
            type=ReasonType.HOOK,
            message=said if rule is None else f"{said}; rule {rule.ref!r} ({rule.origin}) lets this hook decide",
            hook_ref=vote.hook_ref,
            policy_ref=None if rule is None else rule.ref,
        ),
        policy_refs=() if rule is None else (rule.ref,),
    )


def _external_vote(vote: ExternalVote) -> Vote:
    is_engine = vote.kind == ExternalVoteKind.ENGINE
    return Vote(
        weight=_WEIGHTS[vote.effect],
        # An engine speaks for the policy layer, so it is named right after that layer's own rules.
        authority=(0, f"~{vote.ref}") if is_engine else (BELOW_RULES + 2, vote.ref),
        source=f"{vote.kind}:{vote.ref}",
        reason=Reason(
            type=ReasonType.POLICY if is_engine else ReasonType.CLASSIFIER,
            message=vote.message,
            policy_ref=vote.ref if is_engine else None,
        ),
        policy_refs=(vote.ref, *vote.policy_refs) if is_engine else (),
        check=vote.check,
    )


def _mandatory_votes(inputs: DecisionInput) -> Iterator[Vote]:
    """Return the votes that no rule can override.

    The approval of a tool that needs both a user and an approval is what the user does, such as an answer.
    """
    needs_user = bool(inputs.subject.interface.requires_user_interaction)
    why = mode_denies(inputs.mode, inputs.facts)
    if not inputs.interactive and needs_user:
        why = "the tool needs an interactive user, and no approver is available"
    if why is not None:
        yield _own_vote(Weight.DENY, "mode", ReasonType.MODE, why)
    if needs_user:
        yield from _required_approval(inputs, Weight.ASK)
    yield from _protection(inputs)


def _protection(inputs: DecisionInput) -> Iterator[Vote]:
    """Return the vote for a call that may read or write the runtime's own files."""
    call = inputs.call
    if call is None or not call.workspace.protected:
        return
    found = call.protected_path(is_read_only=inputs.facts.is_read_only and not inputs.facts.is_destructive)
    if found is not None:
        path = None if inputs.subject.sensitive or not found.candidates else found.text
        what = "a path of the call" if path is None else repr(path)
        message = f"{what} may reach the store, the settings or the keys of agenttool; each such call needs an approval"
        yield _own_vote(Weight.ASK, "safety", ReasonType.SAFETY_CHECK, message)._replace(blocked_path=path)
    if call.own_url is not None:
        message = (
            "a command may reach the server of agenttool, which shows the journal; each such call needs an approval"
        )
        yield _own_vote(Weight.ASK, "safety", ReasonType.SAFETY_CHECK, message)


def _required_approval(inputs: DecisionInput, weight: Weight) -> Iterator[Vote]:
    """Return the vote of a tool that requires an approval for each call."""
    profile = inputs.subject.profile
    if profile is not None and profile.approval_required:
        why = profile.approval_reason or "the tool requires an approval for each call"
        yield _own_vote(weight, "permission_profile", ReasonType.SAFETY_CHECK, why)


def _tool_votes(inputs: DecisionInput) -> Iterator[Vote]:
    """Return the votes of the tool's own records, and the default vote, which asks."""
    yield from _required_approval(inputs, Weight.ASK_FOR_APPROVAL)
    if inputs.facts.is_destructive:
        why = _why_not_allowed(inputs) or "the tool may change or destroy data"
        yield _own_vote(Weight.ASK_ABOUT_HARM, "permission_profile", ReasonType.SAFETY_CHECK, why)
    allowed = mode_allows(inputs.mode, inputs.subject, inputs.facts, inputs.call)
    if allowed is not None:
        yield allowed
    yield _own_vote(Weight.ASK_ANYONE, "default", ReasonType.OTHER, "no rule, hook or declaration decides this call")


def _own_vote(weight: Weight, source: str, reason: ReasonType, message: str) -> Vote:
    """Return a vote of the runtime itself: of the mode, the tool's records or the default."""
    authority = BELOW_RULES if source == "mode" and weight is not Weight.DENY else BELOW_RULES + 3
    return Vote(
        weight=weight, authority=(authority, source), source=source, reason=Reason(type=reason, message=message)
    )
