"""Deferred calls: receive their results and prompts, cancel, list and end the calls that wait for one."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from agenttool.call.call import Call, Core
from agenttool.call.checkpoint import DEFERRED_KINDS, Checkpoint, CheckpointKind, checkpoint_in, save_checkpoint
from agenttool.call.completion import fail
from agenttool.call.evidence import Progressed
from agenttool.call.failures import failure_of_stop, request_cancel
from agenttool.call.running import withdraw_call
from agenttool.call.services import Tasks
from agenttool.call.tool import Tool
from agenttool.codec import read_stored, write_own
from agenttool.durable.resume import deliver_result, restore_call, resume_deferred
from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.policy.approvals import Approver
from agenttool.ports.deferred import (
    PROMPTS,
    RESULT_PREFIX,
    AnswerStatus,
    PendingCall,
    Prompt,
    PromptKind,
    PromptOutcome,
    ReplyOutcome,
    result_key,
)
from agenttool.ports.stores import DocumentStore, OpenCall, OpenCalls
from agenttool.records import (
    AbortReason,
    InvocationId,
    InvocationStatus,
    Part,
    ProgressStatus,
    replace,
)

PAGE = 256

_RESULTS = 32
"""How many results are read at a time: each may be large."""

ClaimedCall: TypeAlias = tuple[Call, Tool, Checkpoint, OpenCall]


@dataclass(slots=True, eq=False)
class DeferredResults:
    """The calls of a runtime that wait for a deferred result, parked or not."""

    core: Core
    _tasks: Tasks = field(default_factory=Tasks)

    @property
    def calls(self) -> OpenCalls:
        """The checkpoints of the calls."""
        return self.core.durability.checkpoints

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
                pending = _pending(opened)
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
        call.final_input = checkpoint.arguments
        if not request_cancel(call, reason, by):
            await self._release(call, CheckpointKind.REMOTE, opened.expires_at_ns)
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
            call.final_input = checkpoint.arguments
            write(call)
            await self._release(call, CheckpointKind(opened.kind), opened.expires_at_ns)
            seen = await self.calls.get(invocation_id)
            found = None if seen is None or seen.answer is None else await self._claim(invocation_id)
        self._resume(found)

    async def _release(self, call: Call, kind: CheckpointKind, expires_at_ns: int | None) -> None:
        """Leave a claimed call to the process that receives its result."""
        save_checkpoint(call, kind, call.final_input, expires_at_ns=expires_at_ns, is_unowned=True)
        await self.calls.settle()

    def overdue(self, invocation_id: InvocationId) -> None:
        """End a call whose result did not arrive in time, unless it has arrived."""
        self._tasks.start(self._end_overdue(invocation_id))

    async def stop(self) -> None:
        """Wait for the calls that were resumed; on a store in memory, cancel those that wait, too."""
        if not self.core.durable:
            while found := await self.waiting(limit=PAGE):
                canceled = [await self.cancel(each.invocation_id, AbortReason.RUNTIME_SHUTDOWN) for each in found]
                if not any(canceled):
                    break
        await self._tasks.wait()

    async def _end_overdue(self, invocation_id: InvocationId) -> None:
        self._resume(await self._claim(invocation_id))

    async def _claim(self, invocation_id: InvocationId) -> ClaimedCall | None:
        """Claim a call that is parked or whose process is dead; none if it is owned, or its tool is unknown here."""
        await self.core.host.ensure_lease()
        checkpoint = _deferred_checkpoint(await self.calls.get(invocation_id))
        tool = None if checkpoint is None else self.core.host.tool_of(checkpoint.tool_id)
        if checkpoint is None or tool is None:
            return None
        opened = await self.calls.claim_one(invocation_id, now=self.core.clock.moment())
        if opened is None:
            return None
        return restore_call(self.core, opened, checkpoint, tool), tool, checkpoint, opened

    def _resume(self, found: ClaimedCall | None) -> None:
        if found is not None:
            self._tasks.start(resume_deferred(*found))


def _deferred_checkpoint(opened: OpenCall | None) -> Checkpoint | None:
    return checkpoint_in(opened) if opened is not None and opened.kind in DEFERRED_KINDS else None


def _pending(opened: OpenCall | None) -> PendingCall | None:
    checkpoint = _deferred_checkpoint(opened)
    if opened is None or checkpoint is None or checkpoint.thread is None:
        return None
    return PendingCall(
        invocation_id=opened.invocation_id,
        tool_id=checkpoint.tool_id,
        name=checkpoint.name,
        call_input=checkpoint.arguments,
        thread=checkpoint.thread,
        native_call_id=checkpoint.native_call_id,
        is_sent=opened.kind == CheckpointKind.REMOTE,
        expires_at_ns=opened.expires_at_ns,
    )


UNDELIVERED = "prompt.undelivered"
REDELIVER_EVERY_S = 2.0
"""How often an answer is delivered again to a tool that was not reachable."""

_PAGE = 1000
_REMEMBERED = 16
"""How many earlier prompts of a call are remembered, to recognise one that is sent again."""


class Chosen(Part, frozen=True, kw_only=True):
    """The outcome of an answer to a prompt.

    Attributes:
        is_taken: it was accepted; only the first answer is.
        is_delivered: the tool has acknowledged it.
    """

    prompt_id: str
    is_taken: bool
    is_delivered: bool = False
    message: str


@dataclass(slots=True, eq=False)
class Prompts:
    """The open prompts in a store, of all processes: at most one for each call."""

    documents: DocumentStore
    deferred: DeferredResults
    _redelivering: "asyncio.Task[None] | None" = None
    _in_flight: set[InvocationId] = field(default_factory=set[InvocationId])

    def start(self) -> None:
        """Start to deliver answers that tools have not acknowledged, also those of dead processes."""
        self._redelivering = asyncio.create_task(self._run())  # noqa: TID251 -- `stop` is its parent

    async def stop(self) -> None:
        """Stop delivering; the next process delivers the rest."""
        if self._redelivering is not None:
            self._redelivering.cancel()
            with suppress(asyncio.CancelledError):
                await self._redelivering

    async def _run(self) -> None:
        while True:
            with suppress(StoreError):  # the disk may work again at the next attempt
                for key, _ in await self.documents.page(UNDELIVERED, limit=_PAGE):
                    await self._redeliver(InvocationId(key))
            await asyncio.sleep(REDELIVER_EVERY_S)

    async def _redeliver(self, key: InvocationId) -> None:
        body = await self.documents.get(PROMPTS, key)
        prompt = read_stored(body, Prompt)
        is_waiting = await self.deferred.pending(key) is not None
        if is_waiting and body and prompt and prompt.selected is not None and prompt.reply_to is not None:
            await self._deliver(prompt, prompt.selected, body)
        else:  # It was delivered or replaced. The swap fails if a new prompt was stored or answered meanwhile.
            await self.documents.swap(PROMPTS, key, before=body, after=body, beside={(UNDELIVERED, str(key)): None})

    async def ask(self, prompt: Prompt, most: int) -> PromptOutcome:
        """Store a prompt in place of the one before, if its call waits and had fewer than `most` prompts.

        A prompt that was stored before, answered or not, is not stored again.
        """
        key = prompt.invocation_id
        if await self.deferred.pending(key) is None:
            return PromptOutcome.NOT_AWAITED
        while True:
            body = await self.documents.get(PROMPTS, key)
            before = read_stored(body, Prompt)
            earlier = () if before is None else (*before.asked_before, before.prompt_id)[-_REMEMBERED:]
            if prompt.prompt_id in earlier:
                return PromptOutcome.PUT_UP
            number = 1 if before is None else before.number + 1
            if number > most:
                return PromptOutcome.TOO_MANY
            after = write_own(replace(prompt, asked_before=earlier, number=number))
            if await self.documents.swap(PROMPTS, key, before=body, after=after, erases=body is not None):
                break
        await self.deferred.note(key, _needs_input)
        return PromptOutcome.PUT_UP

    async def pending(self, limit: int = _PAGE) -> tuple[Prompt, ...]:
        """Return the prompts without an answer, and delete those of ended calls."""
        found: list[Prompt] = []
        for key, body in await self.documents.page(PROMPTS, limit=limit):
            prompt = read_stored(body, Prompt)
            if await self.deferred.pending(InvocationId(key)) is None:
                await self.documents.swap(PROMPTS, key, before=body, after=None, erases=True)
            elif prompt is not None and prompt.selected is None:
                found.append(prompt)
        return tuple(found)

    async def choose(self, prompt_id: str, selected: int | None) -> Chosen:
        """Record a user's choice; none selects the default. The first answer stands."""
        key = call_of(prompt_id)
        body = await self.documents.get(PROMPTS, key)
        prompt = read_stored(body, Prompt)
        if prompt is None or prompt.prompt_id != prompt_id or await self.deferred.pending(key) is None:
            return _refused(prompt_id, "there is no such prompt any more; list the open ones")
        chosen = prompt.default if selected is None else selected
        rejection = _rejection_of(prompt, chosen)
        if rejection is not None or chosen is None:
            return _refused(prompt_id, rejection or "nothing was chosen")
        answered = replace(prompt, selected=chosen)
        after, undelivered = write_own(answered), {(UNDELIVERED, str(key)): b""}
        if not await self.documents.swap(PROMPTS, key, before=body, after=after, beside=undelivered):
            return _refused(prompt_id, "it has changed meanwhile; look again")
        with suppress(StoreError):  # the choice is stored; only the note about it is missing
            await self.deferred.note(key, _has_input)
        outcome = await self._deliver(answered, chosen, after)
        return Chosen(
            prompt_id=prompt_id,
            is_taken=True,
            is_delivered=outcome is ReplyOutcome.ACCEPTED,
            message=_MESSAGES[outcome],
        )

    async def _deliver(self, prompt: Prompt, selected: int, body: bytes) -> ReplyOutcome:
        """Deliver an answer; `body` is the prompt as it is stored."""
        tool, key = self.deferred.core.host.tool_of(prompt.tool_id), prompt.invocation_id
        if tool is None or tool.later is None or key in self._in_flight:
            return ReplyOutcome.AWAY
        self._in_flight.add(key)
        try:
            outcome = await tool.later.reply(prompt, selected)
        finally:
            self._in_flight.discard(key)
        if outcome is not ReplyOutcome.AWAY:
            # The entry stays until the call ends, to recognise the same prompt; the reply address is not needed.
            delivered = replace(prompt, is_delivered=outcome is ReplyOutcome.ACCEPTED, reply_to=None)
            beside = {(UNDELIVERED, str(key)): None}
            await self.documents.swap(PROMPTS, key, before=body, after=write_own(delivered), beside=beside)
        return outcome


