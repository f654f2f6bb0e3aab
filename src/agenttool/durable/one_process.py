"""The recovery of a store that no other process uses: it does nothing, and approvals are those of this process."""

from agenttool.call.approval import answer, questions_for_rules
from agenttool.call.call import Core
from agenttool.codec import Lazy, clone, read_own, write_own
from agenttool.policy.approvals import Answer, Answered, Approver, ByRules, Question, Refused
from agenttool.records import AbortReason, ApprovalId, Digest, InvocationId, SuggestedUpdate, replace


class OneProcess:
    """The recovery of a store in memory, with the methods of `Recovery`; it is its own `StoredApprovals`."""

    fault = None

    def __init__(self, core: Core) -> None:
        self._core = core
        self.approvals = self

    async def start(self) -> None:
        """Do nothing: no other process may take the calls."""

    async def stop(self) -> None:
        """Do nothing."""

    async def recover(self) -> int:
        """Return 0: no process left a call."""
        return 0

    async def judge_waiting(self) -> None:
        """Do nothing: `judge_soon` has judged the questions."""

    def judge_soon(self) -> None:
        """Judge the open questions again, because rules were added or removed."""
        for approval_id in questions_for_rules(self._core):
            answer(self._core, approval_id, ByRules(), by=Approver())

    async def cancel(self, invocation_id: InvocationId, reason: AbortReason, by: Approver) -> bool:
        """Return False: there are no calls of other processes."""
        return False

    async def answer(
        self, approval_id: ApprovalId, given: Answer, *, by: Approver, shown: Question | Digest | None = None
    ) -> Answered | Refused:
        """Answer an open question, and resume its call; the first answer stands."""
        return answer(self._core, approval_id, given, by=by, shown=shown)

    async def questions(self, limit: int, after: ApprovalId | None = None) -> tuple[Question, ...]:
        """Return the open questions, the oldest first."""
        pending = self._core.questions.book.pending(self._core.timestamp())
        return tuple(copy_of(each) for each in pending if after is None or each.approval_id > after)[:limit]

    async def question(self, approval_id: ApprovalId) -> Question | None:
        """Return one open question; none if it is not open."""
        found = self._core.questions.book.get(approval_id)
        return None if found is None else copy_of(found)

    async def question_of(self, invocation_id: InvocationId) -> Question | None:
        """Return the open question of a call; none if it waits for no answer."""
        found = self._core.questions.book.of_call(invocation_id, self._core.timestamp())
        return None if found is None else copy_of(found)

    async def closed(self, approval_id: ApprovalId) -> Refused:
        """Return why a question is not open."""
        return self._core.questions.book.closed(approval_id)

    async def answer_of(self, question: Question) -> Answered | None:
        """Return None: an answer resumes its call at once."""

    async def withdraw(self, question: Question) -> Answered | None:
        """Return None: no other process has accepted an answer."""


def copy_of(question: Question) -> Question:
    """Return a deep copy, so that no change by one approver is visible to another one."""
    verdict = question.verdict
    if verdict.reason.details is not None:
        reason = replace(verdict.reason, details=clone(verdict.reason.details))
        verdict = replace(verdict, reason=reason)
    suggestions = Lazy(lambda: read_own(write_own(question.suggestions), tuple[SuggestedUpdate, ...]))
    return replace(question, shown=clone(question.shown), verdict=verdict, suggestions=suggestions)
