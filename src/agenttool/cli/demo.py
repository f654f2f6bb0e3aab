"""`agenttool demo`: a story about the real code."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from agenttool import __version__
from agenttool.cli.story import calls, checking, crash, crowd, endings, facts, later, strangers
from agenttool.cli.story.teller import JsonTeller, Teller, TerminalTeller

app = typer.Typer(add_completion=False)

CHAPTERS: tuple[Callable[[Teller], None], ...] = (
    facts.tell,
    calls.tell,
    crowd.tell,
    crash.tell,
    later.tell,
    strangers.tell,
    endings.tell,
    checking.tell,
)


@app.command()
def demo(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines and nothing else")] = False) -> None:
    """Tell, against the real code, what agenttool can do so far"""  # noqa: D415 -- as in the table of commands
    console = Console()
    teller = JsonTeller(console) if as_json else TerminalTeller(console)
    teller.say(f"[bold]agenttool {__version__}[/]: what it can do so far. Everything below runs now, on this machine.")
    for tell in CHAPTERS:
        tell(teller)
    told = len(teller.claims) + len(teller.broken)
    teller.chapter("The end, so far")
    teller.claim(f"{len(teller.claims)} of {told} claims hold", holds=not teller.broken)
    if teller.broken:
        raise typer.Exit(1)
