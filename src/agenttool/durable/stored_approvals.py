"""Approvals of a durable store: questions of every process, and answers that any process may give.

Answers are stored beside the journal, where a person who can edit the file could forge one. So the process that records
an answer also records its digest as a fact in the same transaction. The process that loads the answer looks for that
fact. The digest reveals nothing, because the answer contains a salt and is deleted once the call continues.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from agenttool.call.approval import fault_of_edit
from agenttool.call.call import Call, Core
from agenttool.call.checkpoint import Checkpoint, CheckpointKind, checkpoint_in, checkpoint_mismatch
from agenttool.call.judge import judge
from agenttool.codec import digest_of_bytes, read_stored, write_own
from agenttool.durable.resume import restore_call
from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.journal.projection import records_of
from agenttool.policy.approvals import (
    Answer,
    Answered,
    Approver,
    ByRules,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    check_answer,
    decided_by_rules,
    end_in_records,
    refused,
)
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.facts import Fact
from agenttool.ports.stores import OpenCall, RecoverableCalls
from agenttool.records import (
    INVOCATION,
    ApprovalId,
    Behavior,
    DecisionId,
    Digest,
    InvocationId,
    JsonObject,
    Part,
    Timestamp,
    replace,
)

ReadFacts: TypeAlias = Callable[[int, int], Sequence[tuple[int, Fact]]]
"""Returns up to so many facts after a position."""

PAGE = 100
"""How many facts are read at a time in the search for an answer."""

MAX_SEARCH = 200_000
"""How many facts may have been written while an answer was on its way to disk; more than the backlog can hold."""

_ANSWERED = RefusalReason.ANSWERED
_WITHDRAWN = "the call was canceled before it was answered"

FORGED = "nothing was run: the journal records no such answer, so it may be forged; verify the journal"


class StoredAnswer(Part, frozen=True, kw_only=True):
    """An answer, the approver and the time; `after` is where in the journal to start looking for its fact."""

    answer: Answer
    by: Approver
    at: Timestamp
    shown_digest: Digest | None
    after: int
    salt: bytes


@dataclass(slots=True, eq=False)
class StoredApprovals:
    """The open questions in a store, and their answers."""

    core: Core
    calls: RecoverableCalls
    withdrawn: set[ApprovalId] = field(default_factory=set[ApprovalId])
    """The questions of dead processes that rules decide now; each is open until its call continues."""

    async def questions(self, limit: int, after: ApprovalId | None = None) -> tuple[Question, ...]:
        """Return the open questions of all processes, the oldest first, from after one of them.

        Unreadable checkpoints are skipped and do not end the list.
        """
        found: list[Question] = []
        while len(found) < limit and (page := await self.calls.awaiting_answer(limit=limit - len(found), after=after)):
            checkpoints = (checkpoint_in(each) for each in page if each.approval_id not in self.withdrawn)
            found += [each.question for each in checkpoints if each is not None and each.question is not None]
            after = page[-1].approval_id
        return tuple(found)

    async def question(self, approval_id: ApprovalId) -> Question | None:
        """Return one open question of any process; none if it is not open."""
        return _open_question(await self.calls.by_approval(approval_id))

    async def question_of(self, invocation_id: InvocationId) -> Question | None:
        """Return the open question of a call of any process; none if it waits for no answer."""
        return _open_question(await self.calls.get(invocation_id))

    async def answer(
        self, approval_id: ApprovalId, given: Answer, *, by: Approver, shown: Question | Digest | None = None
    ) -> Answered | Refused:
        """Record the answer to a question of any process; the first answer stands."""
        opened = await self.calls.by_approval(approval_id)
        if opened is None or opened.answer is not None:  # the journal may have the answer already, with its edit
            return await self.closed(approval_id)
        checkpoint = checkpoint_in(opened)
        if checkpoint is not None and self._is_edited(opened, checkpoint):
            return Refused(approval_id=approval_id, reason=RefusalReason.OTHER_QUESTION, message=_EDITED)
        if checkpoint is None or checkpoint.question is None:
            return _unreadable(approval_id)
        question, fault = checkpoint.question, None
        if isinstance(given, Edit):  # it is checked as far as this process knows the tool and the rules
            fault = fault_of_edit(self._call_of(opened, checkpoint), question, given, checkpoint.arguments)
        if fault is not None:
            return Refused(approval_id=approval_id, reason=RefusalReason.BAD_INPUT, message=fault)
        outcome = check_answer(question, given, by=by, now=self.core.timestamp(), shown=shown)
        if isinstance(outcome, Answered):
            status = await self.calls.answer(approval_id, record_answer(self.core, outcome), now_ns=self.core.now_ns())
            if status is AnswerStatus.EXPIRED:
                outcome = refused(approval_id, RefusalReason.EXPIRED)
            elif status is not AnswerStatus.ACCEPTED:
                outcome = await self.closed(approval_id)
        return outcome

    async def answer_of(self, question: Question) -> Answered | None:
        """Return the answer in the store, though this process has not polled it yet; none if there is none."""
        with suppress(StoreError):
            opened = await self.calls.by_approval(question.approval_id)
            return None if opened is None else self.load(question, opened.answer)
        return None

    async def withdraw(self, question: Question) -> Answered | None:
        """Close a question, so that no process accepts a later answer; return the answer that was accepted before.

        The question is denied. If this process dies before it has ended the call, the next one ends it by that answer.
        """
        with suppress(StoreError):
            outcome = await self.answer(question.approval_id, Deny(message=_WITHDRAWN), by=Approver())
            if isinstance(outcome, Refused) and outcome.reason is _ANSWERED:
                return await self.answer_of(question)
        return None

    def load(self, question: Question | None, body: bytes | None) -> Answered | None:
        """Return a stored answer; one without a fact in the journal denies. None if there is none that can be read.

        Raises:
            StoreError: the journal could not be read.
        """
        stored = read_stored(body, StoredAnswer)
        if question is None or body is None or stored is None:
            return None
        if not _is_recorded(self.core.journal.log.read, question.approval_id, body, stored.after):
            denied = Deny(message=FORGED)
            stored = replace(stored, answer=denied, by=Approver(), at=question.asked_at, shown_digest=None)
        outcome = check_answer(question, stored.answer, by=stored.by, now=stored.at, shown=stored.shown_digest)
        return outcome if isinstance(outcome, Answered) else None

    def is_decided_by_rules(self, opened: OpenCall) -> bool:
        """Return whether the rules of this process decide about a waiting call without an approver."""
        checkpoint = checkpoint_in(opened)
        call = None if checkpoint is None else self._call_of(opened, checkpoint)
        if checkpoint is None or call is None or call.tool is None:
            return False
        return judge(call, call.tool, checkpoint.arguments).behavior is not Behavior.ASK

    def _call_of(self, opened: OpenCall, checkpoint: Checkpoint) -> Call | None:
        """Return the call of a checkpoint; none if this process does not have its tool as it was asked about."""
        tool = self.core.host.tool_of(checkpoint.tool_id)
        is_same = tool is not None and tool.subject.declaration_digest == checkpoint.declaration_digest
        call = self.core.registry.calls.get(opened.invocation_id)
        if call is None and is_same:
            call = restore_call(self.core, opened, replace(checkpoint, parent_resumes=False), tool)
        return call

    def _is_edited(self, opened: OpenCall, checkpoint: Checkpoint) -> bool:
        """Return whether the stored question differs from the one in the journal."""
        facts = self.core.journal.log.facts_of(opened.invocation_id)
        return checkpoint_mismatch(opened.kind, checkpoint, facts) is not None

    async def closed(self, approval_id: ApprovalId) -> Refused:
        """Return why a question is not open; an answer that its call has not read yet is not in the journal."""
        opened = await self.calls.by_approval(approval_id)
        stored = None if opened is None else read_stored(opened.answer, StoredAnswer)
        if stored is not None:
            is_by_rules = isinstance(stored.answer, ByRules)
            return decided_by_rules(approval_id) if is_by_rules else refused(approval_id, _ANSWERED, stored.by.name)
        unique = approval_id.partition("_")[2]
        facts = self.core.journal.log.facts_of(INVOCATION.compose(unique.rpartition("-")[0]))
        ended = end_in_records(records_of(facts), DecisionId(f"dec_{unique}"))
        was_answered = ended is None and await self.calls.was_answered(approval_id)
        return ended or refused(approval_id, _ANSWERED if was_answered else RefusalReason.UNKNOWN)


def _open_question(opened: OpenCall | None) -> Question | None:
    checkpoint = None if opened is None or opened.answer is not None else checkpoint_in(opened)
    return None if checkpoint is None else checkpoint.question


def record_answer(core: Core, answered: Answered) -> bytes:
    """Record the digest of an answer in the journal; return the body to store in the same transaction."""
    stored = StoredAnswer(
        answer=answered.answer,
        by=answered.by,
        at=answered.at,
        shown_digest=answered.shown_digest,
        after=core.journal.log.last,
        salt=core.ids.secret(),
    )
    body = write_own(stored)
    core.journal.note_apart(steps.ANSWER_GIVEN, _fact_of(answered.question.approval_id, body))
    return body


def is_forged(read_facts: ReadFacts, opened: OpenCall) -> bool:
    """Return whether the stored answer of a call has no fact in the journal; deferred results have none.

    Raises:
        StoreError: the journal could not be read.
    """
    if opened.answer is None or opened.approval_id is None or opened.kind != CheckpointKind.ASKED:
        return False
    stored = read_stored(opened.answer, StoredAnswer)
    return stored is None or not _is_recorded(read_facts, opened.approval_id, opened.answer, stored.after)


def _is_recorded(read_facts: ReadFacts, approval_id: ApprovalId, body: bytes, after: int) -> bool:
    wanted, place = _fact_of(approval_id, body), after
    while place - after < MAX_SEARCH and (facts := read_facts(place, PAGE)):
        if any(fact.step is steps.ANSWER_GIVEN and fact.data == wanted for _, fact in facts):
            return True
        place = facts[-1][0]
    return False


def _fact_of(approval_id: ApprovalId, body: bytes) -> JsonObject:
    return {"approval_id": approval_id, "digest": digest_of_bytes(body)}


def _unreadable(approval_id: ApprovalId) -> Refused:
    message = "another version of agenttool asks it; answer it with that one"
    return Refused(approval_id=approval_id, reason=RefusalReason.UNKNOWN, message=message)


_EDITED = "the stored question differs from the one in the journal; list the questions again, or verify the journal"
