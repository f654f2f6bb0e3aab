"""A call from the outside while it runs: its progress, and its questions."""

import asyncio
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from agenttool.assemble import Runtime
from agenttool.cli.asking import Left, ask, show
from agenttool.cli.prompting import ask_prompt, show_prompt
from agenttool.cli.terminal import Terminal, printable
from agenttool.policy.approvals import Question, Refused
from agenttool.ports.later import Prompt, PromptKind
from agenttool.records import ApprovalId, EventType, InvocationId, ToolEvent
from agenttool.world import SystemClock

PROMPTS_EVERY_S = 0.5
"""How soon a person hears that a server asks something."""


class Watch:
    """Shows what the calls of a runtime report, and puts their questions to the person at the terminal.

    Attributes:
        left: set when a question is left open, for whoever answers it later.
    """

    def __init__(self, rt: Runtime, terminal: Terminal, where: str, *, has_person: bool, is_kept: bool) -> None:
        """Begin to look with `async with`; `where` are the words that name the store to another command."""
        self.left = asyncio.Event()
        self._rt = rt
        self._terminal = terminal
        self._where = where
        self._has_person = has_person
        self._is_kept = is_kept
        self._bar: Progress | None = None
        self._ours: set[InvocationId] = set()
        self._looking: list[asyncio.Task[None]] = []
        self._prompted: set[str] = set()

    async def __aenter__(self) -> Self:
        """Look from now on."""
        self._looking = [asyncio.ensure_future(self._look())]
        if self._rt.rap is not None:
            self._looking.append(asyncio.ensure_future(self._look_for_prompts()))
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let what was reported be shown, and look no more."""
        await asyncio.sleep(0)
        for looking in self._looking:
            looking.cancel()
        self._hide_bar()

    async def _look(self) -> None:
        async for _, event in self._rt.events(-1):
            self._ours.update(self._rt.under_way())
            if self._is_kept and event.invocation_id not in self._ours:
                continue  # another process writes to the same file
            if event.event_type is EventType.PROGRESS:
                self._show_progress(event)
            elif event.event_type is EventType.CANCEL_FAILED:
                self._terminal.console.print("this tool cannot be stopped; waiting for its end", style="yellow")
            elif event.event_type is EventType.PERMISSION_REQUESTED and (event.data or {}).get("prompted"):
                self._hide_bar()
                await self._answer_asked(event)

    async def _look_for_prompts(self) -> None:
        """Look at what servers want to know from a person; it may be another process that was told."""
        while True:
            await asyncio.sleep(PROMPTS_EVERY_S)
            self._ours.update(self._rt.under_way())
            for prompt in await self._rt.prompts():
                if prompt.invocation_id in self._ours and prompt.prompt_id not in self._prompted:
                    self._prompted.add(prompt.prompt_id)
                    await self._put(prompt)

    async def _put(self, prompt: Prompt) -> None:
        self._hide_bar()
        show_prompt(self._terminal.console, prompt)
        if prompt.kind is PromptKind.CHOICE and not (
            self._has_person and await ask_prompt(self._rt, self._terminal, prompt)
        ):
            hint = f"to answer: agenttool approvals answer {prompt.prompt_id} 1{self._where}"
            self._terminal.console.print(hint, style="dim", highlight=False, soft_wrap=True)

    async def _answer_asked(self, event: ToolEvent) -> None:
        # The ids of a question and of the decision to ask it are made of the same word.
        word = str((event.data or {}).get("decision_id")).partition("_")[2]
        question = await self._rt.question(ApprovalId(f"apr_{word}"))
        if question is not None and question.invocation_id in self._rt.under_way():
            await self._answer(question)

    async def _answer(self, question: Question) -> None:
        answer = Left()
        while self._has_person:
            show(self._terminal.console, question, now())
            answer = await ask(self._terminal, question, can_leave=self._is_kept)
            if isinstance(answer, Left):
                break
            outcome = await self._rt.decide(question.approval_id, answer, by="terminal")
            if not isinstance(outcome, Refused):
                return
            self._terminal.console.print(printable(outcome.message), style="red", markup=False, highlight=False)
        self.left.set()

    def _show_progress(self, event: ToolEvent) -> None:
        data = event.data or {}
        percent, words = data.get("percent"), printable(str(data.get("message") or data.get("step") or ""))
        if not isinstance(percent, int | float) or not self._terminal.console.is_terminal:
            share = f"{percent:3.0f} % " if isinstance(percent, int | float) else ""
            self._terminal.console.print(share + words, style="dim", markup=False, highlight=False)
            return
        if self._bar is None:
            columns = (
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, console=self._terminal.console, transient=True)
            self._bar.add_task("", total=100.0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=float(percent), description=words)

    def _hide_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def now() -> datetime:
    """Give the moment, for ages and spans that are shown."""
    return datetime.fromtimestamp(SystemClock.now_ns() / 1e9, UTC)
