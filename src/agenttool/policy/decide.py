"""Decide about one call: the strictest vote wins.

Every input is a `Vote` with a `Weight`. The vote with the strongest weight decides; their order does not matter. A
verdict that depends on the tool alone is computed once and cached.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import NamedTuple

from agenttool.policy.actors import ActorGroups
from agenttool.policy.fields import MatchingField, names_in, texts_in
from agenttool.policy.matching import covers, is_outdated, missing_fields, names_caller, names_tool
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import Rule, RuleBook, has_passed, parse_timestamp
from agenttool.policy.subject import EffectFacts, Subject
from agenttool.policy.targets import CallTargets
from agenttool.policy.verdict import IN_PROGRAM, REMEDIES, Remedy, Verdict, Vote, Weight, remedy_lines
from agenttool.policy.votes import (
    DecisionInput,
    ExternalVote,
    HookVote,
    PermissionMode,
    collect_votes,
    looks_at_paths,
    mode_denies,
    vote_details,
)
from agenttool.records import (
    Behavior,
    Json,
    JsonObject,
    NonInteractivePrompt,
    Reason,
    ReasonType,
    Timestamp,
    ToolDeclaration,
)
from agenttool.records import replace as replace_record

NO_APPROVER = "no approver is available"
"""How the reason of a decision begins if a question could not be asked."""

MAX_PLANS = 10_000
"""How many tools one policy remembers its standing answer for."""


class _ToolPlan(NamedTuple):
    """What is known about all calls to one tool.

    Attributes:
        inputs: the input of a decision about the tool alone, with the rules that can apply to it.
        outdated: the rules that allowed calls to it until it changed.
        settled: the verdict on every call without votes of its own; None if the arguments matter.
    """

    inputs: DecisionInput
    outdated: tuple[Rule, ...]
    settled: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policy:
    """The rules, mode and workspace of decisions. Immutable: other rules or another mode make another policy.

    Attributes:
        interactive: whether an approver is available; if not, a question is a deny.
        parent: the policy of the parent agent; a call never gets more permissions here than there.
        groups: the actors of each role and team.
        remedies: what a denial for want of an approver suggests.
    """

    book: RuleBook = field(default_factory=RuleBook)
    mode: PermissionMode = PermissionMode.DEFAULT
    interactive: bool = True
    workspace: Workspace = field(default_factory=Workspace)
    parent: "Policy | None" = None
    groups: ActorGroups = field(default_factory=ActorGroups)
    remedies: tuple[Remedy, ...] = IN_PROGRAM
    _plans: dict[Subject, _ToolPlan] = field(default_factory=dict["Subject", "_ToolPlan"], init=False, repr=False)

    def for_child(
        self, *, book: RuleBook | None = None, mode: PermissionMode | None = None, interactive: bool | None = None
    ) -> "Policy":
        """Return the policy of a sub-agent or a nested call; it never allows more than this policy."""
        return replace(
            self,
            book=self.book if book is None else book,
            mode=self.mode if mode is None else mode,
            interactive=self.interactive if interactive is None else interactive,
            parent=self,
        )

    def with_book(self, book: RuleBook) -> "Policy":
        """Return the same policy with other rules."""
        return replace(self, book=book)

    def decide(  # noqa: PLR0913 -- the inputs of one decision
        self,
        subject: Subject,
        arguments: Json,
        *,
        now: Timestamp,
        actor: str | None = None,
        actor_roles: tuple[str, ...] | None = None,
        facts: EffectFacts | None = None,
        hook_votes: tuple[HookVote, ...] = (),
        external_votes: tuple[ExternalVote, ...] = (),
    ) -> Verdict:
        """Decide about one call, never with `passthrough`: a call without a vote is asked about.

        Args:
            subject: the tool.
            arguments: the permission input.
            now: the time at which rules must not have expired.
            actor: who makes the call; none if it is not known.
            actor_roles: the roles of the actor's key, such as `gateway:caller`; none if they are not known.
            facts: the facts that classifiers computed for this call; None if all facts are declared.
            hook_votes: the votes of hooks, in any order.
            external_votes: the votes of classifiers and engines, in any order.
        """
        brings_nothing = facts is None and not hook_votes and not external_votes
        if brings_nothing and (settled := self.standing(subject, arguments)) is not None:
            return settled
        plan = self._plan(subject)
        call = self.targets(subject, arguments, actor, actor_roles)
        inputs = plan.inputs._replace(
            call=call,
            facts=subject.facts_of(facts),
            rules=tuple(
                rule
                for rule in plan.inputs.rules
                if (rule.expires_at is None or not has_passed(rule.expires_at, now)) and names_caller(rule, call.caller)
            ),
            hook_votes=hook_votes,
            external_votes=external_votes,
        )
        outdated = tuple(rule for rule in plan.outdated if names_caller(rule, call.caller))
        verdict = _with_outdated_rules(self._judge(inputs), outdated, call)
        if self.parent is None:
            return verdict
        above = self.parent.decide(
            subject,
            arguments,
            now=now,
            actor=actor,
            actor_roles=actor_roles,
            facts=facts,
            hook_votes=hook_votes,
            external_votes=external_votes,
        )
        return self._bounded(verdict, above, subject)

    def targets(
        self, subject: Subject, arguments: Json, actor: str | None, actor_roles: tuple[str, ...] | None = None
    ) -> CallTargets:
        """Return the targets of a call, as the rules of this policy match them."""
        return CallTargets(subject, arguments, self.workspace, self.groups.caller(actor, actor_roles))

    def standing(self, subject: Subject, arguments: Json = None) -> Verdict | None:
        """Return the verdict on every call to a tool that brings nothing new; None if it depends on the arguments.

        A tool whose standing verdict is a deny need not even be offered.
        """
        settled = self._plan(subject).settled
        return None if settled is None or self._may_reach_own_files(arguments) else settled

    def _may_reach_own_files(self, arguments: Json) -> bool:
        """Return whether a text of a call may be a protected path of this policy or of a parent."""
        is_here = bool(self.workspace.protected) and any(
            map(self.workspace.may_protect, [*names_in(arguments), *texts_in(arguments)])
        )
        return is_here or (self.parent is not None and self.parent._may_reach_own_files(arguments))  # noqa: SLF001 -- same class

    def _plan(self, subject: Subject) -> _ToolPlan:
        """Collect the rules about a tool, and decide all its calls at once if their arguments do not matter."""
        known = self._plans.get(subject)
        if known is not None:
            return known
        named = [(rule, missing_fields(rule, subject)) for rule in self.book if names_tool(rule, subject)]
        about = [(rule, missing) for rule, missing in named if not is_outdated(rule, subject)]
        without: list[Json] = [
            {"rule_ref": rule.ref, "fields": [*missing]} for rule, missing in about if missing and rule.names_tools
        ]
        inputs = DecisionInput(
            subject=subject,
            call=None,
            facts=subject.facts,
            mode=self.mode,
            interactive=self.interactive,
            rules=tuple(rule for rule, missing in about if not missing),
            notes={"not_applicable": without} if without else {},
        )
        outdated = tuple(rule for rule, missing in named if not missing and is_outdated(rule, subject))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._plans[subject] = _ToolPlan(inputs, outdated, self._settled(inputs, outdated))
        return plan

    def _settled(self, inputs: DecisionInput, outdated: tuple[Rule, ...]) -> Verdict | None:
        subject = inputs.subject
        lasting = tuple(rule for rule in inputs.rules if rule.covers_all_calls)
        verdict = self._judge(inputs._replace(rules=lasting))
        if verdict.weight is Weight.DENY:
            # It stays a deny, whatever else the arguments would bring up.
            return verdict
        depends = len(lasting) < len(inputs.rules) or any(rule.reads_input or rule.names_callers for rule in outdated)
        may_reach_own_files = bool(self.workspace.protected) and subject.fields.may_have(MatchingField.PATH)
        if depends or may_reach_own_files or looks_at_paths(self.mode, subject, subject.facts):
            return None
        verdict = _with_outdated_rules(verdict, outdated, None)
        if self.parent is None:
            return verdict
        above = self.parent.standing(subject)
        return None if above is None else self._bounded(verdict, above, subject)

    def _judge(self, inputs: DecisionInput) -> Verdict:
        votes, overridden = collect_votes(inputs)
        verdict = _tally(votes, overridden, inputs)
        if verdict.behavior != Behavior.ASK or self.interactive:
            return verdict
        profile = inputs.subject.profile
        avoids_prompts = profile is not None and profile.non_interactive_prompt == NonInteractivePrompt.AVOID  # G-33
        if verdict.weight is Weight.ASK_ANYONE and avoids_prompts:
            why = f"{NO_APPROVER}, and the tool's profile allows the call to run without one"
            return replace_record(verdict, behavior=Behavior.ALLOW, reason=_reworded(verdict, ReasonType.MODE, why))
        return self._deny_unanswerable(verdict, inputs.subject, ReasonType.MODE)

    def _deny_unanswerable(self, verdict: Verdict, subject: Subject, kind: ReasonType) -> Verdict:
        """Deny a question that cannot be asked; the details of the decision have the remedies for the developer."""
        name, tool_kind = subject.qualified_name, subject.declaration.tool_kind
        reason = _reworded(verdict, kind, NO_APPROVER)
        remedies = remedy_lines(verdict.weight, name, tool_kind, self.remedies)
        reason = replace_record(reason, details={**(reason.details or {}), REMEDIES: remedies})
        return replace_record(verdict, behavior=Behavior.DENY, source="mode", reason=reason)

    def _bounded(self, verdict: Verdict, above: Verdict, subject: Subject) -> Verdict:
        """Return the stricter of this verdict and the verdict of the parent."""
        if not above.is_stricter_than(verdict):
            return verdict
        details: JsonObject = {**(above.reason.details or {}), "inherited": True}
        bounded = replace_record(above, mode=str(self.mode), reason=replace_record(above.reason, details=details))
        if bounded.behavior == Behavior.ASK and not self.interactive:
            return self._deny_unanswerable(bounded, subject, ReasonType.ASYNC_AGENT)
        return bounded


def _tally(votes: list[Vote], overridden: list[Rule], inputs: DecisionInput) -> Verdict:
    """Return the verdict of the strongest vote, with the rules that it overrode."""
    winner = min(votes, key=lambda vote: (vote.weight, vote.authority))
    agreeing = [vote for vote in votes if vote.weight == winner.weight and vote.rules] if winner.rules else []
    beaten = {rule.ref for vote in votes if vote.weight > winner.weight for rule in vote.rules}
    beaten |= {rule.ref for rule in overridden}
    rules = {rule.ref: rule for vote in agreeing for rule in vote.rules}
    ends = [rule.expires_at for rule in rules.values() if rule.expires_at is not None]
    details: JsonObject = {**inputs.notes, **vote_details(inputs.hook_votes, inputs.external_votes)}
    return Verdict(
        behavior=winner.weight.behavior,
        weight=winner.weight,
        mode=str(inputs.mode),
        source=winner.source,
        reason=replace_record(winner.reason, beaten_rule_refs=tuple(sorted(beaten)) or None, details=details or None),
        rule_refs=tuple(sorted(rules)),
        policy_refs=tuple(dict.fromkeys(ref for vote in (winner, *agreeing) for ref in vote.policy_refs)),
        blocked_path=winner.blocked_path,
        pending_classifier_check=winner.check or next((each.check for each in inputs.external_votes), None),
        expires_at=min(ends, key=parse_timestamp, default=None),
    )


def _with_outdated_rules(verdict: Verdict, outdated: tuple[Rule, ...], call: CallTargets | None) -> Verdict:
    """Add the rules that allowed the call until the tool changed."""
    if verdict.behavior == Behavior.ALLOW or not outdated:
        return verdict
    refs = [rule.ref for rule in outdated if not rule.reads_input or (call is not None and covers(rule, call))]
    if not refs:
        return verdict
    words = f"{verdict.reason.message}; {', '.join(map(repr, refs))} allowed it until the tool changed"
    details: JsonObject = {**(verdict.reason.details or {}), "outdated_rule_refs": [*refs]}
    return replace_record(verdict, reason=replace_record(verdict.reason, message=words, details=details))


def _reworded(verdict: Verdict, kind: ReasonType, why: str) -> Reason:
    """Return the reason of a question that cannot be asked; it includes the reason of the question."""
    asked = verdict.reason
    return replace_record(asked, type=kind, message=f"{why}: {asked.message}", rule_source=None)


_NOTHING = r"(?!)"


DenyPrefilter = Callable[[ToolDeclaration, Callable[[], Subject]], bool]
"""Returns whether a policy may deny every call of a tool; builds the subject only if the names do not decide."""


def deny_prefilter(policy: Policy) -> DenyPrefilter:
    """Return a test that is sure of the tools that it clears: not every call to them is denied.

    With an approver, only a deny rule or the mode denies every call. Without one a question is a deny too, and a parent
    policy may deny, so every tool must be decided.
    """
    if not policy.interactive or policy.parent is not None:
        return lambda _, __: True
    denying = [rule for rule in policy.book if rule.covers_all_calls and rule.behavior == Behavior.DENY]
    patterns = [translate(each.casefold().replace("[", "[[]")) for rule in denying for each in rule.tools]
    is_named = re.compile("|".join(patterns) or _NOTHING).match
    nameless = [rule for rule in denying if not rule.tools]
    strictest = EffectFacts()
    mode_matters = mode_denies(policy.mode, strictest) is not None

    def is_suspect(declaration: ToolDeclaration, subject: Callable[[], Subject]) -> bool:
        return bool(
            is_named(f"{declaration.namespace}.{declaration.name}".casefold())
            or is_named(declaration.name.casefold())
            or (declaration.aliases and any(is_named(each.casefold()) for each in declaration.aliases))
            or (nameless and any(names_tool(rule, subject()) for rule in nameless))
            or (mode_matters and mode_denies(policy.mode, subject().facts))
        )

    return is_suspect
