"""What running calls need from a person: put up, answered once, taken down when its call has ended."""

from collections.abc import Callable
from dataclasses import dataclass

from agenttool.codec import read_own, write_own
from agenttool.errors import RecordError
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.latecomers import Latecomers
from agenttool.pipeline.run_evidence import Progressed
from agenttool.pipeline.tool import Tool
from agenttool.ports.later import Prompt, PromptKind
from agenttool.ports.shelf import Shelf
from agenttool.records import InvocationId, InvocationStatus, Part, ProgressStatus, ToolId, replace

SHELF = "prompt"
_PAGE = 1000


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

    shelf: Shelf
    late: Latecomers
    tool_of: Callable[[ToolId], Tool | None]

    async def ask(self, prompt: Prompt) -> bool:
        """Put a prompt up in place of the one before; tell whether its call waits at all."""
        if await self.late.awaited(prompt.invocation_id) is None:
            return False
        await self.shelf.put(SHELF, prompt.invocation_id, write_own(prompt))
        await self.late.tell(prompt.invocation_id, _needs_input)
        return True

    async def pending(self, limit: int = _PAGE) -> tuple[Prompt, ...]:
        """List the prompts that wait for a person, those of ended calls taken down."""
        found: list[Prompt] = []
        for key, body in await self.shelf.page(SHELF, limit=limit):
            prompt = _read(body)
            if await self.late.awaited(InvocationId(key)) is None:
                await self.shelf.swap(SHELF, key, before=body, after=None)
            elif prompt is not None and prompt.selected is None:
                found.append(prompt)
        return tuple(found)

    async def choose(self, prompt_id: str, selected: int | None) -> Chosen:
        """Take a person's choice, or that they turned away, which is the default; the first one counts."""
        key = call_of(prompt_id)
        body = await self.shelf.get(SHELF, key)
        prompt = None if body is None else _read(body)
        if prompt is None or prompt.prompt_id != prompt_id or await self.late.awaited(key) is None:
            return _refused(prompt_id, "there is no such prompt any more; list the open ones")
        chosen = prompt.default if selected is None else selected
        why_not = _why_not(prompt, chosen)
        if why_not is not None or chosen is None:
            return _refused(prompt_id, why_not or "nothing was chosen")
        answered = replace(prompt, selected=chosen)
        if not await self.shelf.swap(SHELF, key, before=body, after=write_own(answered)):
            return _refused(prompt_id, "it has changed meanwhile; look again")
        await self.late.tell(key, _has_input)
        is_heard = await self._deliver(answered, chosen)
        told = "the tool has heard of it" if is_heard else "the tool could not be reached; its own limit ends the wait"
        return Chosen(prompt_id=prompt_id, is_taken=True, is_heard=is_heard, message=told)

    async def deliver_left(self) -> None:
        """Deliver choices that a process took and died before the tool had heard of them."""
        for _, body in await self.shelf.page(SHELF, limit=_PAGE):
            prompt = _read(body)
            if prompt is not None and prompt.selected is not None:
                await self._deliver(prompt, prompt.selected)

    async def withdraw(self, invocation_id: InvocationId) -> None:
        """Take down what a call asked: it has ended."""
        await self.shelf.put(SHELF, invocation_id, None)

    async def _deliver(self, prompt: Prompt, selected: int) -> bool:
        tool = self.tool_of(prompt.tool_id)
        if tool is None or tool.later is None:
            return False
        is_heard = await tool.later.reply(prompt, selected)
        if is_heard:
            await self.shelf.swap(SHELF, prompt.invocation_id, before=write_own(prompt), after=None)
        return is_heard


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