_MESSAGES = {
    ReplyOutcome.ACCEPTED: "the tool has received it",
    ReplyOutcome.REFUSED: "the tool accepts no choice any more; its own limit ends the wait",
    ReplyOutcome.AWAY: "it is stored; the tool is unreachable, and receives it when it is back",
}


def call_of(prompt_id: str) -> InvocationId:
    """Return the call of a prompt; both ids contain the same unique part."""
    return InvocationId("inv_" + prompt_id.partition("_")[2].rpartition("-")[0])


def _rejection_of(prompt: Prompt, chosen: object) -> str | None:
    """Return why a choice is rejected; none if it is valid."""
    if prompt.selected is not None:
        return "it was answered already; the first answer counts"
    if prompt.kind is not PromptKind.CHOICE:
        return "nothing can be chosen here; open its URL, and the call goes on by itself"
    if type(chosen) is not int or not 0 <= chosen < len(prompt.choices):
        return f"there is no choice {chosen!r}; take one from 0 to {len(prompt.choices) - 1}"
    return None


def _needs_input(call: Call) -> None:
    call.counts.progress += 1
    progress = Progressed(call.counts.progress, ProgressStatus.WAITING_FOR_INPUT, "a person is asked")
    call.note(steps.BACKGROUNDED if call.status is InvocationStatus.NEEDS_INPUT else steps.NEEDS_INPUT, progress)


