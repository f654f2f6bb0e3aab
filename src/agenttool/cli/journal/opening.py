"""The file that a command was told to look at."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from agenttool.cli.journal.words import lines
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.reader import SqliteReader

DEFAULT = "agenttool.db"
UNUSABLE = 2
_SCHEME = "sqlite:"

StoreOption = Annotated[str, typer.Option(metavar="FILE", help="The file of the journal")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")]


@contextmanager
def opened(store: str) -> Generator[SqliteReader]:
    """Open the journal to look at it, by its path or as `Runtime.open` takes it; whatever is wrong ends the command."""
    try:
        with SqliteReader.open(Path(store.removeprefix(_SCHEME)), steps=STEPS) as reader:
            yield reader
    except (ConfigError, StoreError) as error:
        refuse(error)


def refuse(error: Exception) -> NoReturn:
    """Say on the error stream what was wrong, and stop."""
    Console(stderr=True).print(lines(str(error)), markup=False, style="red", soft_wrap=True)
    raise typer.Exit(UNUSABLE)
