"""`agenttool call`: one governed call from the terminal."""

import asyncio
import os
import signal
import sys
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated

import typer

from agenttool.adapters.python.declare import FunctionTool
from agenttool.assemble import Runtime, Tool
from agenttool.cli.arguments import Arguments, read_arguments
from agenttool.cli.ending import show_result, what_stopped
from agenttool.cli.loading import Named, load_tools, refuse_if_no_tools, settings_file, store_file, store_place
from agenttool.cli.refusing import refuse
from agenttool.cli.terminal import Terminal
from agenttool.cli.watching import Watch
from agenttool.codec import json_bytes, to_json
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, ToolInvocation, ToolResult, ToolSurface

app = typer.Typer(add_completion=False)

CANCELED = 130
PARKED = 3
"""The call waits for an answer, and this process did not."""


@app.command()
def call(  # noqa: PLR0913 -- one for each word of the command
    name: Annotated[str, typer.Argument(metavar="TOOL", help="Its name, bare or with its namespace")],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its arguments")] = None,
    *,
    places: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="MODULE[:NAME]", help="Where the tools are, besides sources of the settings"),
    ] = None,
    args: Annotated[str | None, typer.Option(metavar="JSON", help="Its arguments as one JSON object")] = None,
    args_file: Annotated[Path | None, typer.Option(help="A file with its arguments as JSON")] = None,
    settings: Annotated[Path | None, typer.Option(help="Rules, hooks, store; agenttool.toml if it lies here")] = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the call there, and go on after a crash")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; nobody is asked")] = False,
) -> None:
    """Call one tool through the whole pipeline, and be asked if it asks"""  # noqa: D415 -- as in the table of commands
    terminal, where = Terminal(), Named(store, settings)
    try:
        chosen = settings_file(settings)
        is_kept = store_file(store, chosen) is not None
        with redirect_stdout(sys.stderr) if as_json else nullcontext():  # what a tool prints is no part of its result
            tools = load_tools(places or [])
            arguments = read_arguments(words or [], args, args_file)
            asked = Asked(name, arguments, tools, chosen, where, is_kept=is_kept, alone=as_json)
            result, invocation, is_parked = asyncio.run(asked.call(terminal))
    except (ConfigError, RecordError, StoreError) as error:
        refuse(error)
    if as_json:
        typer.echo(json_bytes(to_json(result)).decode())
    elif is_parked:
        told = f"{result.invocation_id} waits for an answer: agenttool approvals{where.words}"
        terminal.console.print(told, highlight=False, soft_wrap=True)
    else:
        show_result(result)
        stopped = None if invocation is None else what_stopped(invocation)
        if stopped is not None:
            terminal.console.print(stopped, style="yellow", highlight=False)
        if is_kept:
            hint = f"agenttool show {result.invocation_id}{where.words_to_read}"
            terminal.console.print(hint, style="dim", highlight=False, soft_wrap=True)
    if result.is_error:
        raise typer.Exit(PARKED if is_parked else CANCELED if result.status == "canceled" else 1)


def _schema(rt: Runtime, surface: ToolSurface, tools: list[Tool], name: str) -> JsonObject:
    """Find what the tool of a name takes, wherever it is from; nothing if the name leads to no tool, or to several.

    What can be called, and is offered to nobody, such as a deprecated tool, is known where it was declared.
    """
    offered = [each for each in rt.offered(surface, deferred=False) if name in (each.name, each.qualified_name)]
    if offered:
        return offered[0].input_schema if len(offered) == 1 else {}
    declared = [each.declared if isinstance(each, FunctionTool) else each for each in tools]
    declarations = [each.declaration for each in declared if isinstance(each, DeclaredTool)]
    found = [each for each in declarations if name in (each.name, f"{each.namespace}.{each.name}")]
    contract = found[0].input_contract if len(found) == 1 else None
    return {} if contract is None else contract.model_input_schema or {}


class Asked:
    """What the command line asks for."""

    def __init__(  # noqa: PLR0913 -- one for each word of the command
        self,
        name: str,
        arguments: Arguments,
        tools: list[Tool],
        settings: Path | None,
        where: Named,
        *,
        is_kept: bool,
        alone: bool,
    ) -> None:
        """Take the words."""
        self._name = name
        self._arguments = arguments
        self._tools = tools
        self._settings = settings
        self._where = where
        self._is_kept = is_kept
        self._alone = alone

    async def call(self, terminal: Terminal) -> tuple[ToolResult, ToolInvocation | None, bool]:
        """Make the call; give its result, the call as it stands, and whether it still waits for an answer."""
        has_person = terminal.has_person and not self._alone
        place = store_place(self._where.store)
        can_ask = None if has_person or self._is_kept else False
        rt = Runtime.open(config=self._settings, store=place, tools=self._tools, interactive=can_ask)
        async with rt:
            refuse_if_no_tools(rt, self._tools)
            watch = Watch(rt, terminal, self._where.words, has_person=has_person, is_kept=self._is_kept)
            surface = await _surface_for(rt, self._name)
            arguments = self._arguments.by(_schema(rt, surface, self._tools, self._name))
            async with watch:
                calling = asyncio.ensure_future(rt.call(self._name, arguments, surface=surface))
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _interrupter(rt, terminal))
                left = asyncio.ensure_future(watch.left.wait())
                await asyncio.wait((calling, left), return_when=asyncio.FIRST_COMPLETED)
                left.cancel()
            if calling.done():
                return calling.result(), await rt.invocation(calling.result().invocation_id), False
        return await calling, None, True


async def _surface_for(rt: Runtime, name: str) -> ToolSurface:
    """Make a surface that shows a tool even if it waits to be searched for: whoever names it has found it."""
    surface = await rt.surface()
    with suppress(ConfigError):  # the call itself says best what is wrong with the name
        return await rt.load(surface, [name])
    return surface


def _interrupter(rt: Runtime, terminal: Terminal):  # noqa: ANN202 -- a function without arguments or value
    """Stop the call at the first Ctrl-C, and leave at the second."""
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if terminal.is_lent:
            return
        if asked:
            terminal.console.print("\nleft without waiting; the tool may still have been running", style="yellow")
            os._exit(CANCELED)
        asked = True
        terminal.console.print("\nstopping … [dim](Ctrl-C again leaves at once)[/]", style="yellow", highlight=False)
        rt.cancel_all()

    return interrupt
