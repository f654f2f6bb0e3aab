"""What running calls need from a person: put up, answered once, taken down when its call has ended."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agenttool.codec import read_own, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.deferred_results import DeferredResults
from agenttool.pipeline.evidence import Progressed
from agenttool.pipeline.tool import Tool
from agenttool.ports.deferred import Prompt, PromptKind, PromptOutcome, ReplyOutcome
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId, InvocationStatus, Part, ProgressStatus, ToolId, replace

SHELF, UNHEARD = "prompt", "prompt.unheard"
TELL_AGAIN_EVERY_S = 2.0
"""How often a choice is brought to a tool that was away when it was made."""

_PAGE = 1000
_REMEMBERED = 16
"""So many prompts of one call are known again when they are sent once more."""


class Chosen(Part, frozen=True, kw_only=True):
    """What became of a choice.

    Attributes:
        is_taken: it is the one that counts; the first one is.
        is_heard: the tool's side has confirmed that it knows.
    """

    prompt_id: str
    is_taken: bool
    is_heard: bool = False
    message: str


@dataclass(slots=True, eq=False)
class Prompts:
    """The open prompts of every process on a store: at most one for each call."""

    shelf: DocumentStore
    deferred: DeferredResults
    tool_of: Callable[[ToolId], Tool | None]
    _telling: "asyncio.Task[None] | None" = None
    _on_their_way: set[InvocationId] = field(default_factory=set[InvocationId])

    def start(self) -> None:
        """Begin to bring tools what they have not heard of: they were away, or whoever took the choice has died."""
        self._telling = asyncio.create_task(self._tell())  # noqa: TID251 -- `stop` is its parent

    async def stop(self) -> None:
        """Leave what is unheard to the next process."""
        if self._telling is not None:
            self._telling.cancel()
            with suppress(asyncio.CancelledError):
                await self._telling

    async def _tell(self) -> None:
        while True:
            with suppress(StoreError):  # a disk that fails now may be back by the next look
                for key, _ in await self.shelf.page(UNHEARD, limit=_PAGE):
                    await self._tell_again(InvocationId(key))
            await asyncio.sleep(TELL_AGAIN_EVERY_S)

    async def _tell_again(self, key: InvocationId) -> None:
        body = await self.shelf.get(SHELF, key)
        prompt = None if body is None else _read(body)
        if prompt is None or prompt.selected is None or await self.deferred.pending(key) is None:
            await self.shelf.put(UNHEARD, key, None)
        else:
            await self._deliver(prompt, prompt.selected)

    async def ask(self, prompt: Prompt, most: int) -> PromptOutcome:
        """Put a prompt up in place of the one before, if its call waits and has put up fewer than so many.

        One that was put up before is not put up again, whether or not somebody has answered it since.
        """
        key = prompt.invocation_id
        if await self.deferred.pending(key) is None:
            return PromptOutcome.NOT_AWAITED
        while True:
            body = await self.shelf.get(SHELF, key)
            before = None if body is None else _read(body)
            asked = () if before is None else (*before.asked_before, before.prompt_id)[-_REMEMBERED:]
            if prompt.prompt_id in asked:
                return PromptOutcome.PUT_UP
            number = 1 if before is None else before.number + 1
            if number > most:
                return PromptOutcome.TOO_MANY
            after = write_own(replace(prompt, asked_before=asked, number=number))
            if await self.shelf.swap(SHELF, key, before=body, after=after):
                break
        await self.deferred.note(key, _needs_input)
        return PromptOutcome.PUT_UP

    async def pending(self, limit: int = _PAGE) -> tuple[Prompt, ...]:
        """List the prompts that wait for a person, those of ended calls taken down."""
        found: list[Prompt] = []
        for key, body in await self.shelf.page(SHELF, limit=limit):
            prompt = _read(body)
            if await self.deferred.pending(InvocationId(key)) is None:
                await self.shelf.swap(SHELF, key, before=body, after=None)
            elif prompt is not None and prompt.selected is None:
                found.append(prompt)
        return tuple(found)

    async def choose(self, prompt_id: str, selected: int | None) -> Chosen:
        """Take a person's choice, or that they turned away, which is the default; the first one counts."""
        key = call_of(prompt_id)
        body = await self.shelf.get(SHELF, key)
        prompt = None if body is None else _read(body)
        if prompt is None or prompt.prompt_id != prompt_id or await self.deferred.pending(key) is None:
            return _refused(prompt_id, "there is no such prompt any more; list the open ones")
        chosen = prompt.default if selected is None else selected
        why_not = _why_not(prompt, chosen)
        if why_not is not None or chosen is None:
            return _refused(prompt_id, why_not or "nothing was chosen")
        answered = replace(prompt, selected=chosen)
        unheard = {(UNHEARD, str(key)): b""}
        if not await self.shelf.swap(SHELF, key, before=body, after=write_own(answered), beside=unheard):
            return _refused(prompt_id, "it has changed meanwhile; look again")
        with suppress(StoreError):  # the choice is kept, and that its call goes on can be told later
            await self.deferred.note(key, _has_input)
        told = await self._deliver(answered, chosen)
        return Chosen(prompt_id=prompt_id, is_taken=True, is_heard=told is ReplyOutcome.HEARD, message=_WORDS[told])

    async def withdraw(self, invocation_id: InvocationId) -> None:
        """Take down what a call asked: it has ended."""
        await self.shelf.put(SHELF, invocation_id, None)

    async def _deliver(self, prompt: Prompt, selected: int) -> ReplyOutcome:
        tool, key = self.tool_of(prompt.tool_id), prompt.invocation_id
        if tool is None or tool.later is None or key in self._on_their_way:
            return ReplyOutcome.AWAY
        self._on_their_way.add(key)
        try:
            told = await tool.later.reply(prompt, selected)
        finally:
            self._on_their_way.discard(key)
        if told is not ReplyOutcome.AWAY:
            # What is left tells a second try of the same prompt, until its call ends; where the tool listens is over.
            over = replace(prompt, is_heard=told is ReplyOutcome.HEARD, reply_to=None)
            await self.shelf.swap(SHELF, key, before=write_own(prompt), after=write_own(over))
            await self.shelf.put(UNHEARD, key, None)
        return told


