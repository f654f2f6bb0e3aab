"""`agenttool approvals`: the open questions of every process on a store, and their answers."""

import asyncio
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agenttool.assemble import Runtime, Tool
from agenttool.cli.asking import Left, ask, remembered, show, told_of
from agenttool.cli.ending import show_result
from agenttool.cli.loading import SETTINGS, load_tools, settings_file, store_file, store_place
from agenttool.cli.prompting import answer_prompt, ask_prompts, is_prompt, number_in, print_prompts
from agenttool.cli.refusing import refuse, tell
from agenttool.cli.terminal import Terminal
from agenttool.cli.watching import MOST_QUESTIONS, now
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.policy.approvals import Allow, Answer, Deny, Edit, Question, Refused
from agenttool.policy.moments import read_moment
from agenttool.records import ApprovalId, InvocationId, ToolResult

app = typer.Typer(add_completion=False)

REFUSED = 1
"""The answer changed nothing: there is no such question, it was answered already, or it is too late."""

A_MOMENT = 2.0
"""How long to look for the result of a call that goes on in another process."""

_LOOK_EVERY = 0.05
_ANSWER = ("answer", "APR_ID", "allow|deny")


@app.command()
def approvals(  # noqa: PLR0913 -- one for each word of the command
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[answer ID allow|deny|N]", help="Answer one, asking nobody")
    ] = None,
    *,
    store: Annotated[str | None, typer.Option(metavar="FILE", help="Where the calls are kept; as settings say")] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings with a store; agenttool.toml if it lies here")] = None,
    places: Annotated[
        list[str] | None, typer.Option("--from", metavar="MODULE[:NAME]", help="Go on with calls whose process is gone")
    ] = None,
    message: Annotated[str | None, typer.Option(help="Words that go with the answer")] = None,
    edited: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Run this input instead")] = None,
    remember: Annotated[
        int | None, typer.Option(metavar="N", help="Also keep the N-th rule that was suggested")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the questions as JSON Lines and nothing else")] = False,
) -> None:
    """List the calls that wait for approval, and answer them"""  # noqa: D415 -- as in the table of commands
    try:
        chosen = settings_file(settings)
        _refuse_if_nowhere(store_file(store, chosen), chosen)
        tools = load_tools(places) if places and not as_json else []
        desk = Desk(Terminal(), tools, _named(store, settings))
        if words is not None and is_prompt(words):
            outcome = asyncio.run(_answer_prompt(desk, chosen, store_place(store), words))
        else:
            given = _given(words or [], message, edited, remember)
            outcome = asyncio.run(_at_desk(desk, chosen, store_place(store), given, as_json=as_json))
    except (ConfigError, RecordError, StoreError) as error:
        refuse(error)
    if not outcome:
        raise typer.Exit(REFUSED)


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


def _given(words: list[str], message: str | None, edited: str | None, remember: int | None) -> Given | None:
    if not words:
        if message is not None or edited is not None or remember is not None:
            raise ConfigError("--message, --input and --remember go with an answer: answer APR_ID allow")
        return None
    if len(words) != len(_ANSWER) or words[0] != "answer" or words[2] not in ("allow", "deny"):
        raise ConfigError(
            f"an answer is written `answer APR_ID allow` or `answer APR_ID deny`, got {' '.join(words)!r}"
        )
    is_deny = words[2] == "deny"
    if is_deny and (edited is not None or remember is not None):
        raise ConfigError("--input and --remember go with allow; a deny takes a --message")
    if edited is not None and remember is not None:
        raise ConfigError("an edited input cannot be remembered; use --input or --remember")
    if is_deny:
        return Given(ApprovalId(words[1]), Deny(message=message), None)
    if edited is not None:
        updated = parse_object(edited, what="--input")
        return Given(ApprovalId(words[1]), Edit(updated_input=updated, feedback=message), None)
    return Given(ApprovalId(words[1]), Allow(feedback=message), remember)


def _named(store: str | None, settings: Path | None) -> str:
    """Repeat the words that name a store, for a command to be run next."""
    given = (("--store", store), ("--settings", settings))
    return "".join(f" {word} {shlex.quote(str(value))}" for word, value in given if value is not None)


def _refuse_if_nowhere(file: Path | None, settings: Path | None) -> None:
    if file is None:
        told = f"{settings} keeps nothing" if settings is not None else f"no {SETTINGS} lies here"
        raise ConfigError(f"{told}, so nothing waits in a file; name one with --store FILE, or in a [store] table")
    if not file.exists():
        raise ConfigError(f"no store lies at {str(file)!r}; correct the path, or make a call that is kept there")


async def _answer_prompt(desk: "Desk", settings: Path | None, store: str | None, words: list[str]) -> bool:
    number_in(words)
    async with Runtime.open(config=settings, store=store, tools=desk.tools) as rt:
        return await answer_prompt(rt, words, desk.console)


