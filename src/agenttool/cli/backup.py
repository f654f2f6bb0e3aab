"""`agenttool backup`: a copy of the journal while it is used."""

from pathlib import Path
from typing import Annotated

import typer

from agenttool.cli.journal.opening import JsonOption, StoreOption, opened
from agenttool.cli.journal.payloads import folder_of
from agenttool.cli.journal.words import size
from agenttool.codec import json_bytes, to_json
from agenttool.journal.steps import STEPS
from agenttool.records import JsonObject
from agenttool.stores.files.backup import copy_folder
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
    are under way, and is readable by its owner only. Stored bytes in a folder are
    copied, too, into a folder beside it; an object store has copies of its own.
    """  # noqa: D415 -- as in the table of commands
    with opened(store) as reader:
        folder, stored = folder_of(store, reader.path), 0

        def copy_stored() -> None:
            nonlocal stored
            stored = 0 if folder is None else copy_folder(folder, target.with_name(f"{target.name}-payloads"))

        reader.backup(target, beforehand=copy_stored)
        with SqliteReader.open(target, steps=STEPS) as copy:
            head, count = copy.head(), target.stat().st_size
    if as_json:
        told: JsonObject = {"target": str(target), "bytes": count, "payloads": stored, "head": to_json(head)}
        typer.echo(json_bytes(told).decode())
    else:
        payloads = f", {stored:,} payloads" if stored else ""
        typer.echo(f"copied {reader.path} to {target}: {size(count)}{payloads}, up to position {head.position}")
