"""Recovery of a durable store: keep the lease, poll for answers, and resume the calls of dead processes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agenttool.catalog.surface import Surface
from agenttool.codec import read_stored, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.journal.projection import invocation_of
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.cancellation import request_cancel
from agenttool.pipeline.checkpoint import Checkpoint, CheckpointKind
from agenttool.pipeline.lease import Lease
from agenttool.pipeline.resume import (
    cancel_call,
    deliver_made_result,
    deliver_result,
    end_without_checkpoint,
    is_overdue,
    restore_call,
    resume_call,
    resume_deferred,
    resume_planned,
)
from agenttool.pipeline.services import RuleMemory
from agenttool.pipeline.stored_approvals import StoredApprovals, checkpoint_in, is_forged
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Answer, Answered, Approver, Refused
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.stores import NO_CHECKPOINT, LeaseExpired, OpenCall, RecoverableCalls
from agenttool.records import AbortReason, ApprovalId, Digest, InvocationId, Part, ToolId, ToolResult

POLL_S = 0.2
"""How often answers from other processes are polled."""

RECOVER_EVERY_S = 2.0
"""How often calls of dead processes are looked for."""

ABANDONED_AFTER_S = 86_400.0
"""After so long without a process that has its tool, a call is ended; not while it waits for a deferred result."""

CANCEL_REQUEST = "cancel_request"
"""The kind of the documents that ask the owner of a call to cancel it; the key is the call."""

_DEFERRED = (CheckpointKind.SENDING, CheckpointKind.REMOTE)

PAGE = 64
"""How many calls of dead processes are claimed together."""

log = logging.getLogger("agenttool.calls")


class CancelRequest(Part, frozen=True, kw_only=True):
    """The request of another process to cancel a call."""

    reason: AbortReason
    by: Approver


_Claimed = tuple[OpenCall, CancelRequest | None]


@dataclass(slots=True, eq=False)
class Recovery:
    """The recovery of one runtime. It runs in a task of its own from the first use to the close.

    Claiming a call is a transaction, so two processes never resume the same one. A call whose tool is unknown here, or
    whose checkpoint cannot be read, is left to other processes.
    """

    core: Core
    calls: RecoverableCalls
    tool_of: Callable[[ToolId], Tool | None]
    surface_of: Callable[[Checkpoint], Surface | None]
    is_reachable: Callable[[ToolId], bool]
    remembered: RuleMemory
    approvals: StoredApprovals = field(init=False)
    fault: str | None = None
    """Why the store could not be used at the last poll; none if it could."""
    _task: "asyncio.Task[None] | None" = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    _lease: Lease = field(init=False)
    _abandoned_ns: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    """Calls that cannot be resumed here, each with the time from which it counts as abandoned."""
    _resumed: "set[asyncio.Task[ToolResult]]" = field(default_factory=set["asyncio.Task[ToolResult]"])
    _last_answer: int = 0
    _is_due: bool = False
    """Whether to look for calls of dead processes at the next poll: one was answered, or one that was resumed ended."""
    _missing: set[ToolId] = field(default_factory=set[ToolId])
    """The tools of calls that wait for a process that has them, as far as that was logged."""
    _early: dict[ApprovalId, bytes] = field(default_factory=dict[ApprovalId, bytes])
    """Answers to calls of this process that do not wait for them yet."""

    def __post_init__(self) -> None:
        """Create the lease, and the stored approvals."""
        self._lease = Lease(self.core, self.calls)
        self.approvals = StoredApprovals(self.core, self.calls)

    async def start(self) -> None:
        """Acquire the lease and start the task; later calls do nothing.

        Raises:
            StoreError: the lease could not be written; the next call tries again.
        """
        if self.core.durability.has_lease:
            return
        async with self._starting:
            if not self.core.durability.has_lease:
                await self._lease.acquire()
                self._task = asyncio.create_task(self._poll())  # noqa: TID251 -- `stop` is its parent

    async def stop(self) -> None:
        """Stop the task, and wait for the calls that were resumed; they were asked to stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.gather(*self._resumed, return_exceptions=True)

    async def recover(self) -> int:
        """Resume the calls of dead processes whose tools are known here; return how many."""
        await self.start()
        count, after = 0, None
        async with self._claiming:  # an answer may arrive meanwhile
            await self._end_canceled()
            while due := await self._due(after):
                after = due[-1].invocation_id
                resumable = [opened.invocation_id for opened in due if self._can_recover(opened)]
                self._warn_of_missing_tools(due)
                await self._lease.keep()
                # A slow owner may have renewed its lease, or released the call, since `due` was read.
                claiming = (self._claim(each, if_due=True) for each in resumable)
                count += self._resume_all(await asyncio.gather(*claiming, return_exceptions=True))
            return count + await self._resume_unanswered()

    def _resume_all(self, claimed: Sequence[_Claimed | BaseException | None]) -> int:
        """Resume the claimed calls in the given order and return how many; then raise the first failed claim.

        Raises:
            StoreError: a call could not be claimed.
        """
        calls = [each for each in claimed if isinstance(each, tuple)]
        if self.core.host.is_closed:
            return 0  # the next process resumes them: a closed runtime owns no calls
        for opened, canceled in calls:
            self._resume(opened, canceled)
        for fault in claimed:
            if isinstance(fault, BaseException):
                raise fault
        return len(calls)

    def _warn_of_missing_tools(self, due: Sequence[OpenCall]) -> None:
        """Log the tools that calls of dead processes wait for and that this process does not have, each tool once."""
        for opened in due:
            checkpoint = checkpoint_in(opened)
            if checkpoint is None or checkpoint.tool_id in self._missing or self.tool_of(checkpoint.tool_id):
                continue
            self._missing.add(checkpoint.tool_id)
            log.warning(
                "%s waits for its tool %r: its process is gone, and this process does not have the tool; open a runtime"
                " with the tool or its source, or run: agenttool approvals --from MODULE",
                opened.invocation_id,
                checkpoint.name,
            )

    async def _resume_unanswered(self) -> int:
        """Resume calls of dead processes that wait for an answer, if the program has an approver to ask."""
        count, after = 0, None
        while self.core.questions.approve and (page := await self.calls.awaiting_answer(after=after, limit=PAGE)):
            after = page[-1].approval_id
            others = (each for each in page if each.owner != self.calls.owner)
            for waiting in filter(self._can_recover, others):
                await self._lease.keep()
                count += await self._recover_one(waiting.invocation_id) is not None
        return count

    async def _due(self, after: InvocationId | None) -> Sequence[OpenCall]:
        """Return due calls of dead processes; none if our lease may have expired: then they include our own."""
        await self._lease.keep()
        if not self._lease.is_valid:
            return ()
        return await self.calls.due(now=self.core.clock.moment(), after=after, limit=PAGE)

    async def answer(
        self, approval_id: ApprovalId, given: Answer, *, by: Approver, shown_digest: Digest | None = None
    ) -> Answered | Refused:
        """Record the answer to a question of any process, and deliver it if its call waits here."""
        await self._end_orphan(ApprovalId(str(approval_id)))
        outcome = await self.approvals.answer(ApprovalId(str(approval_id)), given, by=by, shown_digest=shown_digest)
        if isinstance(outcome, Answered):
            await self.start()
            # The next poll resumes the call of a dead process: this process may be about to end.
            self._is_due |= await self._deliver_answers()
        return outcome

    async def _end_orphan(self, approval_id: ApprovalId) -> None:
        """End the nested call that a question is about, if no one takes its result any more."""
        opened = await self.calls.by_approval(approval_id)
        checkpoint = None if opened is None else checkpoint_in(opened)
        if opened is None or checkpoint is None or checkpoint.parent_invocation_id is None:
            return
        await self.start()
        async with self._claiming:
            await self._lease.keep()
            if opened.answer is None and self._can_recover(opened):
                resumed = await self._recover_one(opened.invocation_id)
                if resumed is not None:
                    await resumed

    async def cancel(self, invocation_id: InvocationId, reason: AbortReason, by: Approver) -> bool:
        """Cancel a call of another process; return whether it was ended, or its owner was asked to cancel it.

        The request is stored first. The owner polls for it, and a process that claims the call reads it.
        """
        opened = await self.calls.get(invocation_id)
        if opened is None or not self._can_cancel(opened):
            return False
        await self.start()
        request = write_own(CancelRequest(reason=reason, by=by))
        await self.core.durability.documents.put(CANCEL_REQUEST, invocation_id, request)
        async with self._claiming:
            await self._lease.keep()
            resumed = await self._recover_one(invocation_id)
        return resumed is None or (await resumed).error is not None  # its process may have made a result

    def _can_cancel(self, opened: OpenCall) -> bool:
        """Return whether a call can be canceled without its tool; the server of a deferred call must be asked."""
        return self._is_resumable(opened) and opened.kind not in _DEFERRED

    async def _deliver_cancel_requests(self) -> None:
        """Cancel the calls of this process that another one asked to cancel."""
        documents, calls = self.core.durability.documents, self.core.registry.calls
        if not calls:
            return
        for key, body in await documents.page(CANCEL_REQUEST, limit=1000):
            call = calls.get(InvocationId(key))
            request = read_stored(body, CancelRequest)
            if call is not None and request is not None:
                request_cancel(call, request.reason, request.by)

    async def _end_canceled(self) -> None:
        """End the calls of dead processes that were asked to cancel, and delete the requests for calls that ended."""
        documents = self.core.durability.documents
        for key in await documents.keys(CANCEL_REQUEST, limit=1000):
            invocation_id = InvocationId(key)
            opened = await self.calls.get(invocation_id)
            if opened is None:
                await documents.put(CANCEL_REQUEST, key, None)
            elif opened.owner != self.calls.owner and self._can_cancel(opened):
                await self._lease.keep()
                if self._lease.is_valid:
                    await self._recover_one(invocation_id)

    async def _poll(self) -> None:
        now = self.core.timing.deadlines.now
        recovered_at = 0.0
        while True:
            try:
                await self._lease.keep()
                self._is_due |= await self._deliver_answers()
                await self._deliver_cancel_requests()
                if self._is_due or now() - recovered_at > RECOVER_EVERY_S:
                    recovered_at, self._is_due = now(), False
                    await self.remembered.sync()
                    await self.recover()
                self.fault = None
            except StoreError as error:  # the disk may work again at the next poll
                self.fault = str(error)
            await asyncio.sleep(POLL_S)

    async def _deliver_answers(self) -> bool:
        """Deliver new answers to the calls of this process; return whether there were any for other calls."""
        has_other_answers = False
        for recorded in await self.calls.answers(after=self._last_answer, limit=1000):
            self._last_answer = recorded.number
            if recorded.approval_id.startswith(RESULT_PREFIX):
                has_other_answers |= not deliver_result(self.core, recorded.approval_id, recorded.body)
            elif self.core.questions.book.get(recorded.approval_id) is None:
                has_other_answers = True
            else:
                self._early[recorded.approval_id] = recorded.body
        for approval_id, body in tuple(self._early.items()):
            question = self.core.questions.book.get(approval_id)
            waiting = self.core.questions.waiting.get(approval_id)
            if question is not None and waiting is None:
                continue  # the checkpoint is on disk, and the call is about to wait
            with suppress(StoreError):  # it is read again with the next poll
                answered = None if question is None else self.approvals.load(question, body)
                del self._early[approval_id]
                if waiting is not None and not waiting.done():
                    waiting.set_result(answered)
        return has_other_answers

    def _can_recover(self, opened: OpenCall) -> bool:
        """Return whether this process can resume or end a call; an unreadable log stops only this one."""
        if not self._is_resumable(opened):
            return False
        if opened.kind == NO_CHECKPOINT:
            return True
        checkpoint = checkpoint_in(opened)
        if checkpoint is not None and checkpoint.parent_invocation_id is not None:
            return self._can_recover_nested(opened, checkpoint, checkpoint.parent_invocation_id)
        if checkpoint is not None and not all(map(self._has_ended, checkpoint.depends_on or ())):
            return False  # it is planned, and waits
        return (checkpoint is not None and self._can_run(opened, checkpoint)) or self._is_abandoned(opened)

    def _can_run(self, opened: OpenCall, checkpoint: Checkpoint) -> bool:
        """Return whether the tool of a call is known; and if the call has to be sent, whether its server answers.

        A call that is overdue is not sent again.
        """
        if self.tool_of(checkpoint.tool_id) is None:
            return False
        is_unsent = opened.kind in (CheckpointKind.PLANNED, CheckpointKind.SENDING) and opened.answer is None
        return not is_unsent or self.is_reachable(checkpoint.tool_id) or is_overdue(opened, self.core.now_ns())

    def _has_ended(self, invocation_id: InvocationId) -> bool:
        known = invocation_of(self.core.journal.log.facts_of(invocation_id))
        return known is None or known.status.is_terminal

    def _can_recover_nested(self, opened: OpenCall, checkpoint: Checkpoint, parent_id: InvocationId) -> bool:
        """Return whether this process can resume a nested call, for which its parent waits here, or end it without one.

        The parent takes its result. If the parent has ended or cannot be resumed, no one does, and no one need answer.
        """
        if not checkpoint.parent_resumes:
            return True
        parent = self.core.registry.calls.get(parent_id)
        if parent is not None and opened.invocation_id in parent.ensure_nesting().awaited:
            is_asked = opened.kind == CheckpointKind.ASKED and opened.answer is None
            is_waiting = is_asked and (opened.expires_at_ns or 0) > self.core.now_ns()
            return (not is_waiting or self.core.questions.approve is not None) and self._can_run(opened, checkpoint)
        return self._has_ended(parent_id)

    def _is_resumable(self, opened: OpenCall) -> bool:
        """Return whether the log can be read and has no end of the call; with an end, its row was restored by hand."""
        log = self.core.journal.log
        try:
            known = invocation_of(log.facts_of(opened.invocation_id))
            is_forged(log.read, opened)  # raises if the log cannot be read
        except (StoreError, RecordError):
            return False
        return known is None or not known.status.is_terminal

    def _is_abandoned(self, opened: OpenCall) -> bool:
        """Return whether no process with the tool of a call was seen for `ABANDONED_AFTER_S`.

        A call that waits for a deferred result is abandoned after its expiry at the earliest.
        """
        if opened.invocation_id not in self._abandoned_ns:
            facts = self.core.journal.log.facts_of(opened.invocation_id)
            last_ns = facts[-1].at_ns if facts else 0
            expires_ns = (opened.expires_at_ns or 0) if opened.kind in _DEFERRED else 0
            self._abandoned_ns[opened.invocation_id] = max(last_ns + round(ABANDONED_AFTER_S * 1e9), expires_ns)
        return self.core.now_ns() > self._abandoned_ns[opened.invocation_id]

    async def _recover_one(self, invocation_id: InvocationId) -> "asyncio.Task[ToolResult] | None":
        """Claim a call and resume or cancel it; none if it cannot be claimed."""
        claimed = await self._claim(invocation_id)
        return None if claimed is None else self._resume(*claimed)

    async def _claim(self, invocation_id: InvocationId, *, if_due: bool = False) -> _Claimed | None:
        """Claim a call; return it with the request to cancel it, or none if it cannot be claimed."""
        try:
            opened = await self.calls.claim_one(invocation_id, now=self.core.clock.moment(), if_due=if_due)
        except LeaseExpired:  # this process was suspended for longer than its lease; the next poll claims the call
            self._is_due, opened = True, None
        if opened is None:
            return None
        body = await self.core.durability.documents.get(CANCEL_REQUEST, invocation_id)
        return opened, None if body is None else read_stored(body, CancelRequest)

    def _resume(self, opened: OpenCall, canceled: CancelRequest | None) -> "asyncio.Task[ToolResult]":
        checkpoint = None if opened.kind == NO_CHECKPOINT else checkpoint_in(opened)
        tool = None if checkpoint is None else self.tool_of(checkpoint.tool_id)
        call = restore_call(self.core, opened, checkpoint, tool)
        call.surface = None if checkpoint is None else self.surface_of(checkpoint)
        self.core.registry.calls[call.invocation_id] = call  # before anything asks which calls are open
        self._abandoned_ns.pop(call.invocation_id, None)
        made = call.ensure_recovery().unreleased
        if made is not None:
            work = deliver_made_result(call, made)
        elif canceled is not None and not (opened.kind in _DEFERRED and opened.answer is not None):
            work = cancel_call(call, opened.kind, canceled.reason, canceled.by)
        else:
            work = self._work_of(call, opened, checkpoint, tool)
        task = asyncio.create_task(work)  # noqa: TID251 -- `stop` waits for it
        self._resumed.add(task)
        task.add_done_callback(self._resume_ended)
        return task

    def _resume_ended(self, task: "asyncio.Task[ToolResult]") -> None:
        self._resumed.discard(task)
        self._is_due = True  # a planned call may depend on the one that ended

    def _work_of(
        self, call: Call, opened: OpenCall, checkpoint: Checkpoint | None, tool: Tool | None
    ) -> Coroutine[object, object, ToolResult]:
        if checkpoint is None or tool is None:
            return end_without_checkpoint(call)
        if opened.kind in _DEFERRED:
            return resume_deferred(call, tool, checkpoint, opened)
        if opened.kind == CheckpointKind.PLANNED:
            return resume_planned(call, checkpoint)
        question, body = checkpoint.question, opened.answer
        answered = self.approvals.load(question, body) if question is not None and body is not None else None
        return resume_call(call, tool, checkpoint, answered)
