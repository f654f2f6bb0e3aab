"""What the settings of sources share: their names, references to credentials, and tables of settings files."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from agenttool.config.table import TableError, convert_members
from agenttool.errors import ConfigError
from agenttool.ports.source import SourceSettings, SourceTable
from agenttool.records import Part

RESERVED_NAME = "agenttool"
"""The namespace of the built-in tools, which no source can have."""

_S = TypeVar("_S")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REFERENCE = re.compile(r"\$\{credentials\.([A-Za-z0-9_-]+)\}")


def check_name(name: str) -> None:
    """Reject a name that a source cannot have.

    Raises:
        ConfigError: says which names are possible.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a source is named with letters, digits, '_' and '-', got {name!r}; rename it")
    if name == RESERVED_NAME:
        raise ConfigError(f"{name!r} is the namespace of the built-in tools; choose another name for the source")


def check_settings(name: str, settings: Part) -> None:
    """Check the name of a source, and convert the settings of a program like those of a table.

    Raises:
        ConfigError: a source cannot have the name, or a member is invalid.
    """
    check_name(name)
    try:
        convert_members(settings)
    except TableError as error:
        raise ConfigError(f"the source {name!r} is invalid: {error}") from error


def credentials_in(text: str) -> tuple[str, ...]:
    """Return the names of the credentials that a text refers to."""
    return tuple(_REFERENCE.findall(text))


def fill_credentials(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of the credentials that it refers to.

    Raises:
        KeyError: one is not among them.
    """
    return _REFERENCE.sub(lambda found: values[found[1]], text)


def read_all(settings: Sequence[SourceSettings], kind: type[_S], read: Callable[[SourceTable], _S]) -> list[_S]:
    """Return settings of one kind; `read` reads those that are a table.

    Raises:
        ConfigError: a table is invalid; says where it is.
    """
    found: list[_S] = []
    for each in settings:
        if isinstance(each, kind):
            found.append(each)
        elif isinstance(each, SourceTable):
            with each.locate_errors():
                found.append(read(each))
    return found


def folder_of(table: SourceTable) -> Path | None:
    """Return the folder that relative paths of a table start at."""
    return None if table.file is None else Path(table.file).resolve().parent
