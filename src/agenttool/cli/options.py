"""Options that commands share: the modules of tools, the settings file, and the store with its journal."""

import importlib
import shlex
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, NamedTuple, cast

import typer

from agenttool.adapters.python.declare import FunctionTool
from agenttool.assemble import Tool, kept_at
from agenttool.cli.output import fail
from agenttool.config import StoreSetting, read_config
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.tool import DeclaredTool
from agenttool.runtime import Runtime
from agenttool.stores.location import StoreParts, open_store, store_path
from agenttool.stores.sqlite.reader import SqliteReader

SETTINGS_FILE = "agenttool.toml"
"""The settings file that is read from the working directory."""

STORE_FILE = "agenttool.db"
"""The file of the store if neither options nor settings name one."""

JournalOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FILE", help=f"File of the journal; default: as {SETTINGS_FILE} says, or {STORE_FILE}"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="MODULE[:NAME]", help="Modules of tools, besides the sources in the settings"),
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help=f"Settings file; default: {SETTINGS_FILE} in the working directory")
]


def import_from_working_directory(name: str) -> ModuleType:
    """Import a module by name; the working directory comes first on the path.

    Raises:
        ConfigError: the import fails.
    """
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        advice = f"write {Path(name).stem}, not the name of its file" if name.endswith(".py") else "correct it"
        raise ConfigError(f"module {name!r} cannot be imported: {reason}; {advice}") from error


def load_tools(places: list[str]) -> list[Tool]:
    """Return the tools of `package.module` (all of them) or `package.module:name` (one tool, or a list of tools).

    Raises:
        ConfigError: a module cannot be imported, or a place holds no tool.
    """
    found: list[Tool] = []
    for place in places:
        name, _, attribute = place.partition(":")
        module = import_from_working_directory(name)
        values: list[object] = [getattr(module, attribute, None)] if attribute else list(vars(module).values())
        tools = list(_tools_in(values))
        if not tools:
            raise ConfigError(f"{place!r} holds no tool; decorate a function with @tool, and name its module")
        found += tools
    return list({id(each): each for each in found}.values())


def _tools_in(values: Iterable[object]) -> Iterator[Tool]:
    """Yield the tools among values, including those in lists and dictionaries."""
    for value in values:
        yield from (cast("Tool", each) for each in _members(value) if isinstance(each, FunctionTool | DeclaredTool))


def _members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    return cast("Iterable[object]", value) if isinstance(value, list | tuple) else (value,)


def require_tools(rt: Runtime, given: list[Tool]) -> None:
    """Check that a module or a source of the settings provides tools.

    Raises:
        ConfigError: there are none.
    """
    if not given and rt.rap is None:
        raise ConfigError("no tools are given; name their module, or add a source to the settings")


def find_settings(given: Path | None) -> Path | None:
    """Return the given settings file, or the one in the working directory if it exists."""
    return given if given is not None else Path(SETTINGS_FILE) if Path(SETTINGS_FILE).exists() else None


def store_url(given: str | None) -> str | None:
    """Return the URL of a store; the path of a file is accepted too."""
    return given if given is None or given.startswith(("sqlite:", "memory:")) else f"sqlite:{given}"


def store_setting(settings: Path | None) -> StoreSetting | None:
    """Return the [store] table of a settings file, if there is one."""
    return None if settings is None else read_config(settings).store


def store_file(given: str | None, settings: Path | None) -> Path | None:
    """Return the file of the store that the option, or else the settings, name; none for memory.

    Raises:
        ConfigError: the URL is not that of a store.
    """
    if given is not None:
        return store_path(store_url(given) or "")
    setting = store_setting(settings)
    return None if setting is None else store_path(kept_at(setting)[0])


def journal_file(given: str | None) -> Path:
    """Return the file of the journal: the one given, the one in the settings here, or `STORE_FILE`.

    Raises:
        ConfigError: the store is in memory.
    """
    settings = find_settings(None)
    file = store_file(given, settings)
    if file is not None:
        return file
    if given is None and store_setting(settings) is None:
        return Path(STORE_FILE)
    raise ConfigError(f"{given or 'memory:'!r} stores its journal in memory, which no other process reads; name a file")


@contextmanager
def open_journal(given: str | None) -> Generator[SqliteReader]:
    """Open the journal read-only; an error ends the command."""
    try:
        with SqliteReader.open(journal_file(given), steps=STEPS) as reader:
            yield reader
    except (ConfigError, StoreError) as error:
        fail(error)


def open_existing_store(given: str | None) -> StoreParts:
    """Open the store of an existing journal for reading and writing.

    Raises:
        ConfigError: there is no such file.
    """
    file = journal_file(given)
    if not file.is_file():
        raise ConfigError(f"there is no journal at {str(file)!r}; name its file with --store")
    return open_store(f"sqlite:{file}", STEPS, _payload_setting(given))


def payload_location(given: str | None, file: Path) -> str:
    """Return where the payloads of a journal are: as the settings say, or a folder beside the file."""
    return _payload_setting(given) or str(file.with_name(f"{file.name}-payloads"))


def _payload_setting(given: str | None) -> str | None:
    """Return the payloads of the settings, which apply only if no other store is given."""
    setting = store_setting(find_settings(None)) if given is None else None
    return None if setting is None else kept_at(setting)[1]


class StoreOptions(NamedTuple):
    """The store options of a command, to be repeated in the command that it suggests next."""

    store: str | None
    settings: Path | None = None

    @property
    def arguments(self) -> str:
        """The options as shell words, each after a blank."""
        given = (("--store", self.store), ("--settings", self.settings))
        return "".join(f" {word} {shlex.quote(str(value))}" for word, value in given if value is not None)

    @property
    def journal_arguments(self) -> str:
        """The same for a command that only reads the journal: it takes a file, and no settings."""
        if self.store is not None or self.settings is None:
            return StoreOptions(self.store).arguments
        return StoreOptions(str(store_file(None, self.settings))).arguments
