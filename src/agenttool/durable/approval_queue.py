"""The open approvals of a runtime: list them, look at one, decide."""

import logging
from collections.abc import Collection
from typing import cast

from agenttool.call.approval import answer as record_answer
from agenttool.call.approval import answer_in, forget
from agenttool.call.call import Core
from agenttool.call.services import Approve, guard
from agenttool.durable.one_process import OneProcess, copy_of
from agenttool.durable.recovery import Recovery
from agenttool.durable.remembered_rules import RememberedRules
from agenttool.errors import StoreError
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Answered,
    Approver,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    Remember,
    RememberScope,
    remembering,
    settings_rule,
)
from agenttool.policy.rules import Rule
from agenttool.records import ApprovalId, Digest, InvocationId, JsonObject, RuleSource

log = logging.getLogger("agenttool.approvals")


class ApprovalQueue:
    """The open approvals: `rt.approvals`. On a durable store it contains those of every process."""

    def __init__(self, core: Core, recovery: Recovery | OneProcess, remembered: RememberedRules) -> None:
        self._core = core
        self._recovery = recovery
        self._remembered = remembered

    async def list(self, *, limit: int = 1000, after: ApprovalId | None = None) -> tuple[Question, ...]:
        """Return the open questions, the oldest first.

        Args:
            limit: how many at most.
            after: the `approval_id` of the last one seen, to list those that were asked after it.
        """
        await self._recovery.judge_waiting()
        return await self._recovery.approvals.questions(limit, after)

    async def get(self, approval_id: str) -> Question | None:
        """Return one open question; None if it is not open."""
        return await self._recovery.approvals.question(ApprovalId(approval_id))

    async def of_call(self, invocation_id: InvocationId) -> Question | None:
        """Return the open question of a call; None if it waits for no answer."""
        return await self._recovery.approvals.question_of(invocation_id)

    async def within(self, invocation_id: InvocationId, besides: Collection[str] = ()) -> tuple[Question, ...]:
        """Return the open questions of a call and of the calls that its tool made, except some by their ids.

        Questions of other calls, and those that are excepted, are not read.
        """
        found: list[Question] = []
        calls, now = [invocation_id], self._core.timestamp()
        for each in calls:
            known = self._core.questions.book.of_call(each, now)
            question = None if known is not None and known.approval_id in besides else await self.of_call(each)
            found += [question] if question is not None and question.approval_id not in besides else []
            call = self._core.registry.calls.get(each)
            nesting = None if call is None else call.nesting
            calls += () if nesting is None else (*nesting.children, *nesting.awaited)
        return tuple(found)

    async def is_open(self, approval_id: ApprovalId) -> bool:
        """Return whether a question is open; one that waits in this process is not read for that."""
        waiting = self._core.questions.waiting.get(approval_id)
        return not waiting.done() if waiting is not None else await self.get(approval_id) is not None

    def is_for_people(self, approval_id: ApprovalId) -> bool:
        """Return whether a question waits for people; False while the approver of the program is asked."""
        return approval_id not in self._core.questions.for_program

    async def closed(self, approval_id: str) -> Refused:
        """Return why a question that is not open cannot be answered: unknown, answered, expired or withdrawn."""
        return await self._recovery.approvals.closed(ApprovalId(approval_id))

    async def decide(  # noqa: PLR0913 -- the parts of an answer
        self,
        question: Question | str,
        answer: str | Answer,
        *,
        input: JsonObject | None = None,  # noqa: A002 -- the name of the value that it replaces
        by: str | Approver | None = None,
        message: str | None = None,
        shown_digest: Digest | None = None,
        remember: int | JsonObject | None = None,
        save: str = RememberScope.STORE.value,
    ) -> Answered | Refused:
        """Answer an open question: `allow`, `deny`, or allow with an updated input. The first answer stands.

        An answer that is refused changes nothing, and the question stays open: an updated input that is invalid or
        denied by rules, for example.

        Args:
            question: the question that the approver was shown, or its id. If the open question differs from what was
                shown, the answer is refused.
            answer: `allow`, `deny`, or an answer object.
            input: run this input instead.
            by: the name of the approver; recorded as a claim, beside the operating-system user of this process. An
                `Approver` if the user of this process is not the one who answered.
            message: text that the model reads with the answer.
            shown_digest: `Question.shown_digest` of what the approver was shown, where only the id is given. Without
                it, the answer is about the open question, and the record says that no digest was passed.
            remember: also add an allow rule: the number of one of `suggested_updates`, from 1, or the keys of a rule.
            save: where that rule is added: `store`, `session`, or the settings file of `local`, `project` or `user`.

        Raises:
            ConfigError: the answer is neither `allow` nor `deny`; there is no such suggestion or place for a rule; or
                the rule cannot be added to its file, though the answer stands.
            StoreError: the answer could not be stored.
        """
        given = answer_in(answer, input, message) if isinstance(answer, str) else answer
        files = self._core.questions.rule_files
        if remember is not None:
            known = question if isinstance(question, Question) else await self.get(question)
            given = remembering(known, given, remember, save, () if files is None else files.names)
        approver = by if isinstance(by, Approver) else Approver(os_user=self._core.os_user(), claim=by)
        shown: Question | Digest | None = shown_digest
        if isinstance(question, Question):
            question, shown = question.approval_id, shown_digest or question
        approval_id = ApprovalId(question)
        if isinstance(cast("object", approval_id), str) and approval_id in self._core.questions.unstored:
            outcome = record_answer(self._core, approval_id, given, by=approver, shown=shown)
        else:
            await self._recovery.judge_waiting()
            outcome = await self._recovery.answer(approval_id, given, by=approver, shown=shown)
        # `files.names` looks on the disk, so it is the last condition.
        if isinstance(given, Remember) and isinstance(outcome, Answered) and files is not None and save in files.names:
            files.append(save, {"name": str(approval_id), **settings_rule(given)})
        return outcome

    async def rules(self) -> tuple[Rule, ...]:
        """Return the rules that approvers asked to remember and that are in force, also those of other processes."""
        await self._remembered.sync()
        return tuple(rule for rule in self._core.policy.book if rule.source == RuleSource.SESSION)

    async def forget(self, approval_id: str) -> bool:
        """Revoke the rule that an answer added, in every process on the store; return whether there was one.

        Raises:
            StoreError: the store could not be written.
        """
        is_stored = await self._remembered.forget(ApprovalId(approval_id))
        rule = self._core.policy.book.get(f"{RuleSource.SESSION}:{approval_id}")
        if rule is not None:
            forget(self._core, rule)
        return is_stored or rule is not None