async def _at_desk(
    desk: "Desk", settings: Path | None, store: str | None, given: Given | None, *, as_json: bool
) -> bool:
    rt = Runtime.open(config=settings, store=store, tools=desk.tools)
    taken_up: set[InvocationId] = set()
    listening = asyncio.ensure_future(_hear_taken_up(rt, taken_up))
    await asyncio.sleep(0)
    try:
        async with rt:
            if given is not None:
                is_taken = await desk.answer_one(rt, given)
                await desk.go_on(rt, taken_up)
                return is_taken
            if as_json:
                for question in await rt.approvals(limit=MOST_QUESTIONS):
                    typer.echo(json_bytes(told_of(question)).decode())
                await print_prompts(rt)
                return True
            await desk.go_on(rt, taken_up)
            await desk.answer_all(rt)
            await desk.go_on(rt, taken_up)
    finally:
        listening.cancel()
    return True


async def _hear_taken_up(rt: Runtime, taken_up: set[InvocationId]) -> None:
    """Collect the calls whose processes are gone and that somebody goes on with."""
    async for _, event in rt.events(-1):
        if event.invocation_id is not None and "attempt" in (event.data or {}):
            taken_up.add(event.invocation_id)


class Desk:
    """Where a person answers."""

    def __init__(self, terminal: Terminal, tools: list[Tool], where: str = "") -> None:
        """Take who is asked, the tools that calls can go on with here, and the words that name the store."""
        self.tools = tools
        self._where = where
        self._terminal = terminal
        self._console = self.console = terminal.console
        self._shown: set[InvocationId] = set()

    async def answer_all(self, rt: Runtime) -> None:
        """Show every open question; where somebody is there, ask them."""
        found = await rt.approvals(limit=MOST_QUESTIONS)
        listed = self._console if self._terminal.has_person else Console()
        if not found and not await ask_prompts(rt, self._terminal):
            listed.print("nothing waits for an answer")
        for number, question in enumerate(found):
            if number:
                listed.print()
            show(listed, question, now())
            if not self._terminal.has_person or read_moment(question.expires_at) <= now():
                continue
            answer = await ask(self._terminal, question, can_leave=True)
            if isinstance(answer, Left):
                if answer.all:
                    return
                continue
            await self._decide(rt, question, answer)
        if found:
            await ask_prompts(rt, self._terminal)
        if found and not self._terminal.has_person:
            self._console.print("\nto answer: agenttool approvals answer APR_ID allow", style="dim", highlight=False)

    async def answer_one(self, rt: Runtime, given: Given) -> bool:
        """Answer as the command line says; tell whether the answer was taken."""
        found = await rt.approvals(limit=MOST_QUESTIONS)
        question = next((each for each in found if each.approval_id == given.approval_id), None)
        if question is not None:
            return await self._decide(rt, question, given.to(question))
        told = await self._why_not(rt, given.approval_id)
        tell("not_open", f"{given.approval_id}: {told}")
        return False

    async def _why_not(self, rt: Runtime, approval_id: ApprovalId) -> str:
        """Say why there is nothing to answer."""
        ended = await rt.result(_call_of(approval_id))
        if ended is not None:
            return f"its call has ended ({ended.status.value}); look: agenttool show {ended.invocation_id}"
        if await rt.invocation(_call_of(approval_id)) is not None:
            return "it was answered already; the first answer stands"
        return "there is no such question; list the open ones: agenttool approvals"

    async def go_on(self, rt: Runtime, taken_up: set[InvocationId]) -> None:
        """Go on with calls that were answered and whose process is gone, and show how they end."""
        if not self.tools:
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
        word = "refused" if isinstance(answer, Deny) else "allowed"
        self._console.print(f"{word} {question.approval_id}", style="green", highlight=False)
        await self._show_end(rt, question.invocation_id, None if self.tools else A_MOMENT)
        return True

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
        look = f"  agenttool show {invocation_id}{self._where}"
        if await rt.awaited(invocation_id) is not None:
            return f"its server works on it, and `agenttool serve` takes in what comes of it; then look:\n{look}"
        invocation = await rt.invocation(invocation_id)
        if rt.rap is not None and invocation is not None and rt.rap.knows(invocation.tool_id):
            return f"its process goes on with it, or `agenttool serve` with these settings; then look:\n{look}"
        told = "its process goes on with it; if that is gone, name the module of the tool:"
        return f"{told}\n  agenttool approvals --from MODULE{self._where}"


async def _result(rt: Runtime, invocation_id: InvocationId) -> ToolResult:
    while (result := await rt.result(invocation_id)) is None:
        await asyncio.sleep(_LOOK_EVERY)
        await rt.resume()
    return result


def _call_of(approval_id: ApprovalId) -> InvocationId:
    """Name the call that asked: the two ids are made of the same word."""
    return InvocationId("inv_" + approval_id.partition("_")[2].rpartition("-")[0])
