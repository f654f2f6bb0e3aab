"""Looks after the calls of a durable store: says that we live, hears answers from elsewhere, and takes up orphans."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agenttool.codec import read_own, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.journal.moments import timestamp
from agenttool.pipeline.approval import misfit_of
from agenttool.pipeline.core import Core
from agenttool.pipeline.held import read_held
from agenttool.pipeline.read_back import READ_BACK_ID
from agenttool.pipeline.resume import recalled, resume_call
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Answered,
    Approvals,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    Remember,
)
from agenttool.ports.stores import OpenCall, OpenCalls, Taken
from agenttool.records import ApprovalId, JsonObject, Part, ToolId, ToolResult

LOOK_EVERY_S = 0.2
"""How soon an answer from another process is heard."""

TAKE_UP_EVERY_S = 2.0
"""How soon the calls of a process that died are taken up."""

AT_ONCE = 64
"""How many orphans are taken up together."""


class GivenWords(Part, frozen=True, kw_only=True):
    """An answer as the store keeps it, with who gave it."""

    by: str
    allow: bool
    updated_input: JsonObject | None = None
    rule: JsonObject | None = None
    words: str | None = None

    @property
    def answer(self) -> Answer:
        """The answer as it was given."""
        if not self.allow:
            return Deny(message=self.words)
        if self.updated_input is not None:
            return Edit(updated_input=self.updated_input, feedback=self.words)
        return Remember(rule=self.rule, feedback=self.words) if self.rule is not None else Allow(feedback=self.words)


def words_of(answered: Answered) -> bytes:
    """Write an answer for the store."""
    said = answered.answer
    given = GivenWords(
        by=answered.by,
        allow=not isinstance(said, Deny),
        updated_input=said.updated_input if isinstance(said, Edit) and isinstance(said.updated_input, dict) else None,
        rule=said.rule if isinstance(said, Remember) else None,
        words=said.message if isinstance(said, Deny) else said.feedback,
    )
    return write_own(given)


@dataclass(slots=True, eq=False)
class Keeper:
    """One for each runtime on a durable store. It runs in a task of its own from the first use to the close."""

    core: Core
    calls: OpenCalls
    tool_of: Callable[[ToolId], Tool | None]
    _task: "asyncio.Task[None] | None" = None
    _going_on: "set[asyncio.Task[ToolResult]]" = field(default_factory=set["asyncio.Task[ToolResult]"])
    _heard: int = 0
    _unclaimed: dict[ApprovalId, bytes] = field(default_factory=dict[ApprovalId, bytes])

    async def start(self) -> None:
        """Say that we live, and begin to look; once is enough."""
        if self._task is None:
            self._task = asyncio.create_task(self._look())  # noqa: TID251 -- `stop` is its parent
            await self._renew()

    async def stop(self) -> None:
        """End the looking, and wait for the calls that were taken up; they were asked to stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.gather(*self._going_on, return_exceptions=True)

    async def take_up(self) -> int:
        """Take up the calls of processes that died, as far as this one has their tools; tell how many."""
        await self._hear()
        if all(entry.tool_id == READ_BACK_ID for entry in self.core.tools):
            return 0  # whoever only answers questions must not keep calls from those who can go on with them
        taken = 0
        for opened in await self.calls.claim(now_ns=self.core.now_ns(), limit=AT_ONCE):
            taken += self._go_on(opened)
        return taken

    async def questions(self, limit: int) -> tuple[Question, ...]:
        """Give the open questions of all processes, the oldest first."""
        found: list[Question] = []
        for opened in await self.calls.parked(limit=limit):
            with suppress(RecordError):  # one that another version wrote is for that version to ask about
                question = read_held(opened.body).question
                if question is not None:
                    found.append(question)
        return tuple(found)

    async def answer(self, approval_id: ApprovalId, words: Answer, *, by: str) -> Answered | Refused:
        """Answer a question of any process; the first answer stands, in whichever process it came."""
        opened = await self.calls.by_approval(approval_id)
        question = None if opened is None else read_held(opened.body).question
        book = Approvals()
        if question is not None:
            book.open(question)
            refused = misfit_of(self.core, question, words)
            if refused is not None:
                return refused
        outcome = book.answer(approval_id, words, by=by, now=timestamp(self.core.now_ns()))
        if isinstance(outcome, Refused):
            return outcome
        taken = await self.calls.answer(approval_id, words_of(outcome), now_ns=self.core.now_ns())
        if taken is not Taken.TAKEN:
            return Refused(approval_id=approval_id, reason=_REASONS[taken], message=_MESSAGES[taken])
        await self._hear()
        return outcome

    async def _look(self) -> None:
        now = self.core.deadlines.now
        renewed, taken_up = now(), 0.0
        while True:
            with suppress(StoreError):  # a disk that fails now may be back by the next look
                if now() - renewed > self.core.lease_s / 3:
                    await self._renew()
                    renewed = now()
                await self._hear()
                if self._unclaimed or now() - taken_up > TAKE_UP_EVERY_S:
                    await self.take_up()
                    taken_up = now()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _renew(self) -> None:
        await self.calls.renew(self.core.now_ns() + round(self.core.lease_s * 1e9))

    async def _hear(self) -> None:
        """Hand answers to the calls of this process that wait for them, and remember the others."""
        for given in await self.calls.answers(after=self._heard, limit=1000):
            self._heard = given.number
            waiting = self.core.waiting.get(given.approval_id)
            question = self.core.approvals.get(given.approval_id)
            if waiting is None or question is None:
                self._unclaimed[given.approval_id] = given.body
            elif not waiting.done():
                waiting.set_result(_answered(question, given.body))

    def _go_on(self, opened: OpenCall) -> bool:
        try:
            held = read_held(opened.body)
        except RecordError:
            return False  # another version wrote it, and may come back for it
        tool = self.tool_of(held.tool_id)
        if tool is None:
            return False  # it stays ours until we close; then a process that has the tool may take it
        body = self._unclaimed.pop(held.question.approval_id, None) if held.question is not None else None
        answered = _answered(held.question, body) if held.question is not None and body is not None else None
        going_on = resume_call(recalled(self.core, opened, held, tool), tool, held, answered)
        task = asyncio.create_task(going_on)  # noqa: TID251 -- `stop` waits for it
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return True


def _answered(question: Question, body: bytes) -> Answered | None:
    """Read an answer that the store kept; it was checked when it was given."""
    words = read_own(body, GivenWords)
    book = Approvals()
    book.open(question)
    outcome = book.answer(question.approval_id, words.answer, by=words.by, now=question.asked_at)
    return outcome if isinstance(outcome, Answered) else None


_REASONS = {
    Taken.ANSWERED: RefusalReason.ANSWERED,
    Taken.EXPIRED: RefusalReason.EXPIRED,
    Taken.UNKNOWN: RefusalReason.UNKNOWN,
}
_MESSAGES = {
    Taken.ANSWERED: "it was answered already; the first answer stands",
    Taken.EXPIRED: "it has expired; call the tool again to be asked again",
    Taken.UNKNOWN: "there is no such question; list the open ones",
}
