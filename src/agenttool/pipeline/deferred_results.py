"""Receives the results of deferred calls, and cancels, lists and ends the calls that wait for one."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeAlias

from agenttool.codec import parse_object, read_stored
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.cancellation import failure_of_stop, request_cancel
from agenttool.pipeline.checkpoint import Checkpoint, CheckpointKind, save_deferred_checkpoint
from agenttool.pipeline.completion import fail
from agenttool.pipeline.remote_wait import withdraw_call
from agenttool.pipeline.resume import deliver_result, restore_call, resume_deferred
from agenttool.pipeline.tool import Tool
from agenttool.policy.approvals import Approver
from agenttool.ports.deferred import RESULT_PREFIX, AnswerStatus, PendingCall, result_key
from agenttool.ports.stores import OpenCall, OpenCalls
from agenttool.records import AbortReason, InvocationId, ToolId, ToolResult

PAGE = 256

_RESULTS = 32
"""How many results are read at a time: each may be large."""

ClaimedCall: TypeAlias = tuple[Call, Tool, Checkpoint, OpenCall]


@dataclass(slots=True, eq=False)
class DeferredResults:
    """The calls of a runtime that wait for a deferred result, parked or not."""

    core: Core
    calls: OpenCalls
    tool_of: Callable[[ToolId], Tool | None]
    _resumed: "set[asyncio.Task[ToolResult | None]]" = field(default_factory=set["asyncio.Task[ToolResult | None]"])

    async def deliver(self, invocation_id: InvocationId, body: bytes) -> AnswerStatus:
        """Store the result of a call, once, and resume the call."""
        await self.core.host.ensure_lease()
        key = result_key(invocation_id)
        status = await self.calls.answer(key, body, now_ns=self.core.now_ns())
        if status is AnswerStatus.ACCEPTED and not deliver_result(self.core, key, body):
            self._resume(await self._claim(invocation_id))
        return status

    async def pending(self, invocation_id: InvocationId) -> PendingCall | None:
        """Return a call that waits for a result and has none; none if it does not."""
        opened = await self.calls.get(invocation_id)
        return None if opened is None or opened.answer is not None else _pending(opened)

    async def waiting(self, *, after: InvocationId | None = None, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls of every process that wait for a result, the oldest first."""
        begin = None if after is None else result_key(after)
        found = map(_pending, await self.calls.awaiting_answer(after=begin, limit=limit, prefix=RESULT_PREFIX))
        return tuple(each for each in found if each is not None)

    async def unsettled(self, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls of every process that have a result and have not ended, in the order of the results."""
        found: list[PendingCall] = []
        after = 0
        while len(found) < limit and (page := await self.calls.answers(after=after, limit=_RESULTS)):
            after = page[-1].number
            for recorded in page:
                is_result = recorded.approval_id.startswith(RESULT_PREFIX)
                opened = await self.calls.by_approval(recorded.approval_id) if is_result else None
                pending = None if opened is None else _pending(opened)
                if pending is not None:
                    found.append(pending)
        return tuple(found[:limit])

    async def cancel(self, invocation_id: InvocationId, reason: AbortReason, by: Approver | None = None) -> bool:
        """Cancel a parked call; return whether it was canceled before its result arrived."""
        found = await self._claim(invocation_id)
        if found is None:
            return False
        call, tool, checkpoint, opened = found
        if opened.answer is not None:
            self._resume(found)
            return False
        call.final_input = parse_object(checkpoint.call_input)
        if not request_cancel(call, reason, by):
            save_deferred_checkpoint(call, CheckpointKind.REMOTE, opened.expires_at_ns, is_unowned=True)
            await self.calls.settle()
            return False
        if tool.later is not None:
            await withdraw_call(call, tool.later)
        await fail(call, failure_of_stop(call))
        return True

    async def note(self, invocation_id: InvocationId, write: Callable[[Call], None]) -> None:
        """Write facts about a waiting call; skipped if another process owns it, which alone may write them."""
        here = self.core.registry.calls.get(invocation_id)
        if here is not None:
            write(here)
            return
        found = await self._claim(invocation_id)
        if found is None:
            return
        call, _, checkpoint, opened = found
        if opened.answer is None:
            call.final_input = parse_object(checkpoint.call_input)
            write(call)
            save_deferred_checkpoint(call, CheckpointKind(opened.kind), opened.expires_at_ns, is_unowned=True)
            await self.calls.settle()
            seen = await self.calls.get(invocation_id)
            found = None if seen is None or seen.answer is None else await self._claim(invocation_id)
        self._resume(found)

    def overdue(self, invocation_id: InvocationId) -> None:
        """End a call whose result did not arrive in time, unless it has arrived."""
        self._spawn(self._end_overdue(invocation_id))

    async def stop(self) -> None:
        """Wait for the calls that were resumed; on a store in memory, cancel those that wait, too."""
        if not self.core.durable:
            while found := await self.waiting(limit=PAGE):
                canceled = [await self.cancel(each.invocation_id, AbortReason.RUNTIME_SHUTDOWN) for each in found]
                if not any(canceled):
                    break
        await asyncio.gather(*self._resumed, return_exceptions=True)

    async def _end_overdue(self, invocation_id: InvocationId) -> ToolResult | None:
        found = await self._claim(invocation_id)
        return None if found is None else await resume_deferred(*found)

    async def _claim(self, invocation_id: InvocationId) -> ClaimedCall | None:
        """Claim a call that is parked or whose process is dead; none if it is owned, or its tool is unknown here."""
        await self.core.host.ensure_lease()
        seen = await self.calls.get(invocation_id)
        checkpoint = None if seen is None else _deferred_checkpoint(seen)
        tool = None if checkpoint is None else self.tool_of(checkpoint.tool_id)
        if checkpoint is None or tool is None:
            return None
        opened = await self.calls.claim_one(invocation_id, now=self.core.clock.moment())
        if opened is None:
            return None
        return restore_call(self.core, opened, checkpoint, tool), tool, checkpoint, opened

    def _resume(self, found: ClaimedCall | None) -> None:
        if found is not None:
            self._spawn(resume_deferred(*found))

    def _spawn(self, work: Coroutine[object, object, ToolResult | None]) -> None:
        task = asyncio.create_task(work)  # noqa: TID251 -- `stop` waits for it
        self._resumed.add(task)
        task.add_done_callback(self._resumed.discard)


def _deferred_checkpoint(opened: OpenCall) -> Checkpoint | None:
    is_deferred = opened.kind in (CheckpointKind.SENDING, CheckpointKind.REMOTE)
    return read_stored(opened.body, Checkpoint) if is_deferred else None


def _pending(opened: OpenCall) -> PendingCall | None:
    checkpoint = _deferred_checkpoint(opened)
    if checkpoint is None or checkpoint.thread is None:
        return None
    return PendingCall(
        invocation_id=opened.invocation_id,
        tool_id=checkpoint.tool_id,
        name=checkpoint.name,
        call_input=parse_object(checkpoint.call_input),
        thread=checkpoint.thread,
        native_call_id=checkpoint.native_call_id,
        is_sent=opened.kind == CheckpointKind.REMOTE,
        expires_at_ns=opened.expires_at_ns,
    )
