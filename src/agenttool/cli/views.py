"""`agenttool views`: what servers want shown of each thread, on a terminal that none of it can command."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.console import Console

from agenttool.adapters.rap.views import View, Views
from agenttool.cli.journal.opening import JsonOption, StoreOption, journal_file, refuse
from agenttool.cli.terminal import in_one_line, indented, pretty
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.records import JsonObject
from agenttool.stores.places import Kept, open_place

app = typer.Typer(add_completion=False)

LOOK_EVERY_S = 0.2
"""How soon a view that changed is shown anew."""


@app.command()
def views(
    types: Annotated[
        list[str] | None, typer.Argument(metavar="TYPE", help="The types to show; others are left out")
    ] = None,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Only those of one thread")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show each anew when it changes, until Ctrl-C")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what servers want shown of each thread, and go on while it changes

    Only the latest of each type counts. What is in a view comes from its server
    and is shown as data: nothing in it is run, opened or obeyed.
    """  # noqa: D415 -- as in the table of commands
    wanted = frozenset(types or ())
    console = Console()
    try:
        asyncio.run(_show(_kept(store), thread, wanted, console, follow=follow, as_json=as_json))
    except (ConfigError, StoreError) as error:
        refuse(error)
    except KeyboardInterrupt:
        return  # the way to leave views that are followed


def _kept(store: str | None) -> Kept:
    file = journal_file(store)
    if not file.is_file():
        raise ConfigError(f"there is no journal at {str(file)!r}; name its file with --store")
    return open_place(f"sqlite:{file}", STEPS, None)


async def _show(
    kept: Kept, thread: str | None, wanted: frozenset[str], console: Console, *, follow: bool, as_json: bool
) -> None:
    is_empty = True
    try:
        async for view in _changing(Views(kept.shelf), thread, follow=follow):
            if wanted and view.view_type not in wanted:
                continue
            is_empty = False
            if as_json:
                told: JsonObject = {"thread_id": view.thread_id, "view_type": view.view_type, "content": view.content}
                typer.echo(json_bytes(told).decode())
            else:
                _print(console, view)
    finally:
        if kept.close is not None:
            await kept.close()
    if is_empty and not as_json:
        Console(stderr=True).print("nothing to show", style="dim")


async def _changing(views: Views, thread: str | None, *, follow: bool) -> AsyncIterator[View]:
    """Give the views that there are, and then each that is another than before; one that is gone has no content."""
    shown: dict[tuple[str, str], View] = {}
    while True:
        found = {(view.thread_id, view.view_type): view for view in await views.of(thread)}
        for key, view in found.items():
            if shown.get(key) != view:
                yield view
        for key in shown.keys() - found.keys():
            yield View(thread_id=key[0], view_type=key[1], content={})
        shown = found
        if not follow:
            return
        await asyncio.sleep(LOOK_EVERY_S)


def _print(console: Console, view: View) -> None:
    """Show a view; its words are a stranger's, and nothing in them may move the cursor."""
    head = f"{in_one_line(view.thread_id)}  {in_one_line(view.view_type)}"
    console.print(head, style="bold", markup=False, highlight=False, soft_wrap=True)
    if view.content:
        console.print(indented(pretty(view.content)), soft_wrap=True)
    else:
        console.print("  nothing to show any more", style="dim")
