"""Prompts of deferred calls: stored, answered once by a user, and deleted when the call ends."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agenttool.codec import read_stored, write_own
from agenttool.errors import StoreError
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.deferred_results import DeferredResults
from agenttool.pipeline.evidence import Progressed
from agenttool.pipeline.tool import Tool
from agenttool.ports.deferred import AnswerStatus, PendingCall, Prompt, PromptKind, PromptOutcome, ReplyOutcome
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId, InvocationStatus, Part, ProgressStatus, ToolId, replace

PROMPTS, UNDELIVERED = "prompt", "prompt.undelivered"
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
    tool_of: Callable[[ToolId], Tool | None]
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

    async def withdraw(self, invocation_id: InvocationId) -> None:
        """Delete the prompt of a call that has ended; its URL is not needed any more."""
        await self.documents.put(PROMPTS, invocation_id, None, erases=True)

    async def _deliver(self, prompt: Prompt, selected: int, body: bytes) -> ReplyOutcome:
        """Deliver an answer; `body` is the prompt as it is stored."""
        tool, key = self.tool_of(prompt.tool_id), prompt.invocation_id
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
