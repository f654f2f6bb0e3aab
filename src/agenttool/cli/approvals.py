"""`agenttool approvals`: the open questions of every process on a store, and their answers."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from agenttool.assemble import Runtime
from agenttool.cli.choosing import Choice
from agenttool.cli.desk import Desk, Given
from agenttool.cli.journal.opening import DEFAULT
from agenttool.cli.loading import SETTINGS, Named, load_tools, settings_file, store_file, store_place
from agenttool.cli.prompting import answer_prompt, is_prompt, number_in
from agenttool.cli.refusing import refuse
from agenttool.cli.terminal import Terminal
from agenttool.codec import parse_object
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.policy.approvals import Allow, Deny, Edit
from agenttool.records import ApprovalId, InvocationId

app = typer.Typer(add_completion=False)

REFUSED = 1
"""The answer changed nothing: there is no such question, it was answered already, or it is too late."""

_ANSWER = ("answer", "APR_ID", "allow|deny")


@app.command()
def approvals(  # noqa: PLR0913 -- one for each word of the command
    words: Annotated[
        list[str] | None, typer.Argument(metavar="answer ID allow|deny|N", help="Answer one, asking nobody")
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
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool; * is any run of characters")] = None,
    containing: Annotated[str | None, typer.Option(metavar="TEXT", help="Only inputs that show this text")] = None,
    after: Annotated[str | None, typer.Option(metavar="APR_ID", help="Only those asked after this one")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="So many at most; 20 if nobody is asked")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, not the oldest")] = False,
    count: Annotated[bool, typer.Option("--count", help="Only tell how many wait, tool by tool")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines and nothing else")] = False,
) -> None:
    """List the calls that wait for approval, and answer them"""  # noqa: D415 -- as in the table of commands
    try:
        given, chosen = store, settings_file(settings)
        store = _found(given, chosen)
        # Of settings that keep nothing nobody learns of the usual file, so the next command is told of it.
        where = Named(given if settings is None else store, settings)
        tools = load_tools(places) if places and (words or not as_json) and not count else []
        desk = Desk(Terminal(), tools, where, as_json=as_json)
        choice = Choice(
            tool=tool,
            containing=containing,
            after=None if after is None else ApprovalId(after),
            limit=limit,
            is_newest=newest,
        )
        if words is not None and is_prompt(words):
            doing = _answer_prompt(desk, words)
        elif given := _given(words or [], message, edited, remember):
            doing = _answer(desk, given)
        elif count or as_json:
            doing = _tell(desk, choice, count=count, as_json=as_json)
        else:
            doing = _answer_all(desk, choice)
        opening = partial(Runtime.open, config=chosen, store=store_place(store), tools=tools)
        outcome = asyncio.run(_at_desk(opening, doing))
    except (ConfigError, RecordError, StoreError) as error:
        refuse(error)
    if not outcome:
        raise typer.Exit(REFUSED)


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


def _found(store: str | None, settings: Path | None) -> str | None:
    """Give the words that lead to the file of a store: those given, none if the settings name it, or the usual ones.

    Raises:
        ConfigError: there is no such file.
    """
    file = store_file(store, settings)
    if file is None and store is None and Path(DEFAULT).is_file():
        return DEFAULT
    if file is None:
        told = f"{settings} keeps nothing" if settings is not None else f"neither {SETTINGS} nor {DEFAULT} lies here"
        raise ConfigError(f"{told}, so nothing waits in a file; name one with --store FILE, or in a [store] table")
    if not file.exists():
        raise ConfigError(f"no store lies at {str(file)!r}; correct the path, or make a call that is kept there")
    return store


Doing: TypeAlias = Callable[[Runtime, set[InvocationId]], Awaitable[bool]]
"""What is done at the desk with a runtime, and with the calls that it takes up meanwhile; tells what came of it."""


def _answer_prompt(desk: Desk, words: list[str]) -> Doing:
    number_in(words)
    return lambda rt, _: answer_prompt(rt, words, desk.console)


def _answer(desk: Desk, given: Given) -> Doing:
    async def doing(rt: Runtime, taken_up: set[InvocationId]) -> bool:
        is_taken = await desk.answer_one(rt, given)
        await desk.go_on(rt, taken_up)
        return is_taken

    return doing


def _tell(desk: Desk, choice: Choice, *, count: bool, as_json: bool) -> Doing:
    async def doing(rt: Runtime, _: set[InvocationId]) -> bool:
        await (desk.count(rt, choice, as_json=as_json) if count else desk.print_all(rt, choice))
        return True

    return doing


def _answer_all(desk: Desk, choice: Choice) -> Doing:
    async def doing(rt: Runtime, taken_up: set[InvocationId]) -> bool:
        await desk.go_on(rt, taken_up)
        await desk.answer_all(rt, choice)
        await desk.go_on(rt, taken_up)
        return True

    return doing


async def _at_desk(opening: Callable[[], Runtime], doing: Doing) -> bool:
    rt = opening()
    taken_up: set[InvocationId] = set()
    listening = asyncio.ensure_future(_hear_taken_up(rt, taken_up))
    await asyncio.sleep(0)
    try:
        async with rt:
            return await doing(rt, taken_up)
    finally:
        listening.cancel()


async def _hear_taken_up(rt: Runtime, taken_up: set[InvocationId]) -> None:
    """Collect the calls whose processes are gone and that somebody goes on with."""
    async for _, event in rt.events(-1):
        if event.invocation_id is not None and "attempt" in (event.data or {}):
            taken_up.add(event.invocation_id)
