"""`agenttool search`: what a model would find among the tools of a module."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agenttool.assemble import Runtime
from agenttool.cli.loading import load_tools, settings_file
from agenttool.cli.refusing import refuse
from agenttool.cli.terminal import as_words
from agenttool.cli.viewer import Viewer, Whom, viewer_in
from agenttool.codec import json_bytes, to_json
from agenttool.errors import ConfigError
from agenttool.records import NextAction, SearchMatch, ToolSearchResult

NOTHING_FOUND = 1
BAR = 10
"""How many signs a perfect score is wide."""

app = typer.Typer(add_completion=False)


@app.command()
def search(  # noqa: PLR0913 -- the words of a command
    words: Annotated[list[str], typer.Argument(metavar="QUERY", help="What is wanted, or select:NAME,NAME")],
    *,
    places: Annotated[list[str], typer.Option("--from", metavar="MODULE[:NAME]", help="Where the tools are")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show at most")] = 10,
    model: Annotated[
        str | None, typer.Option("--model", metavar="FOLDER", help="Also search by meaning, with this model")
    ] = None,
    whom: Whom = None,
    settings: Annotated[Path | None, typer.Option(help="Rules and limits; agenttool.toml if it lies here")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the search result as JSON and nothing else")] = False,
) -> None:
    """Find tools by what they do or exactly by name, as a model would"""  # noqa: D415 -- as in the table of commands
    try:
        viewer, written = viewer_in(whom), settings_file(settings)
        result = asyncio.run(_found(" ".join(words), places, limit, model, written, viewer))
    except ConfigError as error:
        refuse(error)
    if as_json:
        typer.echo(json_bytes(to_json(result)).decode())
    else:
        _show(result)
    raise typer.Exit(0 if result.matches else NOTHING_FOUND)


async def _found(
    query: str, places: list[str], limit: int, model: str | None, settings: Path | None, viewer: Viewer
) -> ToolSearchResult:
    async with Runtime.open(store="memory:", config=settings, tools=load_tools(places), search_model=model) as rt:
        theirs, surface = await viewer.surface(rt)
        await theirs.prepare_search()
        return await theirs.search(query, surface=surface, limit=limit)


def _show(result: ToolSearchResult) -> None:
    matches = [each for each in result.matches if isinstance(each, SearchMatch)]
    table = Table("tool", "score", "", "why", box=None, pad_edge=False, header_style="bold")
    for match in matches:
        table.add_row(
            f"[cyan]{as_words(match.name or match.tool_id)}[/]",
            f"{match.score:.2f}",
            f"[green]{_bar(match.score or 0.0)}[/]",
            as_words(match.reason or ""),
        )
    if matches:
        Console().print(table)
        Console().print(f"[dim]{escape(_what_next(result))}[/]")
    for name in result.missing_names or ():
        Console(stderr=True).print(f"no tool is named {name!r}", markup=False)
    if not matches and not result.missing_names:
        Console(stderr=True).print("nothing fits; use other words, or fewer", markup=False)


def _bar(score: float) -> str:
    """Draw a score from 0 to 1, in eighths of a sign."""
    eighths = round(score * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _what_next(result: ToolSearchResult) -> str:
    waiting = result.next_action == NextAction.LOAD_SCHEMA_THEN_CALL
    return "a model would load these, then call them" if waiting else "a model sees these already, and can call them"
