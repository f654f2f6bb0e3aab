"""`agenttool demo`: a story about the real code."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, NoReturn

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
    with _heard_at_once():
        for tell in CHAPTERS:
            tell(teller)
    told = len(teller.claims) + len(teller.broken)
    teller.chapter("The end, so far")
    teller.claim(f"{len(teller.claims)} of {told} claims hold", holds=not teller.broken)
    if teller.broken:
        raise typer.Exit(1)


@contextmanager
def _heard_at_once() -> Generator[None]:
    """Let Ctrl-C end the story where it is: an event loop would hear it only once the work at hand is done."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
