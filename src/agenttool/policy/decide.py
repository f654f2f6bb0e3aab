"""One decision about one call: the strictest word wins.

Everyone who has a say is a `Voice` with a `Weight`; the strongest voice decides, and the order in which they are heard
does not matter. What depends on the tool alone is decided once and kept, so that a call to a tool without rules about
its arguments is answered from memory.
"""

from dataclasses import dataclass, field, replace

from agenttool.policy.call import Call
from agenttool.policy.match import covers, is_about, is_outdated, missing_fields, names
from agenttool.policy.mode import PermissionMode, looks_at_paths
from agenttool.policy.moments import has_passed, read_moment
from agenttool.policy.opinions import HookHint, Opinion, told
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.subject import Facts, Subject
from agenttool.policy.verdict import Verdict, Voice, Weight
from agenttool.policy.voices import Hearing, hear
from agenttool.records import Behavior, Json, JsonObject, Reason, ReasonType, Timestamp
from agenttool.records import replace as replace_record

MAX_PLANS = 10_000
"""How many tools one policy remembers its standing answer for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """A rule that names a tool and cannot apply to it, because it looks at something the tool does not have."""

    rule_ref: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is known about all calls to one tool.

    Attributes:
        rules: the rules that can apply to it.
        outdated: the rules that allowed calls to it until it changed.
        settled: the verdict on every call that brings nothing new; nothing if the arguments matter.
    """

    rules: tuple[Rule, ...]
    outdated: tuple[Rule, ...]
    not_applicable: tuple[NotApplicable, ...]
    settled: Verdict | None

    @property
    def notes(self) -> JsonObject:
        """What the record of every decision about the tool should mention."""
        found: list[Json] = [{"rule_ref": each.rule_ref, "fields": [*each.fields]} for each in self.not_applicable]
        return {"not_applicable": found} if found else {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policy:
    """Everything standing that a decision rests on. It never changes: other rules or another mode make another policy.

    Attributes:
        interactive: whether anybody can be asked; if not, a question is a deny.
        parent: the policy of whoever started this agent; no call gets more here than it would get there.
    """

    book: RuleBook = field(default_factory=RuleBook)
    mode: PermissionMode = PermissionMode.DEFAULT
    interactive: bool = True
    workspace: Workspace = field(default_factory=Workspace)
    parent: "Policy | None" = None
    _plans: dict[Subject, _Plan] = field(default_factory=dict["Subject", "_Plan"], init=False, repr=False)

    def for_child(
        self,
        *,
        book: RuleBook | None = None,
        mode: PermissionMode | None = None,
        interactive: bool | None = None,
        workspace: Workspace | None = None,
    ) -> "Policy":
        """Give the policy of a sub-agent or a nested call: the same where nothing else is said, and never more."""
        return Policy(
            book=self.book if book is None else book,
            mode=self.mode if mode is None else mode,
            interactive=self.interactive if interactive is None else interactive,
            workspace=self.workspace if workspace is None else workspace,
            parent=self,
        )

    def with_book(self, book: RuleBook) -> "Policy":
        """Give the same policy with other rules."""
        return replace(self, book=book)

    def decide(
        self,
        subject: Subject,
        arguments: Json,
        *,
        now: Timestamp,
        facts: Facts | None = None,
        hints: tuple[HookHint, ...] = (),
        opinions: tuple[Opinion, ...] = (),
    ) -> Verdict:
        """Decide about one call, never with `passthrough`: what nobody speaks for is asked about.

        Args:
            subject: the tool.
            arguments: the permission input.
            now: the moment at which rules must still hold.
            facts: what classifiers told about this call; leave it out for a tool whose facts are all declared.
            hints: what hooks said, in any order.
            opinions: what classifiers and engines said, in any order.
        """
        plan = self._plans.get(subject) or self._plan(subject)
        if plan.settled is not None and facts is None and not hints and not opinions:
            return plan.settled
        live = tuple(rule for rule in plan.rules if rule.expires_at is None or not has_passed(rule.expires_at, now))
        hearing = Hearing(
            subject=subject,
            call=Call(subject, arguments, self.workspace),
            facts=subject.facts_of(facts),
            mode=self.mode,
            interactive=self.interactive,
            rules=live,
            hints=hints,
            opinions=opinions,
            notes=plan.notes,
        )
        verdict = _told_of_change(self._judge(hearing), plan.outdated, hearing.call)
        if self.parent is None:
            return verdict
        above = self.parent.decide(subject, arguments, now=now, facts=facts, hints=hints, opinions=opinions)
        return self._bounded(verdict, above)

    def standing(self, subject: Subject) -> Verdict | None:
        """Give the verdict on every call to a tool that brings nothing new; nothing if it depends on the arguments.

        A tool whose standing verdict is a deny need not even be offered.
        """
        return (self._plans.get(subject) or self._plan(subject)).settled

    def not_applicable(self, subject: Subject) -> tuple[NotApplicable, ...]:
        """List the rules that name a tool but look at something it does not have (AT-PERM-09)."""
        return (self._plans.get(subject) or self._plan(subject)).not_applicable

    def _plan(self, subject: Subject) -> _Plan:
        """Find the rules about a tool, and decide all its calls at once if their arguments do not matter."""
        about = [rule for rule in self.book if names(rule, subject)]
        missing = {rule.ref: missing_fields(rule, subject) for rule in about}
        rules = tuple(rule for rule in about if not missing[rule.ref])
        not_applicable = tuple(
            NotApplicable(rule_ref=rule.ref, fields=missing[rule.ref])
            for rule in about
            if missing[rule.ref] and rule.names_tools
        )
        lapsed = [rule for rule in self.book if is_outdated(rule, subject) and is_about(rule, subject)]
        outdated = tuple(rule for rule in lapsed if not missing_fields(rule, subject))
        plan = _Plan(rules=rules, outdated=outdated, not_applicable=not_applicable, settled=None)
        plan = replace(plan, settled=self._settled(subject, plan))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[subject] = plan
        return plan

    def _settled(self, subject: Subject, plan: _Plan) -> Verdict | None:
        lasting = tuple(rule for rule in plan.rules if rule.expires_at is None and not rule.reads_input)
        hearing = Hearing(
            subject=subject,
            call=None,
            facts=subject.facts,
            mode=self.mode,
            interactive=self.interactive,
            rules=lasting,
            notes=plan.notes,
        )
        verdict = self._judge(hearing)
        if verdict.weight is Weight.DENY:
            # It stays a deny, whatever else the arguments would bring up.
            return verdict
        depends = len(lasting) < len(plan.rules) or any(rule.reads_input for rule in plan.outdated)
        if depends or looks_at_paths(self.mode, subject, subject.facts):
            return None
        verdict = _told_of_change(verdict, plan.outdated, None)
        if self.parent is None:
            return verdict
        above = self.parent.standing(subject)
        return None if above is None else self._bounded(verdict, above)

    def _judge(self, hearing: Hearing) -> Verdict:
        voices, silenced = hear(hearing)
        verdict = _spoken(voices, silenced, hearing)
        if verdict.behavior != Behavior.ASK or self.interactive:
            return verdict
        if verdict.weight is Weight.ASK_ANYONE and hearing.subject.may_go_unasked:
            why = "nobody can be asked, and the tool's profile lets the question be left out"
            return replace(verdict, behavior=Behavior.ALLOW, reason=_because(verdict, ReasonType.MODE, why))
        return _unanswerable(verdict, ReasonType.MODE)

    def _bounded(self, verdict: Verdict, above: Verdict) -> Verdict:
        """Take the stricter of one's own verdict and the parent's."""
        if not above.is_stricter_than(verdict):
            return verdict
        details: JsonObject = {**(above.reason.details or {}), "inherited": True}
        bounded = replace(above, mode=str(self.mode), reason=replace_record(above.reason, details=details))
        if bounded.behavior == Behavior.ASK and not self.interactive:
            return _unanswerable(bounded, ReasonType.ASYNC_AGENT)
        return bounded


def _spoken(voices: list[Voice], silenced: list[Rule], hearing: Hearing) -> Verdict:
    """Let the strongest voice decide, and keep what it beat."""
    winner = min(voices, key=lambda voice: (voice.weight, voice.authority))
    agreeing = [voice for voice in voices if voice.weight == winner.weight and voice.rules] if winner.rules else []
    beaten = {rule.ref for voice in voices if voice.weight > winner.weight for rule in voice.rules}
    beaten |= {rule.ref for rule in silenced}
    rules = {rule.ref: rule for voice in agreeing for rule in voice.rules}
    ends = [rule.expires_at for rule in rules.values() if rule.expires_at is not None]
    heard: JsonObject = {**hearing.notes, **told(hearing.hints, hearing.opinions)}
    return Verdict(
        behavior=winner.weight.behavior,
        weight=winner.weight,
        mode=str(hearing.mode),
        source=winner.source,
        reason=replace_record(winner.reason, beaten_rule_refs=tuple(sorted(beaten)) or None, details=heard or None),
        rule_refs=tuple(sorted(rules)),
        policy_refs=tuple(dict.fromkeys(ref for voice in (winner, *agreeing) for ref in voice.policy_refs)),
        blocked_path=winner.blocked_path,
        pending_classifier_check=winner.check or next((each.check for each in hearing.opinions), None),
        expires_at=min(ends, key=read_moment, default=None),
    )


def _told_of_change(verdict: Verdict, outdated: tuple[Rule, ...], call: Call | None) -> Verdict:
    """Say of a call that does not simply run which rules would have let it, had the tool not changed."""
    if verdict.behavior == Behavior.ALLOW or not outdated:
        return verdict
    refs = [rule.ref for rule in outdated if not rule.reads_input or (call is not None and covers(rule, call))]
    if not refs:
        return verdict
    words = f"{verdict.reason.message}; {', '.join(map(repr, refs))} allowed it until the tool changed"
    details: JsonObject = {**(verdict.reason.details or {}), "outdated_rule_refs": [*refs]}
    return replace(verdict, reason=replace_record(verdict.reason, message=words, details=details))


def _because(verdict: Verdict, kind: ReasonType, why: str) -> Reason:
    """Give the reason of a question nobody can be asked; the reason it was asked for stays in it."""
    asked = verdict.reason
    return replace_record(asked, type=kind, message=f"{why}: {asked.message}", rule_source=None)


def _unanswerable(verdict: Verdict, kind: ReasonType) -> Verdict:
    reason = _because(verdict, kind, "nobody can be asked")
    return replace(verdict, behavior=Behavior.DENY, source="mode", reason=reason)
