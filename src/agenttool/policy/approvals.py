"""Open questions for approvers, their answers, and the decision records of answers.

Each question is answered once, before it expires. The state machine has no clock: callers pass the time. A question is
bound to the digest of the real input, so an answer never covers another input. The approver sees a redacted copy.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeAlias, cast

from agenttool.codec import digest_of_any, json_bytes, parse_object
from agenttool.config import Setting
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, RecordError
from agenttool.policy.rule_settings import read_rule, rule_members
from agenttool.policy.rules import Rule, has_passed
from agenttool.policy.suggest import ADD_RULE
from agenttool.policy.verdict import NO_UPDATES, SuggestedUpdates, Verdict, Weight, decision_record
from agenttool.ports.identity import Principal
from agenttool.ports.world import OsUser
from agenttool.records import (
    UNSET,
    ApprovalId,
    Behavior,
    ClosedEnum,
    DecisionId,
    Digest,
    ErrorClass,
    InvocationId,
    Json,
    JsonObject,
    Part,
    PermissionDecision,
    Reason,
    ReasonType,
    Record,
    Recoverability,
    RetryGuidance,
    RuleSource,
    SuggestedUpdate,
    Timestamp,
    ToolError,
    ToolId,
    ToolResult,
    replace,
    text_item,
)

MAX_ENDED = 10_000
"""How many questions are remembered after they ended, to distinguish a late answer from an unknown id."""


class Question(Part, frozen=True, kw_only=True, gc=True, dict=True):
    """One call that waits for an answer.

    Attributes:
        decision_id: the ask that the answer will answer.
        shown: the input as a person may see it, already redacted.
        input_digest: the digest of the input that will really run.
        declaration_digest: the tool as it is now; a rule that is remembered holds for this tool only.
        suggestions: changes that would allow the call; computed when they are first read or stored, then fixed.
    """

    approval_id: ApprovalId
    invocation_id: InvocationId
    decision_id: DecisionId
    tool_id: ToolId
    tool_name: str
    shown: Json
    input_digest: Digest
    declaration_digest: Digest
    verdict: Verdict
    asked_at: Timestamp
    expires_at: Timestamp
    suggestions: SuggestedUpdates = NO_UPDATES

    @property
    def suggested_updates(self) -> tuple[SuggestedUpdate, ...]:
        """Changes of rules, mode or workspace that would allow the call."""
        return self.suggestions.value

    @property
    def reason(self) -> str:
        """Why the call is asked about."""
        return self.verdict.reason.message or ""

    @cached_property
    def shown_digest(self) -> Digest:
        """The digest of the request as an approver is shown it; with it an answer says which question it is about.

        Suggestions are left out: they follow from the request, and an answer contains the rule that it accepts.
        """
        return digest_of_any(
            {
                "approval_id": self.approval_id,
                "tool_id": self.tool_id,
                "tool_name": self.tool_name,
                "input": self.shown,
                "input_digest": self.input_digest,
                "declaration_digest": self.declaration_digest,
                "reason": self.verdict.reason.message,
                "asked_at": self.asked_at,
                "expires_at": self.expires_at,
            }
        )


class Approver(Part, frozen=True, kw_only=True):
    """The approver of an answer, by each way in which it is known; `agenttool` itself is known by none.

    Attributes:
        os_user: the operating-system user of the process that answered; the system vouches for it.
        claim: the name that the caller gave; nothing proves it, so it never replaces the user.
        principal: the identity that a server authenticated.
    """

    os_user: OsUser | None = None
    claim: str | None = None
    principal: Principal | None = None

    @property
    def name(self) -> str:
        """The name that is recorded: the authenticated subject, else the user, else the claim."""
        if self.principal is not None:
            return self.principal.subject
        if self.os_user is None:
            return self.claim or "agenttool"
        return self.os_user.name or f"uid {self.os_user.uid}"

    @property
    def text(self) -> str:
        """The name for people, with the claim beside that of the user."""
        return self.name if self.claim is None or self.os_user is None else f"{self.name} (claims to be {self.claim})"

    def members(self) -> JsonObject:
        """Return the approver as recorded in a decision: one member for each way in which it is known."""
        known: JsonObject = {} if self.claim is None else {"claim": self.claim}
        if self.os_user is not None:
            name: JsonObject = {} if self.os_user.name is None else {"name": self.os_user.name}
            known["os_user"] = {"uid": self.os_user.uid, **name}
        if self.principal is not None:
            known["principal"] = self.principal.members()
        return known


class Allow(Part, frozen=True, tag="allow"):
    """Run it as shown."""

    feedback: str | None = None


class Deny(Part, frozen=True, tag="deny"):
    """Do not run it."""

    message: str | None = None


class Edit(Part, frozen=True, tag="edit"):
    """Run this input instead, if no rule denies it. Its representation omits the input, which may be sensitive."""

    input: Json
    feedback: str | None = None

    def __repr__(self) -> str:
        return f"Edit(feedback={self.feedback!r})"


class RememberScope(ClosedEnum):
    """How long a rule of an answer is in force."""

    SESSION = "session"
    """Until the process of the call ends."""
    STORE = "store"
    """Until it is revoked, in every process on the store; on a store in memory, as `session`."""


class Remember(Part, frozen=True, tag="remember"):
    """Run it as shown, and do not ask again for what a rule covers: one of the suggestions, or another allow rule."""

    rule: JsonObject
    feedback: str | None = None
    scope: RememberScope = RememberScope.STORE


class ByRules(Part, frozen=True, tag="by_rules"):
    """Rules that were added after the question decide about the call; no approver is asked any more."""

    feedback: str | None = None


Answer: TypeAlias = Allow | Deny | Edit | Remember | ByRules


class RefusalReason(ClosedEnum):
    """Why an answer was refused."""

    UNKNOWN = "unknown"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    OTHER_QUESTION = "other_question"
    BAD_RULE = "bad_rule"
    BAD_INPUT = "bad_input"
    BAD_ANSWER = "bad_answer"


class Refused(Part, frozen=True, kw_only=True):
    """A refused answer, and the reason.

    Attributes:
        answered_by: if it was answered already, the name of the approver, where that is known.
    """

    approval_id: ApprovalId
    reason: RefusalReason
    message: str
    answered_by: str | None = None


class Answered(Part, frozen=True, kw_only=True):
    """The accepted answer of a question.

    Attributes:
        input_digest: the digest of the only input that the answer is about: the one asked about, or the edited one.
        was_shown: whether the caller passed what the approver was shown, and it was this question.
        rule: the rule to add to the session's rules, where the answer is to be remembered.
    """

    question: Question
    answer: Answer
    by: Approver
    at: Timestamp
    input_digest: Digest
    was_shown: bool = False
    rule: Rule | None = None

    @property
    def shown_digest(self) -> Digest | None:
        """The digest of what the approver was shown; none if the caller did not pass it."""
        return self.question.shown_digest if self.was_shown else None


class Approvals:
    """The open questions, and for a limited time the outcome of closed ones."""

    def __init__(self) -> None:
        """Start without questions; after a restart, `open` those that still wait."""
        self._open: dict[ApprovalId, Question] = {}
        self._by_call: dict[InvocationId, Question] = {}
        self._ended: OrderedDict[ApprovalId, Refused] = OrderedDict()

    def open(self, question: Question) -> None:
        """Add a question, also one that was withdrawn: its call was lost to another process and is resumed here.

        Raises:
            ValueError: there is a question of this id, or it was answered or has expired.
        """
        ended = self._ended.pop(question.approval_id, None)
        if question.approval_id in self._open or (ended is not None and ended.reason is not RefusalReason.WITHDRAWN):
            raise ValueError(f"there is already a question {question.approval_id!r}; ask under a new id")
        self._open[question.approval_id] = self._by_call[question.invocation_id] = question

    def of_call(self, invocation_id: InvocationId, now: Timestamp) -> Question | None:
        """Return the question of a call that can still be answered; None if it has none."""
        found = self._by_call.get(invocation_id)
        return None if found is None or has_passed(found.expires_at, now) else found

    def pending(self, now: Timestamp) -> tuple[Question, ...]:
        """List the questions that can still be answered, the oldest first."""
        return tuple(question for question in self._open.values() if not has_passed(question.expires_at, now))

    def get(self, approval_id: ApprovalId) -> Question | None:
        """Return an open question, even if it has expired and was not removed yet."""
        return self._open.get(approval_id)

    def closed(self, approval_id: ApprovalId) -> Refused:
        """Return why a question that is not open cannot be answered."""
        return self._ended.get(approval_id) or refused(approval_id, RefusalReason.UNKNOWN)

    def answer(
        self,
        approval_id: ApprovalId,
        answer: Answer,
        *,
        by: Approver,
        now: Timestamp,
        shown: Question | Digest | None = None,
    ) -> Answered | Refused:
        """Record the one answer of the approver `by` to a question; a refused answer changes nothing."""
        question = self._open.get(approval_id) if isinstance(cast("object", approval_id), str) else None
        if question is None:
            return self.closed(ApprovalId(str(approval_id)))
        answered = check_answer(question, answer, by=by, now=now, shown=shown)
        if isinstance(answered, Answered):
            is_by_rules = isinstance(answer, ByRules)
            self._end(decided_by_rules(approval_id) if is_by_rules else refused(approval_id, _ANSWERED, by.name))
        return answered

    def withdraw(self, approval_id: ApprovalId, now: Timestamp | None = None) -> Question | None:
        """Remove a question because its call has ended; return None if it was not open.

        The question counts as expired if it expired before `now`, else as withdrawn.
        """
        question = self._open.get(approval_id)
        if question is None:
            return None
        is_over = now is not None and has_passed(question.expires_at, now)
        return self._end(refused(approval_id, RefusalReason.EXPIRED if is_over else RefusalReason.WITHDRAWN))

    def _end(self, how: Refused) -> Question | None:
        question = self._open.pop(how.approval_id, None)
        if question is not None:
            if self._by_call.get(question.invocation_id) is question:
                del self._by_call[question.invocation_id]
            self._ended[how.approval_id] = how
            if len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
        return question


_MESSAGES = {
    RefusalReason.UNKNOWN: "there is no such question; list the open ones",
    RefusalReason.ANSWERED: "it was answered already; the first answer stands",
    RefusalReason.EXPIRED: "it has expired; call the tool again to be asked again",
    RefusalReason.WITHDRAWN: "the call was canceled; nothing is left to decide",
    RefusalReason.OTHER_QUESTION: "the question is not the one that was shown; list the questions again, then answer",
}


def refused(approval_id: ApprovalId, reason: RefusalReason, answered_by: str | None = None) -> Refused:
    """Return the refusal of an answer to a question that is not open, or not the one that was shown."""
    message = _MESSAGES[reason] if answered_by is None else f"{answered_by} has answered it; the first answer stands"
    return Refused(approval_id=approval_id, reason=reason, message=message, answered_by=answered_by)


_ANSWERED = RefusalReason.ANSWERED


def decided_by_rules(approval_id: ApprovalId, decision: PermissionDecision | None = None) -> Refused:
    """Return the refusal of an answer to a question that rules decide now, with their decision if it is recorded."""
    message = "a rule that was added later decides about the call"
    if decision is not None:
        named = f" ({', '.join(decision.rule_refs)})" if decision.rule_refs else ""
        verb = "allows" if decision.behavior is Behavior.ALLOW else "denies"
        message = f"a rule that was added later {verb} the call{named}"
    message = f"{message}; nothing is left to answer"
    return Refused(approval_id=approval_id, reason=RefusalReason.WITHDRAWN, message=message)


def end_in_records(records: Iterable[Record], question: DecisionId) -> Refused | None:
    """Return why a recorded question cannot be answered any more; None if the records do not end it."""
    approval_id = ApprovalId(f"apr_{question.partition('_')[2]}")
    was_asked = False
    for record in records:
        if isinstance(record, PermissionDecision) and record.answers == question:
            if record.source != PROMPT:
                return decided_by_rules(approval_id, record)
            reason = RefusalReason.EXPIRED if record.decided_by is None else RefusalReason.ANSWERED
            return refused(approval_id, reason, record.decided_by)
        was_asked = was_asked or (isinstance(record, PermissionDecision) and record.decision_id == question)
        if was_asked and isinstance(record, ToolResult):
            return refused(approval_id, RefusalReason.WITHDRAWN)
    return None


def check_answer(
    question: Question, answer: Answer, *, by: Approver, now: Timestamp, shown: Question | Digest | None
) -> Answered | Refused:
    """Return the answer of the approver `by` to an open question, or why it is refused.

    An answer with what the approver was shown, or its digest, is refused if that is not the question.
    """
    if has_passed(question.expires_at, now):
        return refused(question.approval_id, RefusalReason.EXPIRED)
    if shown is not None and shown is not question:
        digest = shown.shown_digest if isinstance(shown, Question) else shown
        if digest != question.shown_digest:
            return refused(question.approval_id, RefusalReason.OTHER_QUESTION)
    digest, rule, problem = question.input_digest, None, RefusalReason.BAD_ANSWER
    try:
        _check_said(answer, by.claim)
        if isinstance(answer, Remember):
            problem = RefusalReason.BAD_RULE
            rule = read_rule(Setting(members=_remembered(question, answer), source=RuleSource.SESSION))
        elif isinstance(answer, Edit):
            problem = RefusalReason.BAD_INPUT
            answer = replace(answer, input=_own_copy(answer.input))
            digest = digest_of_any(answer.input)
    except (TypeError, ValueError, RecordError) as error:
        return Refused(approval_id=question.approval_id, reason=problem, message=str(error))
    return Answered(
        question=question,
        answer=answer,
        by=by,
        at=now,
        input_digest=digest,
        was_shown=shown is not None,
        rule=rule,
    )


def _check_said(answer: object, claim: object) -> None:
    """Reject anything that is not an answer, so that no other object can approve a call."""
    if not isinstance(answer, Answer):
        got = f"the class {answer.__name__}" if isinstance(answer, type) else f"a {type(answer).__name__}"
        raise TypeError(f"an answer is an Allow, Deny, Edit or Remember, got {got}; make one")
    words = answer.message if isinstance(answer, Deny) else answer.feedback
    for name, text in (("the name of who answers", claim or ""), ("what is said with an answer", words or "")):
        if not isinstance(text, str) or not (text.isascii() or text.encode(errors="replace").decode() == text):
            raise ValueError(f"{name} must be text in Unicode; correct it")
    if claim is not None and not claim:
        raise ValueError(f"the name of an approver must not be empty, got {claim!r}; set `by`, or leave it out")


def _own_copy(updated: Json) -> JsonObject:
    """Return a copy of an edit, so that later changes of the original have no effect."""
    if isinstance(updated, dict):
        return parse_object(json_bytes(updated))
    raise ValueError("an edited input is a JSON object; give the whole input")


def _remembered(question: Question, answer: Remember) -> JsonObject:
    """Return the keys of the session rule of an answer that is to be remembered.

    It is bound to the tool as it is now, named after the question, and settles what the question was asked for.
    """
    if not isinstance(cast("object", answer.rule), dict):
        raise TypeError(f"a rule is an object, got a {type(answer.rule).__name__}; take one of the suggestions")
    members: JsonObject = {
        **{name: value for name, value in answer.rule.items() if name != "settles"},
        "name": str(question.approval_id),
        "declaration_digest": question.declaration_digest,
    }
    if members.get("behavior") != "allow":
        raise ValueError(f"only an allow can be remembered, got {members.get('behavior')!r}; answer deny to refuse")
    if question.verdict.rule_refs:
        members["settles"] = [*question.verdict.rule_refs]
    return rule_members(members)


def remembering(
    question: Question | None, answer: Answer, remember: int | JsonObject, save: str, files: Sequence[str]
) -> Answer:
    """Return an answer that allows a call and adds a rule.

    Args:
        question: the open question; none if it is not open, so that any answer is refused.
        answer: the answer without the rule.
        remember: the number of a suggestion, from 1, or the keys of a rule.
        save: where the rule is added.
        files: the names of the settings files that rules can be added to.

    Raises:
        ConfigError: the answer is no plain allow, or there is no such suggestion or place.
    """
    if not isinstance(answer, Allow):
        raise ConfigError(
            f"only an answer that allows the call as shown can be remembered, got {type(answer).__name__};"
            " leave out `remember`"
        )
    known = [*map(str, RememberScope), *files]
    if save not in known:
        raise ConfigError(f"rules are not added to {save!r}; {suggestion(save, known)}")
    if question is None:
        return answer
    if save in files and question.verdict.rule_refs:
        asking = ", ".join(question.verdict.rule_refs)
        raise ConfigError(f"no rule in a file answers the question of {asking}; change that rule, or use 'store'")
    scope = RememberScope.SESSION if save in files else RememberScope(save)
    rule = remember if isinstance(remember, dict) else _suggestion(question, remember)
    return Remember(rule=rule, feedback=answer.feedback, scope=scope)


def suggested_rules(question: Question) -> list[JsonObject]:
    """Return the rules among the suggestions of a question."""
    return [update.rule for update in question.suggested_updates if isinstance(update.rule, dict)]


def _suggestion(question: Question, number: int) -> JsonObject:
    rules = suggested_rules(question)
    if not rules:
        raise ConfigError("no rule is suggested for this question, so none can be remembered; answer allow or deny")
    if not 1 <= number <= len(rules):
        raise ConfigError(f"there is no suggestion {number}; use a number from 1 to {len(rules)}")
    return rules[number - 1]


def settings_rule(answer: Remember) -> JsonObject:
    """Return the keys of a remembered rule for a settings file, which is bound to no version of a tool."""
    return {name: value for name, value in answer.rule.items() if name not in ("declaration_digest", "settles")}


PROMPT = "permission_prompt"
"""The source of a decision that a person made."""


def answer_record(answered: Answered, *, decision_id: DecisionId) -> PermissionDecision:
    """Return the decision record of an answer (G-30).

    A remembered rule is stored in `suggested_updates`, so that it can be restored from the records.
    """
    question, answer = answered.question, answered.answer
    denied = isinstance(answer, Deny)
    edited = isinstance(answer, Edit)
    updates: tuple[SuggestedUpdate, ...] | None = None
    if isinstance(answer, Remember):
        rule = _remembered(question, answer)
        updates = (SuggestedUpdate(type=ADD_RULE, destination=RuleSource.SESSION, rule=rule),)
    message = f"{answered.by.text} {'refused' if denied else 'approved'} the call{' with edits' if edited else ''}"
    details: JsonObject = {"approver": answered.by.members(), "shown_digest": answered.shown_digest}
    behavior = Behavior.DENY if denied else Behavior.ALLOW
    return replace(
        _prompt_record(question, decision_id, behavior, message, answered.at, details),
        updated_input=answer.input if edited else UNSET,
        user_modified=edited,
        suggested_updates=updates,
        content_blocks=(text_item(answer.message),) if denied and answer.message else None,
        accept_feedback=None if denied else answer.feedback,
        input_digest=answered.input_digest,
        decided_by=answered.by.name,
        expires_at=question.expires_at,
    )


def expiry_record(question: Question, *, decision_id: DecisionId, decided_at: Timestamp) -> PermissionDecision:
    """Return the decision record of a question that expired, which is a deny."""
    return _prompt_record(
        question, decision_id, Behavior.DENY, f"no approver answered before {question.expires_at}", decided_at, {}
    )


def _prompt_record(
    question: Question,
    decision_id: DecisionId,
    behavior: Behavior,
    message: str,
    decided_at: Timestamp,
    details: JsonObject,
) -> PermissionDecision:
    return PermissionDecision(
        decision_id=decision_id,
        invocation_id=question.invocation_id,
        behavior=behavior,
        mode=question.verdict.mode,
        source=PROMPT,
        reason=Reason(
            type=ReasonType.PERMISSION_PROMPT_TOOL,
            message=message,
            details={"approval_id": question.approval_id, **details},
        ),
        answers=question.decision_id,
        input_digest=question.input_digest,
        decided_at=decided_at,
    )


def rules_record(question: Question, verdict: Verdict, decision_id: DecisionId, at: Timestamp) -> PermissionDecision:
    """Return the decision record of rules that decide about a call after its question was asked."""
    record = decision_record(
        verdict,
        decision_id=decision_id,
        invocation_id=question.invocation_id,
        decided_at=at,
        input_digest=question.input_digest,
    )
    return replace(record, answers=question.decision_id)


def edit_stands(verdict: Verdict) -> bool:
    """Return whether an edited input may run, given the verdict of the rules on it.

    The approver saw the edited input, so an ask is answered; a deny stays a deny (G-21).
    """
    return verdict.weight is not Weight.DENY


def rejection(decision: PermissionDecision) -> ToolError:
    """Return the error that a call ends with when its question was refused, or never answered."""
    refused, by_rules = decision.decided_by is not None, decision.source != PROMPT
    reason = None if decision.reason is None else decision.reason.message
    message = "the approver refused the call" if refused else reason  # a model need not know the name of the approver
    words = next((item.text for item in decision.content_blocks or () if item.text), None)
    return ToolError(
        error_class=ErrorClass.APPROVAL_REJECTED if refused else ErrorClass.PERMISSION_DENIED,
        error_code="rejected" if refused else "denied_by_rules" if by_rules else "approval_expired",
        message=f"{message}: {words}" if words else message,
        recoverability=Recoverability.CHANGE_ARGUMENTS_OR_POLICY,
        retry_after=None,
        retry=RetryGuidance(safe=True, arguments_must_change=refused, discovery_required=False, approval_required=True),
    )
