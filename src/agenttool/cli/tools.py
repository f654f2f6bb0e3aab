"""`agenttool tools`: what a module offers, as a model and as a rule would see it."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agenttool.assemble import Runtime
from agenttool.cli.loading import load_tools, refuse_if_no_tools, settings_file
from agenttool.cli.refusing import refuse
from agenttool.cli.terminal import as_words, printable
from agenttool.cli.viewer import Viewer, Whom, viewer_in
from agenttool.cli.why import near, why
from agenttool.codec import json_bytes, to_json
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject, Record, ToolDeclaration, ToolInterface, ToolSurface, acted_on

app = typer.Typer(add_completion=False)


@app.command()
def tools(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE[:NAME]", help="Where the tools are, besides sources of the settings"),
    ] = None,
    *,
    why_name: Annotated[str | None, typer.Option("--why", metavar="NAME", help="Why can a model not see it?")] = None,
    whom: Whom = None,
    settings: Annotated[Path | None, typer.Option(help="Rules and limits; agenttool.toml if it lies here")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON Lines and nothing else")] = False,
) -> None:
    """List the tools of a module, and what is assumed of them"""  # noqa: D415 -- as in the table of commands
    try:
        if why_name is not None:
            for fate in asyncio.run(_explained(places or [], settings_file(settings), why_name, viewer_in(whom))):
                typer.echo(json_bytes(fate).decode() if as_json else printable(str(fate["why"])))
            return
        records, surface = asyncio.run(_declared(places or [], settings_file(settings), viewer_in(whom)))
    except ConfigError as error:
        refuse(error)
    if as_json:
        for record in records:
            typer.echo(json_bytes(to_json(record)).decode())
        return
    table = Table("tool", "arguments", "facts", "description", box=None, pad_edge=False)
    interfaces = {each.tool_id: each for each in records if isinstance(each, ToolInterface)}
    for declaration in records:
        if isinstance(declaration, ToolDeclaration):
            facts = _facts(interfaces[declaration.tool_id])
            name = f"{declaration.namespace}.{declaration.name}"
            description = as_words(declaration.description.split("\n")[0])
            table.add_row(f"[cyan]{as_words(name)}[/]", _arguments(declaration), facts, description)
    console = Console()
    console.print(table)
    console.print(seen(surface), style="dim", highlight=False, soft_wrap=True)


async def _declared(places: list[str], settings: Path | None, viewer: Viewer) -> tuple[list[Record], ToolSurface]:
    given = load_tools(places)
    async with Runtime.open(store="memory:", config=settings, tools=given) as rt:
        refuse_if_no_tools(rt, given)
        return [record async for record in rt.export()], (await viewer.surface(rt))[1]


async def _explained(places: list[str], settings: Path | None, name: str, viewer: Viewer) -> list[JsonObject]:
    """Say what became of a tool on the surface that a model would get.

    Raises:
        ConfigError: no tool is named so.
    """
    async with Runtime.open(store="memory:", config=settings, tools=load_tools(places)) as rt:
        _, surface = await viewer.surface(rt)
        declared = [record async for record in rt.export() if isinstance(record, ToolDeclaration)]
    fates = why(name, declared, surface)
    if not fates:
        meant = " or ".join(map(repr, near(name, declared)))
        advice = f"did you mean {meant}?" if meant else "list them with `agenttool tools`, or search for it"
        raise ConfigError(f"no tool is named {name!r} here; {advice}")
    return fates


def seen(surface: ToolSurface) -> str:
    """Say in one line what a model is shown, what waits, and what is left out."""
    policy = surface.selection_policy or {}
    shown, waiting = len(surface.loaded_tools or ()), len(surface.deferred_tools or ())
    left_out = len(surface.blocked_tools or ()) + len(surface.excluded_tools or ())
    told = f"a model is shown {shown - bool(waiting)} of these, about {policy.get('loaded_tokens', 0):,} tokens"
    if waiting:
        told += f" with tool_search; {waiting:,} wait for it, about {policy.get('deferred_tokens', 0):,} tokens"
    if left_out:
        told += f"; {left_out:,} left out: --why NAME tells the reason"
    return told


def _arguments(declaration: ToolDeclaration) -> str:
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    properties, required = schema.get("properties"), schema.get("required")
    names: list[str] = list(properties) if isinstance(properties, dict) else []
    needed: list[Json] = required if isinstance(required, list) else []
    return " ".join(as_words(name) if name in needed else f"[dim]{as_words(name)}?[/]" for name in names)


def _facts(interface: ToolInterface) -> str:
    """Tell what it is taken to do; a fact that nobody declared is dim."""
    words = {
        "is_read_only": ("reads", "writes"),
        "is_destructive": ("destroys", ""),
        "is_open_world": ("open world", "stays inside"),
        "is_concurrency_safe": ("parallel", "alone"),
    }
    inferred = interface.inferred_facts or ()
    told = [(fact, pair[0] if acted_on(interface, fact) is True else pair[1]) for fact, pair in words.items()]
    return ", ".join(f"[dim]{word}[/]" if fact in inferred else word for fact, word in told if word)