_WORDS = {
    ReplyOutcome.HEARD: "the tool has heard of it",
    ReplyOutcome.REFUSED: "the tool wants to hear no choice any more; its own limit ends the wait",
    ReplyOutcome.AWAY: "it is kept; the tool is away, and hears of it when it is back",
}


def call_of(prompt_id: str) -> InvocationId:
    """Name the call that asks: the two ids are made of the same word."""
    return InvocationId("inv_" + prompt_id.partition("_")[2].rpartition("-")[0])


def _why_not(prompt: Prompt, chosen: object) -> str | None:
    """Say why a choice is none."""
    if prompt.selected is not None:
        return "it was answered already; the first answer counts"
    if prompt.kind is not PromptKind.CHOICE:
        return "nothing can be chosen here; open its URL, and the call goes on by itself"
    if type(chosen) is not int or not 0 <= chosen < len(prompt.choices):
        return f"there is no choice {chosen!r}; take one from 0 to {len(prompt.choices) - 1}"
    return None


def _needs_input(call: Call) -> None:
    call.progress += 1
    told = Progressed(call.progress, ProgressStatus.WAITING_FOR_INPUT, "a person is asked")
    call.note(steps.BACKGROUNDED if call.status is InvocationStatus.NEEDS_INPUT else steps.NEEDS_INPUT, told)


def _has_input(call: Call) -> None:
    if call.status is InvocationStatus.NEEDS_INPUT:
        call.note(steps.INPUT_GIVEN)


def _read(body: bytes) -> Prompt | None:
    try:
        return read_own(body, Prompt)
    except RecordError:
        return None


def _refused(prompt_id: str, message: str) -> Chosen:
    return Chosen(prompt_id=prompt_id, is_taken=False, message=message)