def _has_input(call: Call) -> None:
    if call.status is InvocationStatus.NEEDS_INPUT:
        call.note(steps.INPUT_GIVEN)


def _refused(prompt_id: str, message: str) -> Chosen:
    return Chosen(prompt_id=prompt_id, is_taken=False, message=message)


class DeferredCalls:
    """The calls that wait for a deferred result: `rt.deferred`. It receives results and prompts from their servers."""

    def __init__(self, results: DeferredResults, prompts: Prompts, is_closed: Callable[[], bool]) -> None:
        self._results = results
        self._prompts = prompts
        self._is_closed = is_closed

    async def list(self, *, after: InvocationId | None = None, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls of every process that wait for a deferred result, the oldest first."""
        return await self._results.waiting(after=after, limit=limit)

    async def unsettled(self, *, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls that have a stored result and have not ended, because no process has their tool.

        They end as soon as a process declares it.
        """
        return await self._results.unsettled(limit)

    async def get(self, invocation_id: InvocationId) -> PendingCall | None:
        """Return a call that waits for a deferred result; None if it does not wait."""
        return await self._results.pending(invocation_id)

    async def deliver(self, invocation_id: InvocationId, body: bytes) -> AnswerStatus:
        """Store the result of a deferred call, in the format of its tool; the first result stands.

        Raises:
            StoreError: it could not be stored, or the runtime is closing; deliver it again.
        """
        if self._is_closed():
            raise StoreError("the runtime is closing; deliver the result again")
        return await self._results.deliver(invocation_id, body)

    async def ask(self, prompt: Prompt, most: int) -> PromptOutcome:
        """Show the prompt of a waiting call in place of the one before, unless the call had `most` prompts already."""
        return await self._prompts.ask(prompt, most)


class PromptQueue:
    """The prompts that deferred calls show to people: `rt.prompts`."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    async def list(self, *, limit: int = 1000) -> tuple[Prompt, ...]:
        """Return the open prompts of waiting calls of every process."""
        return await self._prompts.pending(limit)

    async def choose(self, prompt_id: str, selected: int | None) -> Chosen:
        """Answer a prompt by the number of a choice, from 0; None declines. The first answer stands."""
        return await self._prompts.choose(prompt_id, selected)
