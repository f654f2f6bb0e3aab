"""Where a person, or a program for them, answers the questions of every process on a store."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttool.assemble import Runtime, Tool
from agenttool.cli.asking import Left, ask, remembered, show, span, told_of
from agenttool.cli.choosing import Choice, Waiting
from agenttool.cli.ending import show_result
from agenttool.cli.journal.words import plain_table
from agenttool.cli.loading import Named
from agenttool.cli.prompting import ask_prompts, print_prompts
from agenttool.cli.refusing import tell
from agenttool.cli.terminal import Terminal, printable
from agenttool.cli.watching import now
from agenttool.codec import json_bytes, to_json
from agenttool.policy.approvals import Answer, Deny, Question, Refused
from agenttool.policy.rules import parse_timestamp
from agenttool.records import ApprovalId, InvocationId, JsonObject, ToolResult

A_MOMENT = 2.0
"""How long to look for the result of a call that goes on in another process."""

SHOWN = 20
"""How many questions are shown where nobody is asked and no other number is given."""

_LOOK_EVERY = 0.05


class Given:
    """An answer from the command line, to be joined with its question."""

    def __init__(self, approval_id: ApprovalId, answer: Answer, number: int | None) -> None:
        """Take the words; `number` is that of the suggestion to remember."""
        self.approval_id = approval_id
        self._answer = answer
        self._number = number

    def to(self, question: Question) -> Answer:
        """Give the answer to this question.

        Raises:
            ConfigError: there is no such suggestion.
        """
        return self._answer if self._number is None else remembered(question, self._number)


class Desk:
    """Where a person answers."""

    def __init__(self, terminal: Terminal, tools: list[Tool], where: Named, *, as_json: bool) -> None:
        """Take who is asked, the tools that calls can go on with here, how the store was named, and who reads."""
        self.tools = tools
        self._as_json = as_json
        self._where = where
        self._terminal = terminal
        self._console = self.console = terminal.console
        self._shown: set[InvocationId] = set()

    async def answer_all(self, rt: Runtime, choice: Choice) -> None:
        """Show the open questions that were chosen; where somebody is there, ask them."""
        shown, is_left = 0, False
        listed = self._console if self._terminal.has_person else Console()
        if not self._terminal.has_person and choice.limit is None:
            choice = replace(choice, limit=SHOWN)
        async for question in choice.among(rt):
            if shown:
                listed.print()
            shown += 1
            show(listed, question, now())
            if self._terminal.has_person and parse_timestamp(question.expires_at) > now():
                answer = await ask(self._terminal, question, can_leave=True)
                if isinstance(answer, Left):
                    is_left = answer.all
                else:
                    await self._decide(rt, question, answer)
            if is_left:
                return
        if not await ask_prompts(rt, self._terminal, self._where.words) and not shown:
            listed.print("nothing waits for an answer")
        if shown and not self._terminal.has_person:
            self._say_what_next(shown, choice)

    def _say_what_next(self, shown: int, choice: Choice) -> None:
        hints = [f"to answer: agenttool approvals answer APR_ID allow{self._where.words}"]
        if shown == choice.limit:
            counted = f"agenttool approvals --count{self._where.words}"
            hints.append(f"there may be more: --after APR_ID goes on, --tool and --containing choose, {counted}")
        self._console.print("\n" + "\n".join(hints), style="dim", highlight=False, soft_wrap=True)

    @staticmethod
    async def print_all(rt: Runtime, choice: Choice) -> None:
        """Print the open questions that were chosen as JSON Lines, and then what servers ask."""
        async for question in choice.among(rt):
            typer.echo(json_bytes(told_of(question)).decode())
        await print_prompts(rt)

    @staticmethod
    async def count(rt: Runtime, choice: Choice, *, as_json: bool) -> None:
        """Tell how many questions wait, tool by tool."""
        found = await choice.count(rt)
        if as_json:
            for name, waiting in found.items():
                typer.echo(json_bytes(waiting.told(name)).decode())
            return
        console = Console(highlight=False)
        console.print(_table(found) if found else "nothing waits for an answer")

    async def answer_one(self, rt: Runtime, given: Given) -> bool:
        """Answer as the command line says; tell whether the answer was taken."""
        question = await rt.question(given.approval_id)
        if question is not None:
            return await self._decide(rt, question, given.to(question))
        told = await self._why_not(rt, given.approval_id)
        tell("not_open", f"{given.approval_id}: {told}")
        return False

    async def _why_not(self, rt: Runtime, approval_id: ApprovalId) -> str:
        """Say why there is nothing to answer."""
        ended = await rt.result(_call_of(approval_id))
        if ended is not None:
            look = f"agenttool show {ended.invocation_id}{self._where.words_to_read}"
            return f"its call has ended ({ended.status.value}); look: {look}"
        if await rt.invocation(_call_of(approval_id)) is not None:
            return "it was answered already; the first answer stands"
        return f"there is no such question; list the open ones: agenttool approvals{self._where.words}"

    async def go_on(self, rt: Runtime, taken_up: set[InvocationId]) -> None:
        """Go on with calls that were answered and whose process is gone, and show how they end."""
        if not self.tools or self._as_json:
            return
        await rt.resume()
        await asyncio.sleep(_LOOK_EVERY)
        ended = [each for each in taken_up if await rt.result(each) is not None]
        for invocation_id in sorted({*rt.under_way(), *ended} - self._shown):
            self._console.print(f"going on with {invocation_id}, whose process is gone", style="dim", highlight=False)
            await self._show_end(rt, invocation_id, None)

    async def _decide(self, rt: Runtime, question: Question, answer: Answer) -> bool:
        outcome = await rt.decide(question.approval_id, answer, by="terminal")
        if isinstance(outcome, Refused):
            tell(outcome.reason.value, f"{question.approval_id}: {outcome.message}")
            return False
        patience = None if self.tools else A_MOMENT
        word = "refused" if isinstance(answer, Deny) else "allowed"
        if self._as_json:
            await self._print_end(rt, question, word, patience)
            return True
        self._console.print(f"{word} {question.approval_id}", style="green", highlight=False)
        await self._show_end(rt, question.invocation_id, patience)
        return True

    async def _print_end(self, rt: Runtime, question: Question, word: str, patience: float | None) -> None:
        """Print that an answer was taken, and the result of its call if that comes soon."""
        self._shown.add(question.invocation_id)
        result: ToolResult | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                result = await _result(rt, question.invocation_id)
        told: JsonObject = {
            "approval_id": question.approval_id,
            "invocation_id": question.invocation_id,
            "answer": word,
            "result": None if result is None else to_json(result),
        }
        typer.echo(json_bytes(told).decode())

    async def _show_end(self, rt: Runtime, invocation_id: InvocationId, patience: float | None) -> None:
        """Show the result once it is there, whichever process brings it."""
        self._shown.add(invocation_id)
        try:
            async with asyncio.timeout(patience):
                show_result(await _result(rt, invocation_id))
        except TimeoutError:
            self._console.print(await self._what_now(rt, invocation_id), style="dim", highlight=False, soft_wrap=True)

    async def _what_now(self, rt: Runtime, invocation_id: InvocationId) -> str:
        """Say how a call goes on that did not end at once, and what brings its end."""
        look = f"  agenttool show {invocation_id}{self._where.words_to_read}"
        if await rt.awaited(invocation_id) is not None:
            return f"its server works on it, and `agenttool serve` takes in what comes of it; then look:\n{look}"
        invocation = await rt.invocation(invocation_id)
        if rt.rap is not None and invocation is not None and rt.rap.knows(invocation.tool_id):
            return f"its process goes on with it, or `agenttool serve` with these settings; then look:\n{look}"
        told = "its process goes on with it; if that is gone, name the module of the tool:"
        return f"{told}\n  agenttool approvals --from MODULE{self._where.words}"


async def _result(rt: Runtime, invocation_id: InvocationId) -> ToolResult:
    while (result := await rt.result(invocation_id)) is None:
        await asyncio.sleep(_LOOK_EVERY)
        await rt.resume()
    return result


def _call_of(approval_id: ApprovalId) -> InvocationId:
    """Name the call that asked: the two ids are made of the same word."""
    return InvocationId("inv_" + approval_id.partition("_")[2].rpartition("-")[0])


def _table(found: dict[str, Waiting]) -> Table:
    table = plain_table("waiting", "tool", "the oldest", "expires", header=True)
    table.columns[0].justify = "right"
    for name, waiting in found.items():
        age = (now() - parse_timestamp(waiting.oldest.asked_at)).total_seconds()
        left = (parse_timestamp(waiting.expires_at) - now()).total_seconds()
        until = f"in {span(left)}" if left > 0 else "has expired"
        cells = (printable(name), f"{span(age)} ago", until)
        table.add_row(f"{waiting.count:,}", *map(Text, cells))
    return table
