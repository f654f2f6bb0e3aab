"""An answer as the store keeps it until its call hears it, bound to the log so that nobody can forge one unseen.

Answers stand beside the log, where whoever can edit the file could write one that nobody gave. So whoever takes one
notes its digest as a fact in the same transaction, and whoever hears one looks for that fact. The digest gives nothing
away: what it is of holds a salt, and goes when the call goes on.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from agenttool.codec import digest_of_bytes, read_own, write_own
from agenttool.errors import RecordError
from agenttool.journal import steps
from agenttool.pipeline.core import Core
from agenttool.pipeline.held import Point
from agenttool.policy.approvals import Allow, Answer, Answered, Approvals, Deny, Edit, Question, Remember
from agenttool.ports.facts import Fact
from agenttool.ports.stores import OpenCall
from agenttool.records import ApprovalId, JsonObject, Part, Timestamp

ReadOn: TypeAlias = Callable[[int, int], Sequence[tuple[int, Fact]]]
"""Gives so many facts after a position."""

PORTION = 100
"""How many facts are read at a time when an answer is looked for."""

FURTHEST = 200_000
"""How many facts may have been written while an answer was on its way to disk; more than may wait for one."""

UNTOLD = "nothing was run: the journal tells of no such answer, so somebody may have forged it; verify the journal"


class GivenWords(Part, frozen=True, kw_only=True):
    """What was said, by whom and when; and where in the log to begin to look for the fact that tells of it."""

    by: str
    allow: bool
    updated_input: JsonObject | None = None
    rule: JsonObject | None = None
    words: str | None = None
    at: Timestamp | None = None
    after: int | None = None
    salt: bytes | None = None

    @property
    def answer(self) -> Answer:
        """The answer as it was given."""
        if not self.allow:
            return Deny(message=self.words)
        if self.updated_input is not None:
            return Edit(updated_input=self.updated_input, feedback=self.words)
        return Remember(rule=self.rule, feedback=self.words) if self.rule is not None else Allow(feedback=self.words)


def bind_answer(core: Core, answered: Answered) -> bytes:
    """Note that an answer is given, and spell it for the store, which keeps both or neither."""
    said = answered.answer
    given = GivenWords(
        by=answered.by,
        allow=not isinstance(said, Deny),
        updated_input=said.updated_input if isinstance(said, Edit) and isinstance(said.updated_input, dict) else None,
        rule=said.rule if isinstance(said, Remember) else None,
        words=said.message if isinstance(said, Deny) else said.feedback,
        at=answered.at,
        after=core.journal.log.last,
        salt=core.ids.secret(),
    )
    body = write_own(given)
    core.journal.note_apart(steps.ANSWER_GIVEN, _told(answered.question.approval_id, body))
    return body


def hear_answer(read_on: ReadOn, question: Question, body: bytes) -> Answered | None:
    """Read an answer that the store kept; one that the log does not tell of refuses, whatever it says.

    Nothing comes of what cannot be read.

    Raises:
        StoreError: the log could not be read.
    """
    given = _read(body)
    if given is None:
        return None
    said, by, at = given.answer, given.by, given.at
    if not _is_told(read_on, question.approval_id, body, given.after):
        said, by, at = Deny(message=UNTOLD), "agenttool", None
    book = Approvals()
    book.open(question)
    outcome = book.answer(question.approval_id, said, by=by, now=at or question.asked_at)
    return outcome if isinstance(outcome, Answered) else None


def is_forged(read_on: ReadOn, opened: OpenCall) -> bool:
    """Tell whether an answer is kept for a call that the log does not tell of; results that come later are not bound.

    Raises:
        StoreError: the log could not be read.
    """
    if opened.answer is None or opened.approval_id is None or opened.kind != Point.ASKED:
        return False
    given = _read(opened.answer)
    return given is None or not _is_told(read_on, opened.approval_id, opened.answer, given.after)


def _read(body: bytes) -> GivenWords | None:
    try:
        return read_own(body, GivenWords)
    except RecordError:
        return None


def _is_told(read_on: ReadOn, approval_id: ApprovalId, body: bytes, after: int | None) -> bool:
    told, place = _told(approval_id, body), after
    while place is not None and after is not None and place - after < FURTHEST:
        facts = read_on(place, PORTION)
        if any(fact.step is steps.ANSWER_GIVEN and fact.data == told for _, fact in facts):
            return True
        place = facts[-1][0] if facts else None
    return False


def _told(approval_id: ApprovalId, body: bytes) -> JsonObject:
    return {"approval_id": approval_id, "digest": digest_of_bytes(body)}
