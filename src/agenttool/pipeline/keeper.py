"""Looks after the calls of a durable store: says that we live, hears answers from elsewhere, and takes up orphans."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from agenttool.catalog.surface import Surface
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError, StoreError
from agenttool.journal.fold import invocation_of
from agenttool.pipeline.approval import misfit_of
from agenttool.pipeline.bound_answer import bind_answer, hear_answer, is_forged
from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.faithful import unfaithful
from agenttool.pipeline.held import Held, Point, read_held
from agenttool.pipeline.parking import can_park, park
from agenttool.pipeline.resume import end_begun, let_leave, recalled, resume_call
from agenttool.pipeline.resume_late import go_on_late, hand_in
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Answer, Answered, Approvals, Question, RefusalReason, Refused
from agenttool.ports.later import LATE
from agenttool.ports.stores import BEGUN, OpenCall, OpenCalls, Taken, TakenForDead
from agenttool.records import ApprovalId, InvocationId, ToolId, ToolResult

LOOK_EVERY_S = 0.2
"""How soon an answer from another process is heard."""

TAKE_UP_EVERY_S = 2.0
"""How soon the calls of a process that died are taken up."""

ABANDONED_AFTER_S = 86_400.0
"""After so long without any process that has its tool, a call is ended by whoever sees it; not while it may wait."""

AT_ONCE = 64
"""How many orphans are taken up together."""


def _no_surface(held: Held) -> Surface | None:
    """Give none: whoever made this keeper makes no surfaces."""


@dataclass(slots=True, eq=False)
class Keeper:
    """One for each runtime on a durable store. It runs in a task of its own from the first use to the close.

    Two keepers never go on with the same call: to take one is a transaction, which only one of them makes. What this
    process has no tool for, or cannot read, it leaves alone: another one may know it, and so may this one later.
    """

    core: Core
    calls: OpenCalls
    tool_of: Callable[[ToolId], Tool | None]
    _task: "asyncio.Task[None] | None" = None
    _is_known: bool = False
    surface_of: Callable[[Held], Surface | None] = _no_surface
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _renewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _renewed: float = 0.0
    """When we said last that we live, by the loop's clock."""
    _left: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    """Calls that nobody here can go on with, each with the moment after which nobody will."""
    _going_on: "set[asyncio.Task[ToolResult]]" = field(default_factory=set["asyncio.Task[ToolResult]"])
    _heard: int = 0
    fault: str | None = None
    """Why the store could not be used at the last look; none if it could."""
    _early: dict[ApprovalId, bytes] = field(default_factory=dict[ApprovalId, bytes])
    """Answers to calls of this process that do not wait for them yet."""

    async def start(self) -> None:
        """Say that we live, and begin to look; once is enough.

        Raises:
            StoreError: it could not be said, and whoever comes next has to say it.
        """
        if self._is_known:
            return
        async with self._starting:
            if not self._is_known:
                await self._renew()
                self._is_known = True
                self.core.is_awake = True
                self._task = asyncio.create_task(self._look())  # noqa: TID251 -- `stop` is its parent

    async def stop(self) -> None:
        """End the looking, and wait for the calls that were taken up; they were asked to stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.gather(*self._going_on, return_exceptions=True)

    async def take_up(self) -> int:
        """Take up the calls of processes that died, as far as this one has their tools; tell how many."""
        await self.start()
        taken, after = 0, None
        async with self._taking:  # an answer may come while we look
            while due := await self._due(after):
                after = due[-1].invocation_id
                mine = [opened.invocation_id for opened in due if self._is_ours(opened)]
                await self._stay_alive()
                now = self.core.moment()
                # Its owner may only have been slow, and have gone on with it, or left it, since we looked.
                took = await asyncio.gather(*(self.calls.take(each, now=now, if_due=True) for each in mine))
                for opened in took:
                    if opened is not None:
                        self._go_on(opened)
                        taken += 1
        return taken

    async def _due(self, after: InvocationId | None) -> Sequence[OpenCall]:
        """Give some calls of the dead; none as long as we may pass for dead ourselves, for then ours are among them."""
        await self._stay_alive()
        if self.core.deadlines.now() - self._renewed >= self.core.lease_s:
            return ()  # to say that we live took so long that it is over
        return await self.calls.due(now=self.core.moment(), after=after, limit=AT_ONCE)

    async def questions(self, limit: int, after: ApprovalId | None = None) -> tuple[Question, ...]:
        """Give the open questions of all processes, the oldest first, from after one of them.

        What cannot be read is passed over, and is no end of the list.
        """
        found: list[Question] = []
        while len(found) < limit and (page := await self.calls.parked(limit=limit - len(found), after=after)):
            held = map(_read, page)
            found += [each.question for each in held if each is not None and each.question is not None]
            after = page[-1].approval_id
        return tuple(found)

    async def question(self, approval_id: ApprovalId) -> Question | None:
        """Give one question of any process, as long as it is open."""
        opened = await self.calls.by_approval(approval_id)
        held = None if opened is None or opened.answer is not None else _read(opened)
        return None if held is None else held.question

    async def answer(self, approval_id: ApprovalId, words: Answer, *, by: str) -> Answered | Refused:
        """Answer a question of any process; the first answer stands, in whichever process it came."""
        approval_id = ApprovalId(str(approval_id))
        opened = await self.calls.by_approval(approval_id)
        held = None if opened is None else _read(opened)
        question = None if held is None else held.question
        if opened is not None and held is not None and self._is_edited(opened, held):
            return Refused(approval_id=approval_id, reason=RefusalReason.OTHER_QUESTION, message=_EDITED)
        if question is None:
            return _refused(approval_id, await self._why_closed(approval_id) if opened is None else None)
        book = Approvals()
        book.open(question)
        outcome = misfit_of(self.core, question, words) or book.answer(
            approval_id, words, by=by, now=timestamp(self.core.now_ns())
        )
        if isinstance(outcome, Refused):
            return outcome
        taken = await self.calls.answer(approval_id, bind_answer(self.core, outcome), now_ns=self.core.now_ns())
        if taken is not Taken.TAKEN:
            return _refused(approval_id, taken)
        if await self._hear():
            await self.take_up()
        return outcome

    def _is_edited(self, opened: OpenCall, held: Held) -> bool:
        """Tell whether somebody would answer another question than the one that was asked."""
        return unfaithful(opened.kind, held, self.core.journal.log.facts_of(opened.invocation_id)) is not None

    async def last_word(self, question: Question) -> Answered | None:
        """Give the answer that the store has for a question, though this process has not heard of it yet."""
        with suppress(StoreError):
            opened = await self.calls.by_approval(question.approval_id)
            if opened is not None and opened.answer is not None:
                return self._heard_as(question, opened.answer)
        return None

    def _heard_as(self, question: Question, body: bytes) -> Answered | None:
        return hear_answer(self.core.journal.log.read, question, body)

    async def _look(self) -> None:
        now = self.core.deadlines.now
        taken_up = 0.0
        while True:
            try:
                await self._stay_alive()
                is_news = await self._hear()
                if is_news or now() - taken_up > TAKE_UP_EVERY_S:
                    taken_up = now()
                    await self.take_up()
                self.fault = None
            except StoreError as error:  # a disk that fails now may be back by the next look
                self.fault = str(error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _why_closed(self, approval_id: ApprovalId) -> Taken:
        return Taken.ANSWERED if await self.calls.was_answered(approval_id) else Taken.UNKNOWN

    async def _stay_alive(self) -> None:
        """Say again that we live, unless we said so only just now."""
        async with self._renewing:
            if self.core.deadlines.now() - self._renewed <= self.core.lease_s / 3:
                return
            try:
                await self._renew()
            except TakenForDead:
                await self._begin_anew()

    async def _begin_anew(self) -> None:
        """Go on under another name after having been taken for dead; what only waits here, waits elsewhere now."""
        for invocation_id in self.calls.begin_anew():
            call = cast("Call | None", self.core.calls.get(invocation_id))
            if call is not None and can_park(call):
                park(call)
        await self._renew()

    async def _renew(self) -> None:
        began = self.core.deadlines.now()
        await self.calls.renew(self.core.moment().after(round(self.core.lease_s * 1e9)))
        self._renewed = began

    async def _hear(self) -> bool:
        """Hand answers to the calls of this process that wait for them; tell whether there were any for others."""
        is_news = False
        for given in await self.calls.answers(after=self._heard, limit=1000):
            self._heard = given.number
            if given.approval_id.startswith(LATE):
                is_news |= not hand_in(self.core, given.approval_id, given.body)
            elif self.core.approvals.get(given.approval_id) is None:
                is_news = True
            else:
                self._early[given.approval_id] = given.body
        for approval_id, body in tuple(self._early.items()):
            question = self.core.approvals.get(approval_id)
            waiting = self.core.waiting.get(approval_id)
            if question is not None and waiting is None:
                continue  # it is on disk that it waits, and any moment now it will
            with suppress(StoreError):  # it is read again with the next look
                answered = None if question is None else self._heard_as(question, body)
                del self._early[approval_id]
                if waiting is not None and not waiting.done():
                    waiting.set_result(answered)
        return is_news

    def _is_ours(self, opened: OpenCall) -> bool:
        if not self._can_go_on(opened):
            return False  # whatever spoiled the log, the calls after this one go on
        if opened.kind == BEGUN:
            return True
        held = _read(opened)
        return (held is not None and self.tool_of(held.tool_id) is not None) or self._is_abandoned(opened)

    def _can_go_on(self, opened: OpenCall) -> bool:
        """Tell whether the log can be read, and does not say that the call has ended: then somebody put it back."""
        log = self.core.journal.log
        try:
            known = invocation_of(log.facts_of(opened.invocation_id))
            is_forged(log.read, opened)
        except (StoreError, RecordError):
            return False
        return known is None or not known.status.is_terminal

    def _is_abandoned(self, opened: OpenCall) -> bool:
        """Tell whether a call has waited so long for a process with its tool that none will come.

        One that waits for days for an answer may have it at last: it is kept, and its tool may be back any moment.
        """
        if opened.invocation_id not in self._left:
            facts = self.core.journal.log.facts_of(opened.invocation_id)
            begun_ns = facts[-1].at_ns if facts else 0
            until_ns = (opened.expires_at_ns or 0) if opened.kind in (Point.SENDING, Point.AWAY) else 0
            self._left[opened.invocation_id] = max(begun_ns + round(ABANDONED_AFTER_S * 1e9), until_ns)
        return self.core.now_ns() > self._left[opened.invocation_id]

    def _go_on(self, opened: OpenCall) -> None:
        held = None if opened.kind == BEGUN else _read(opened)
        tool = None if held is None else self.tool_of(held.tool_id)
        call = recalled(self.core, opened, held, tool)
        call.surface = None if held is None else self.surface_of(held)
        self.core.calls[call.invocation_id] = call  # before anybody asks whether something is under way
        self._left.pop(call.invocation_id, None)
        if call.made is not None:
            going_on = let_leave(call, call.made)
        elif held is None or tool is None:
            going_on = end_begun(call)
        elif Point(opened.kind).is_late:
            going_on = go_on_late(call, tool, held, opened)
        else:
            question, body = held.question, opened.answer
            answered = self._heard_as(question, body) if question is not None and body is not None else None
            going_on = resume_call(call, tool, held, answered)
        task = asyncio.create_task(going_on)  # noqa: TID251 -- `stop` waits for it
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)


def _read(opened: OpenCall) -> Held | None:
    """Read a call; none if another version wrote it, which may come back for it."""
    try:
        return read_held(opened.body) if opened.kind in list(Point) else None
    except RecordError:
        return None


def _refused(approval_id: ApprovalId, taken: Taken | None) -> Refused:
    reason = RefusalReason.UNKNOWN if taken is None else _REASONS[taken]
    return Refused(approval_id=approval_id, reason=reason, message=_MESSAGES[taken])


_EDITED = "what is kept of this question is not what the journal says was asked; list it anew, or verify the journal"
_REASONS = {
    Taken.TAKEN: RefusalReason.UNKNOWN,
    Taken.ANSWERED: RefusalReason.ANSWERED,
    Taken.EXPIRED: RefusalReason.EXPIRED,
    Taken.UNKNOWN: RefusalReason.UNKNOWN,
}
_MESSAGES = {
    None: "another version of agenttool asks it; answer it with that one",
    Taken.TAKEN: "it was asked only just now; look again",
    Taken.ANSWERED: "it was answered already; the first answer stands",
    Taken.EXPIRED: "it has expired; call the tool again to be asked again",
    Taken.UNKNOWN: "there is no such question; list the open ones",
}
