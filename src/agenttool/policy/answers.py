"""The record of an answer: a second decision about the same call, and what it is good for."""

from agenttool.policy.approvals import Answered, Deny, Edit, Question
from agenttool.policy.moments import has_passed
from agenttool.policy.suggest import ADD_RULE
from agenttool.policy.verdict import Verdict, Weight
from agenttool.policy.written import members_of
from agenttool.records import (
    UNSET,
    Behavior,
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
    text_item,
)

PROMPT = "permission_prompt"
"""The source of a decision that a person made."""


def answer_record(
    answered: Answered, *, decision_id: DecisionId, input_digest: Digest | None = None
) -> PermissionDecision:
    """Write an answer down as the decision that answers the ask (G-30).

    A remembered rule stands in `suggested_updates`, so that whoever reads the records again has it.

    Args:
        answered: the answer.
        decision_id: the id of the new decision.
        input_digest: the digest of what will really run, where an edit was completed with values that the person was
            not shown.
    """
    question, answer = answered.question, answered.answer
    denied = isinstance(answer, Deny)
    edited = isinstance(answer, Edit)
    update = (
        None
        if answered.rule is None
        else SuggestedUpdate(type=ADD_RULE, destination=RuleSource.SESSION, rule=members_of(answered.rule))
    )
    return PermissionDecision(
        decision_id=decision_id,
        invocation_id=question.invocation_id,
        behavior=Behavior.DENY if denied else Behavior.ALLOW,
        mode=question.verdict.mode,
        source=PROMPT,
        reason=Reason(
            type=ReasonType.PERMISSION_PROMPT_TOOL,
            message=f"{answered.by} {'refused' if denied else 'approved'} the call{' with edits' if edited else ''}",
            details={"approval_id": question.approval_id},
        ),
        updated_input=answer.updated_input if edited else UNSET,
        user_modified=edited,
        suggested_updates=None if update is None else (update,),
        content_blocks=(text_item(answer.message),) if denied and answer.message else None,
        accept_feedback=None if denied else answer.feedback,
        answers=question.decision_id,
        input_digest=input_digest or answered.input_digest,
        decided_by=answered.by,
        decided_at=answered.at,
        expires_at=question.expires_at,
    )


def expiry_record(question: Question, *, decision_id: DecisionId, decided_at: Timestamp) -> PermissionDecision:
    """Write down that nobody answered in time, which is a deny."""
    return PermissionDecision(
        decision_id=decision_id,
        invocation_id=question.invocation_id,
        behavior=Behavior.DENY,
        mode=question.verdict.mode,
        source=PROMPT,
        reason=Reason(
            type=ReasonType.PERMISSION_PROMPT_TOOL,
            message=f"nobody answered before {question.expires_at}",
            details={"approval_id": question.approval_id},
        ),
        answers=question.decision_id,
        input_digest=question.input_digest,
        decided_at=decided_at,
    )


def edit_stands(verdict: Verdict) -> bool:
    """Tell whether an edited input may run, given the verdict of the rules on it.

    Whoever edited it has looked at it, so what would be asked is answered; what is denied stays denied (G-21).
    """
    return verdict.weight is not Weight.DENY


def approval_holds(
    decision: PermissionDecision, *, invocation_id: InvocationId, input_digest: Digest, now: Timestamp
) -> bool:
    """Tell whether an allow still covers a call that is about to run, perhaps long after it was given (AT-PERM-28).

    It covers one call, with one input, until it expires; anything else is asked about again.
    """
    return (
        decision.behavior == Behavior.ALLOW
        and decision.invocation_id == invocation_id
        and decision.input_digest == input_digest
        and (decision.expires_at is None or not has_passed(decision.expires_at, now))
    )


def rejection(decision: PermissionDecision) -> ToolError:
    """Give the error that a call ends with when its question was refused, or never answered."""
    refused = decision.decided_by is not None
    message = None if decision.reason is None else decision.reason.message
    words = next((item.text for item in decision.content_blocks or () if item.text), None)
    return ToolError(
        error_class=ErrorClass.APPROVAL_REJECTED if refused else ErrorClass.PERMISSION_DENIED,
        error_code="rejected" if refused else "approval_expired",
        message=f"{message}: {words}" if words else message,
        recoverability=Recoverability.CHANGE_ARGUMENTS_OR_POLICY,
        retry_after=None,
        retry=RetryGuidance(safe=True, arguments_must_change=refused, discovery_required=False, approval_required=True),
    )
