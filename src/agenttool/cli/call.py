"""`agenttool call`: one governed call from the terminal."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.json import JSON

from agenttool.assemble import Runtime, Tool
from agenttool.cli.loading import load_tools, refuse, settings_file
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.errors import ConfigError, RecordError
from agenttool.policy.approvals import Question
from agenttool.records import EventType, Json, JsonObject, ToolEvent, ToolResult

app = typer.Typer(add_completion=False)

CANCELED = 130


@app.command()
def call(  # noqa: PLR0913 -- one for each word of the command
    name: Annotated[str, typer.Argument(metavar="TOOL", help="Its name, bare or with its namespace")],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="Its arguments")] = None,
    *,
    places: Annotated[list[str], typer.Option("--from", metavar="MODULE[:NAME]", help="Where the tools are")],
    args: Annotated[str | None, typer.Option(metavar="JSON", help="Its arguments as one JSON object")] = None,
    args_file: Annotated[Path | None, typer.Option(help="A file with its arguments as JSON")] = None,
    settings: Annotated[Path | None, typer.Option(help="Rules and hooks; agenttool.toml if it lies here")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; nobody is asked")] = False,
) -> None:
    """Call one tool through the whole pipeline, and be asked if it asks"""  # noqa: D415 -- as in the table of commands
    try:
        arguments = read_arguments(words or [], args, args_file)
        result = asyncio.run(_call(name, arguments, load_tools(places), settings_file(settings), as_json=as_json))
    except (ConfigError, RecordError) as error:
        refuse(error)
    if as_json:
        typer.echo(json_bytes(to_json(result)).decode())
    else:
        _show(result)
    if result.is_error:
        raise typer.Exit(CANCELED if result.status == "canceled" else 1)


def read_arguments(words: list[str], args: str | None, file: Path | None) -> JsonObject:
    """Join what was given: a JSON object, a file with one, and single values; a value that is JSON is read as such.

    Raises:
        RecordError: something of it is not what it should be.
    """
    arguments: JsonObject = {}
    try:
        if file is not None:
            arguments |= parse_object(file.read_bytes())
    except OSError as error:
        raise RecordError(f"arguments cannot be read: {str(file)!r}: {error.strerror}; name another file") from error
    if args is not None:
        arguments |= parse_object(args)
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise RecordError(f"an argument is written KEY=VALUE, got {word!r}; or use --args with JSON")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> Json:
    try:
        return parse_object(f'{{"value":{text}}}')["value"]
    except RecordError:
        return text


async def _call(
    name: str, arguments: JsonObject, tools: list[Tool], settings: Path | None, *, as_json: bool
) -> ToolResult:
    console = Console(stderr=True)
    interactive = console.is_terminal and sys.stdin.isatty() and not as_json
    async with Runtime.open(config=settings, tools=tools, interactive=None if interactive else False) as rt:
        surface = await rt.surface()
        calling = asyncio.ensure_future(rt.call(name, arguments, surface=surface))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, rt.cancel_all)
        watching = asyncio.ensure_future(_watch(rt, console))
        try:
            return await calling
        finally:
            watching.cancel()


async def _watch(rt: Runtime, console: Console) -> None:
    """Show progress as it comes, and put questions to the person at the terminal."""
    async for _, event in rt.events():
        data = event.data or {}
        if event.event_type is EventType.PROGRESS:
            console.print(_progress(event), style="dim", markup=False, highlight=False)
        elif event.event_type is EventType.CANCEL_REQUESTED:
            console.print("stopping …", style="yellow")
        elif event.event_type is EventType.CANCEL_FAILED:
            console.print("this tool cannot be stopped; waiting for its end", style="yellow")
        elif event.event_type is EventType.PERMISSION_REQUESTED and data.get("prompted"):
            for question in await rt.approvals():
                await _ask(rt, console, question)


async def _ask(rt: Runtime, console: Console, question: Question) -> None:
    console.print(f"\n[bold]{question.tool_name}[/] wants to run with")
    console.print(JSON.from_data(question.shown))
    console.print(f"It asks because {question.verdict.reason.message}.")
    answer = await asyncio.to_thread(_read_line, console)
    word = "allow" if answer.strip().lower() in ("y", "yes") else "deny"
    await rt.decide(question.approval_id, word, by="terminal")


def _read_line(console: Console) -> str:
    """Read an answer; the end of the input is a no."""
    try:
        return console.input("[bold]run it?[/] (y/n) ")
    except EOFError:
        return "n"


def _progress(event: ToolEvent) -> str:
    data = event.data or {}
    percent = data.get("percent")
    share = f"{percent:3.0f} % " if isinstance(percent, int | float) else ""
    return share + _printable(str(data.get("message") or data.get("step") or ""))


def _show(result: ToolResult) -> None:
    console = Console()
    style = "red" if result.is_error else None
    for item in result.model_facing_content or ():
        text = _printable(item.text) if item.text is not None else str(to_json(item))
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _printable(text: str) -> str:
    """Take out what would command the terminal instead of being shown."""
    return "".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in text)
