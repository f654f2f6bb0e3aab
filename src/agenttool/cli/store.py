"""`agenttool store`: commands about the files of a store."""

from pathlib import Path

import typer

from agenttool.cli.format import print_json
from agenttool.cli.options import StoreOptions
from agenttool.cli.output import print_text
from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.sqlite.schema import upgrade_store

app = typer.Typer(add_completion=False)


@app.callback()
def store() -> None:
    """Upgrade a store of an older version; each command takes --json."""


@app.command()
def upgrade(*, options: StoreOptions) -> None:
    """Give a store that an older version wrote the tables of this version.

    Commands that write do so by themselves for files below 1 GB. Stop the processes
    that use the store, and run `agenttool backup` with the older version first: the
    older version cannot use the file afterwards. The files of all tenants are
    upgraded with that of the default tenant.
    """
    from agenttool.server.tenants import other_stores  # noqa: PLC0415 -- it is slow to load

    file = options.for_use().existing_file()
    _upgrade(file)
    with SqliteReader.open(file, steps=STEPS) as reader:
        tenants = other_stores(reader)
    for each in tenants.values():
        _upgrade(each)


def _upgrade(file: Path) -> None:
    before, after = upgrade_store(file)
    if not before:
        raise ConfigError(f"{str(file)!r} holds no journal yet; name another file with --store")
    print_json({"file": str(file), "schema_before": before, "schema": after})
    if before == after:
        print_text(f"{file} has schema {after} already")
    else:
        print_text(f"upgraded {file} from schema {before} to {after}")
