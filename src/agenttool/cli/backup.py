"""`agenttool backup`: a copy of the journal while it is used."""

from pathlib import Path
from typing import Annotated

import typer

from agenttool.cli.journal.opening import JsonOption, StoreOption, opened
from agenttool.cli.journal.words import size
from agenttool.codec import json_bytes, to_json
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader

app = typer.Typer(add_completion=False)


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A file that is not there yet")],
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the journal as it is at one moment, while others write it

    The copy is there whole, or not at all. It holds the raw inputs of calls that
    are under way, and is readable by its owner only.
    """  # noqa: D415 -- as in the table of commands
    with opened(store) as reader:
        reader.backup(target)
        with SqliteReader.open(target, steps=STEPS) as copy:
            head, count = copy.head(), target.stat().st_size
    if as_json:
        typer.echo(json_bytes({"target": str(target), "bytes": count, "head": to_json(head)}).decode())
    else:
        typer.echo(f"copied {reader.path} to {target}: {size(count)}, up to position {head.position}")
