"""Recovery of a durable store: keep the lease, poll for answers, and resume the calls of dead processes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agenttool.call.approval import questions_for_rules
from agenttool.call.call import Call, Core
from agenttool.call.checkpoint import DEFERRED_KINDS, Checkpoint, CheckpointKind, checkpoint_in
from agenttool.call.failures import park, request_cancel
from agenttool.call.services import Tasks, retrieve_exception
from agenttool.call.tool import Tool
from agenttool.catalog.surface import Surface
from agenttool.codec import read_stored, write_own
from agenttool.durable.resume import (
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
from agenttool.durable.stored_approvals import StoredApprovals, is_forged
from agenttool.errors import RecordError, StoreError
from agenttool.journal.projection import invocation_of
from agenttool.policy.approvals import Answer, Answered, Approver, ByRules, Question, Refused
from agenttool.policy.decide import Policy
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.ports.stores import NO_CHECKPOINT, LeaseExpired, LeaseLost, OpenCall, RecoverableCalls, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import AbortReason, ApprovalId, Digest, InvocationId, Part, ToolId, ToolResult


class Lease:
    """The lease that this process has in a durable store. `Recovery` keeps it as long as the runtime is open."""

    def __init__(self, core: Core, calls: RecoverableCalls) -> None:
        self._core = core
        self._calls = calls
        self.tasks = Tasks()
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at = 0.0
        """When it was renewed last, by the clock of the event loop."""

    @property
    def is_valid(self) -> bool:
        """Whether it surely has not expired."""
        return self._age_s < self._core.durability.lease_s

    async def acquire(self) -> None:
        """Register the lease.

        Raises:
            StoreError: it could not be written.
        """
        await self._renew()
        self._core.durability.has_lease = True

    async def keep(self) -> None:
        """Renew the lease unless it was renewed recently; continue under a new owner if it was lost.

        Raises:
            StoreError: it could not be written.
        """
        if self._age_s <= self._core.durability.lease_s / 3:
            return
        if self._renewing is None:  # all that wait share one renewal, also one that fails
            self._renewing = self.tasks.start(self._renew_or_replace())
            self._renewing.add_done_callback(retrieve_exception)
        await asyncio.shield(self._renewing)

    async def _renew_or_replace(self) -> None:
        try:
            await self._renew()
        except LeaseLost:
            await self._replace_owner()
        finally:
            self._renewing = None

    @property
    def _age_s(self) -> float:
        return self._core.timing.deadlines.now() - self._renewed_at

    async def _renew(self) -> None:
        durability, began = self._core.durability, self._core.timing.deadlines.now()
        await self._calls.renew_lease(self._core.clock.moment().after(round(durability.lease_s * 1e9)))
        self._renewed_at = began
        durability.renewals_s = (durability.renewals_s[1], self._age_s)

    async def _replace_owner(self) -> None:
        """Continue under a new owner name; the calls of the earlier one stop here, because others may have them."""
        for invocation_id in self._calls.replace_owner():
            call = self._core.registry.calls.get(invocation_id)
            if call is not None:
                park(call)
        await self._renew()


POLL_S = 0.2
"""How often answers from other processes are polled."""

RECOVER_EVERY_S = 2.0
"""How often calls of dead processes are looked for."""

ABANDONED_AFTER_S = 86_400.0
"""After so long without a process that has its tool, a call is ended; not while it waits for a deferred result."""

CANCEL_REQUEST = "cancel_request"
"""The kind of the documents that ask the owner of a call to cancel it; the key is the call."""


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
    surface_of: Callable[[Checkpoint], Surface | None]
    approvals: StoredApprovals = field(init=False)
    fault: str | None = None
    """Why the store could not be used at the last poll; none if it could."""
    _task: "asyncio.Task[None] | None" = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    _lease: Lease = field(init=False)
    _abandoned_ns: dict[InvocationId, int] = field(default_factory=dict[InvocationId, int])
    """Calls that cannot be resumed here, each with the time from which it counts as abandoned."""
    _tasks: Tasks = field(default_factory=Tasks)
    """The tasks that claim calls, and those that resume them."""
    _last_answer: int = 0
    _are_rules_new: bool = True
    _judged_by: Policy | None = None
    """The policy by which the questions of dead processes were last judged; none if one could not be resumed."""
    _living: frozenset[str] = frozenset()
    """The processes that were alive then; their questions are judged here once they are dead."""
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
        """Acquire the lease and start the task; later calls renew the lease if that is due.

        Raises:
            StoreError: the lease could not be written; the next call tries again.
        """
        if self.core.durability.has_lease:
            await self._lease.keep()
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
        await self._lease.tasks.wait()
        await self._tasks.wait()

    def judge_soon(self) -> None:
        """Judge the open questions again at the next poll, because rules were added or removed."""
        self._are_rules_new = self._is_due = True

    async def judge_waiting(self) -> None:
        """Withdraw the open questions of this process and of dead processes that rules decide now.

        Other live processes have their own rules, and judge their questions themselves.
        """
        await self.core.host.remembered.sync()
        if self._are_rules_new:
            self._are_rules_new = False
            for approval_id in questions_for_rules(self.core):
                await self.answer(approval_id, ByRules(), by=Approver())
            async with self._claiming:
                await self._resume_unanswered()

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
                # A slow owner may have renewed its lease, or released the call, since `due` was read.
                count += len(await self._recover_calls(resumable, if_due=True))
            return count + await self._resume_unanswered()

    async def _recover_calls(
        self, calls: Sequence[InvocationId], *, if_due: bool = False
    ) -> "Sequence[asyncio.Task[ToolResult]]":
        """Claim calls, and resume or cancel those that could be claimed, in the given order; return their tasks.

        A cancellation of the caller does not stop this: no other process could resume a call that was claimed here.

        Raises:
            StoreError: a call could not be claimed or resumed.
        """
        return await asyncio.shield(self._tasks.start(self._claim_and_resume(calls, if_due=if_due)))

    async def _claim_and_resume(
        self, calls: Sequence[InvocationId], *, if_due: bool
    ) -> "Sequence[asyncio.Task[ToolResult]]":
        claiming = (self._claim(each, if_due=if_due) for each in calls)
        claimed = await asyncio.gather(*claiming, return_exceptions=True)
        if self.core.host.is_closed:
            return ()  # the next process resumes them: a closed runtime owns no calls
        faults = [each for each in claimed if isinstance(each, BaseException)]
        resumed: list[asyncio.Task[ToolResult]] = []
        for each in claimed:
            if isinstance(each, tuple):
                try:
                    resumed.append(self._resume(*each))
                except StoreError as fault:
                    self._release(each[0])
                    faults.append(fault)
        for fault in faults:
            raise fault
        return resumed

    def _release(self, opened: OpenCall) -> None:
        """Make a claimed call due for every process, because it could not be resumed."""
        self.core.registry.calls.pop(opened.invocation_id, None)
        saved = (opened.invocation_id, opened.kind, opened.body, opened.approval_id, opened.expires_at_ns)
        self.calls.save(SavedCheckpoint(*saved, due_at_ns=0, is_unowned=True))

    def _warn_of_missing_tools(self, due: Sequence[OpenCall]) -> None:
        """Log the tools that calls of dead processes wait for and that this process does not have, each tool once."""
        for opened in due:
            checkpoint = checkpoint_in(opened)
            if checkpoint is None or checkpoint.tool_id in self._missing or self._tool_of(checkpoint):
                continue
            self._missing.add(checkpoint.tool_id)
            log.warning(
                "%s waits for its tool %r: its process is gone, and this process does not have the tool; open a runtime"
                " with the tool or its source, or run: agenttool approvals --from MODULE",
                opened.invocation_id,
                checkpoint.name,
            )

    async def _resume_unanswered(self) -> int:
        """Resume calls of dead processes that wait for an answer, if the program has an approver or rules decide."""
        count, after = 0, None
        has_approver, policy, living = self.core.questions.approve is not None, self.core.policy, self._living
        self._living = frozenset(await self.calls.processes(self._last_lease))
        is_judged = self._judged_by is policy and living <= self._living  # no process died since
        self._judged_by = policy
        while not (is_judged and not has_approver) and (
            page := await self.calls.awaiting_answer(after=after, limit=PAGE)
        ):
            after = page[-1].approval_id
            others = self._living | {self.calls.owner}
            for waiting in (each for each in page if each.owner not in others):
                if has_approver or self.approvals.is_decided_by_rules(waiting):
                    await self.start()
                    can_recover = self._can_recover(waiting, is_decided=True)
                    is_resumed = can_recover and await self._recover_one(waiting.invocation_id) is not None
                    if is_resumed and not has_approver and waiting.approval_id is not None:
                        self.approvals.withdrawn.add(waiting.approval_id)
                    elif not is_resumed:  # its parent may be about to wait for it
                        self._judged_by = None
                    count += is_resumed
        return count

    @property
    def _last_lease(self) -> Moment:
        return self.core.durability.last_lease(self.core.clock.moment())

    async def _due(self, after: InvocationId | None) -> Sequence[OpenCall]:
        """Return due calls of dead processes; none if our lease may have expired: then they include our own."""
        await self._lease.keep()
        if not self._lease.is_valid:
            return ()
        return await self.calls.due(now=self._last_lease, after=after, limit=PAGE)

    async def answer(
        self, approval_id: ApprovalId, given: Answer, *, by: Approver, shown: Question | Digest | None = None
    ) -> Answered | Refused:
        """Record the answer to a question of any process, and deliver it if its call waits here."""
        approval_id = ApprovalId(str(approval_id))
        if approval_id in self.core.questions.waiting:
            await self.core.journal.log.settle()  # the approver of the program may be faster than the disk
        await self._end_orphan(approval_id)
        outcome = await self.approvals.answer(approval_id, given, by=by, shown=shown)
        if isinstance(outcome, Answered):
            await self.start()
            # The next poll resumes the call of a dead process: this process may be about to end.
            self._is_due |= await self._deliver_answers()
        return outcome

    async def _end_orphan(self, approval_id: ApprovalId) -> None:
        """End the nested call that a question is about, if no caller waits for its result any more."""
        opened = await self.calls.by_approval(approval_id)
        checkpoint = checkpoint_in(opened)
        if opened is None or checkpoint is None or checkpoint.parent_invocation_id is None:
            return
        await self.start()
        async with self._claiming:
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
            resumed = await self._recover_one(invocation_id)
        return resumed is None or (await resumed).error is not None  # its process may have produced a result

    def _can_cancel(self, opened: OpenCall) -> bool:
        """Return whether a call can be canceled without its tool; the server of a deferred call must be asked."""
        return self._is_resumable(opened) and opened.kind not in DEFERRED_KINDS

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
                await self._recover_one(invocation_id)

    async def _poll(self) -> None:
        """Renew the lease and look for work in two tasks, so that slow work does not delay a renewal."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_lease())
            group.create_task(self._look_for_work())

    async def _keep_lease(self) -> None:
        while True:
            with suppress(StoreError):  # `_look_for_work` reports it
                await self._lease.keep()
            await asyncio.sleep(self.core.durability.lease_s / 10)

    async def _look_for_work(self) -> None:
        now = self.core.timing.deadlines.now
        recovered_at = 0.0
        while True:
            try:
                await self._lease.keep()
                self._is_due |= await self._deliver_answers()
                await self._deliver_cancel_requests()
                if self._is_due or now() - recovered_at > RECOVER_EVERY_S:
                    recovered_at, self._is_due = now(), False
                    await self.judge_waiting()
                    await self.recover()
                self._report(None)
            except StoreError as error:  # the disk may work again at the next poll
                self._report(str(error))
            await asyncio.sleep(POLL_S)

    def _report(self, fault: str | None) -> None:
        """Remember whether the store can be used; log when that changes."""
        if self.fault is None and fault is not None:
            log.warning("the store cannot be used: %s", fault)
        elif self.fault is not None and fault is None:
            log.warning("the store can be used again")
        self.fault = fault

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
                answered = self.approvals.load(question, body)
                del self._early[approval_id]
                if waiting is not None and not waiting.done():
                    waiting.set_result(answered)
        return has_other_answers

    def _can_recover(self, opened: OpenCall, *, is_decided: bool = False) -> bool:
        """Return whether this process can resume or end a call; an unreadable log stops only this one.

        A nested call whose parent waits here is left to its approver, unless its question is decided.
        """
        if not self._is_resumable(opened):
            return False
        if opened.kind == NO_CHECKPOINT:
            return True
        checkpoint = checkpoint_in(opened)
        if checkpoint is not None and checkpoint.parent_invocation_id is not None:
            is_decided |= self.core.questions.approve is not None
            return self._can_recover_nested(opened, checkpoint, checkpoint.parent_invocation_id, is_decided=is_decided)
        if checkpoint is not None and not all(map(self._has_ended, checkpoint.depends_on or ())):
            return False  # it is planned, and waits
        return (checkpoint is not None and self._can_run(opened, checkpoint)) or self._is_abandoned(opened)

    def _can_run(self, opened: OpenCall, checkpoint: Checkpoint) -> bool:
        """Return whether the tool of a call is known; and if the call has to be sent, whether its server answers.

        A call that is overdue is not sent again.
        """
        tool = self._tool_of(checkpoint)
        if tool is None:
            return False
        is_unsent = opened.kind in (CheckpointKind.PLANNED, CheckpointKind.SENDING) and opened.answer is None
        if not is_unsent or is_overdue(opened, self.core.now_ns()):
            return True
        server = self.core.host.source_status(tool.entry.tool.declaration.namespace)
        return server is None or server.is_ready

    def _tool_of(self, checkpoint: Checkpoint) -> Tool | None:
        return self.core.host.tool_of(checkpoint.tool_id)

    def _has_ended(self, invocation_id: InvocationId) -> bool:
        known = invocation_of(self.core.journal.log.facts_of(invocation_id))
        return known is None or known.status.is_terminal

    def _can_recover_nested(
        self, opened: OpenCall, checkpoint: Checkpoint, parent_id: InvocationId, *, is_decided: bool
    ) -> bool:
        """Return whether this process can resume a nested call, for which its parent waits here, or end it without one.

        The parent takes its result. If the parent has ended or cannot be resumed, no one does, and no one need answer.
        """
        if not checkpoint.parent_resumes:
            return True
        parent = self.core.registry.calls.get(parent_id)
        if parent is not None and opened.invocation_id in parent.ensure_nesting().awaited:
            is_asked = opened.kind == CheckpointKind.ASKED and opened.answer is None
            is_waiting = is_asked and (opened.expires_at_ns or 0) > self.core.now_ns()
            return (is_decided or not is_waiting) and self._can_run(opened, checkpoint)
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
            expires_ns = (opened.expires_at_ns or 0) if opened.kind in DEFERRED_KINDS else 0
            self._abandoned_ns[opened.invocation_id] = max(last_ns + round(ABANDONED_AFTER_S * 1e9), expires_ns)
        return self.core.now_ns() > self._abandoned_ns[opened.invocation_id]

    async def _recover_one(self, invocation_id: InvocationId) -> "asyncio.Task[ToolResult] | None":
        """Claim a call and resume or cancel it; none if it cannot be claimed."""
        resumed = await self._recover_calls([invocation_id])
        return resumed[0] if resumed else None

    async def _claim(self, invocation_id: InvocationId, *, if_due: bool = False) -> _Claimed | None:
        """Claim a call; return it with the request to cancel it, or none if it cannot be claimed."""
        if invocation_id in self.core.registry.calls:
            return None  # this process lost its lease, and has not stopped the call yet
        await self._lease.keep()
        body = await self.core.durability.documents.get(CANCEL_REQUEST, invocation_id)  # a poll finds a later one
        try:
            opened = await self.calls.claim_one(invocation_id, now=self._last_lease, if_due=if_due)
        except LeaseExpired:  # this process was suspended for longer than its lease; the next poll claims the call
            self._is_due, opened = True, None
        if opened is None:
            return None
        return opened, None if body is None else read_stored(body, CancelRequest)

    def _resume(self, opened: OpenCall, canceled: CancelRequest | None) -> "asyncio.Task[ToolResult]":
        checkpoint = checkpoint_in(opened)
        tool = None if checkpoint is None else self._tool_of(checkpoint)
        call = restore_call(self.core, opened, checkpoint, tool)
        call.surface = None if checkpoint is None else self.surface_of(checkpoint)
        self.core.registry.add(call)  # first, so that it counts as open
        self._abandoned_ns.pop(call.invocation_id, None)
        made = call.ensure_recovery().unreleased
        if made is not None:
            work = deliver_made_result(call, made)
        elif canceled is not None and not (opened.kind in DEFERRED_KINDS and opened.answer is not None):
            question = None if checkpoint is None or opened.kind != CheckpointKind.ASKED else checkpoint.question
            work = cancel_call(call, opened.kind, question, canceled.reason, canceled.by)
        else:
            work = self._work_of(call, opened, checkpoint, tool)
        task = self._tasks.start(work)
        task.add_done_callback(self._resume_ended)
        return task

    def _resume_ended(self, _: object) -> None:
        self._is_due = True  # a planned call may depend on the one that ended

    def _work_of(
        self, call: Call, opened: OpenCall, checkpoint: Checkpoint | None, tool: Tool | None
    ) -> Coroutine[object, object, ToolResult]:
        if checkpoint is None or tool is None:
            return end_without_checkpoint(call)
        if opened.kind in DEFERRED_KINDS:
            return resume_deferred(call, tool, checkpoint, opened)
        if opened.kind == CheckpointKind.PLANNED:
            return resume_planned(call, checkpoint)
        return resume_call(call, tool, checkpoint, self.approvals.load(checkpoint.question, opened.answer))