async def ask_approver(queue: ApprovalQueue, approve: Approve, question: Question) -> None:
    """Ask the approver of the program, and record the answer; one that fails or answers nothing denies.

    The question stays open for others if the answer cannot be stored.
    """
    given, fault = await guard(approve(copy_of(question)))
    if fault is not None:
        log.error("the approver failed on %s of %r", question.approval_id, question.tool_name, exc_info=fault)
        given = Deny(f"the approver failed with {type(fault).__name__}; the log has the details")
    by = getattr(approve, "name", None)
    try:
        outcome = await queue.decide(question, _read_answer(given), by=by)
        if isinstance(outcome, Refused) and outcome.reason in _INVALID:
            await queue.decide(question, Deny(f"the answer of the approver is invalid: {outcome.message}"), by=by)
    except StoreError:
        log.exception("the answer to %s could not be stored; it can still be answered", question.approval_id)


_INVALID = (RefusalReason.BAD_ANSWER, RefusalReason.BAD_INPUT, RefusalReason.BAD_RULE)


def _read_answer(given: object) -> Answer:
    """Return what an approver answered; anything that is no answer denies."""
    if isinstance(given, Allow | Deny | Edit | Remember):
        return given
    if given is True or given == "allow":
        return Allow()
    if given is False or given == "deny":
        return Deny()
    got = f"{given!r}" if isinstance(given, str | int | None) else f"a {type(given).__name__}"
    return Deny(f"the approver returned {got}; return 'allow', 'deny', or an Allow, Deny, Edit or Remember")
