"""The file that a command was told to look at."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agenttool.cli.refusing import refuse
from agenttool.config import read_config
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.stores.places import file_of
from agenttool.stores.sqlite.reader import SqliteReader

DEFAULT = "agenttool.db"
SETTINGS = "agenttool.toml"

StoreOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help=f"The file of the journal; if left out, as {SETTINGS} says, or {DEFAULT}"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")]


@contextmanager
def opened(store: str | None) -> Generator[SqliteReader]:
    """Open the journal to look at it; whatever is wrong ends the command."""
    try:
        with SqliteReader.open(journal_file(store), steps=STEPS) as reader:
            yield reader
    except (ConfigError, StoreError) as error:
        refuse(error)


def journal_file(given: str | None) -> Path:
    """Find the file: by its path, as `Runtime.open` takes it, or by the settings that lie here.

    Raises:
        ConfigError: what was given or set is no file.
    """
    if given is not None:
        return _file(given if given.startswith(("sqlite:", "memory:")) else f"sqlite:{given}")
    setting = read_config(SETTINGS).store if Path(SETTINGS).exists() else None
    return Path(DEFAULT) if setting is None else setting.folder / _file(setting.url)


def _file(place: str) -> Path:
    file = file_of(place)
    if file is None:
        raise ConfigError(f"{place!r} keeps its journal in memory, where nobody else can read it; name a file")
    return file
