"""Options that commands share: the modules of tools, the settings file, and the store with its journal."""

import shlex
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, cast

import typer

from agenttool.config import AUTO, StoreSetting, environment, load_config
from agenttool.config.layers import SETTINGS_FILE
from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.stores.location import (
    StoreParts,
    belongs_to_database,
    open_store,
    payload_folder,
    store_location,
    store_path,
)
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.store_trust import STORE_FILE, is_store_trusted

if TYPE_CHECKING:
    from agenttool.adapters.python.source import Tool

_T = TypeVar("_T")

URL, KEY, KEY_FILE = "AGENTTOOL_URL", "AGENTTOOL_KEY", "AGENTTOOL_KEY_FILE"
"""The variables that name a server, and the key for it or its file."""


def option(
    usage: str,
    text: str,
    *,
    default: _T = None,  # pyright: ignore[reportArgumentType] -- an option without a default may be None
    low: float | None = None,
    high: float | None = None,
    completion: Callable[[], list[str]] | None = None,
) -> _T:
    """Return an option as its help shows it: its names, and the word for its value, such as `--store FILE`.

    Args:
        usage: the names and the word.
        text: the help.
        default: the value without the option.
        low: the smallest number.
        high: the largest number.
        completion: returns the values for completion in a shell.
    """
    names = [each for each in usage.split() if each.startswith("-")]
    metavar = usage.removeprefix(" ".join(names)).strip() or None
    found: object = typer.Option(
        default, *names, metavar=metavar, help=text, min=low, max=high, autocompletion=completion
    )
    return cast("_T", found)


def flag(usage: str, text: str) -> bool:
    """Return an option without a value, which is false without it."""
    return option(usage, text, default=False)


def argument(usage: str, text: str, *, default: _T = None) -> _T:  # pyright: ignore[reportArgumentType] -- as in `option`
    """Return an argument that may be left out, with its word in the help."""
    found: object = typer.Argument(default, metavar=usage or None, help=text)
    return cast("_T", found)


def required(usage: str, text: str, completion: Callable[[typer.Context, str], list[str]] | None = None) -> object:
    """Return the annotation of an argument that must be given; `completion` returns the values for a shell."""
    return typer.Argument(metavar=usage or None, help=text, autocompletion=completion)


@dataclass(frozen=True, kw_only=True)
class SettingsOptions:
    """The option that names a settings file. `load_command` makes the fields of such classes options of a command."""

    settings: Path | None = option(
        "--settings FILE", f"Use only this settings file; default: {SETTINGS_FILE} here or above, and your own"
    )

    @property
    def config(self) -> str | Path:
        """The settings file, or the word for those that apply here."""
        return self.settings or AUTO


@dataclass(frozen=True, kw_only=True)
class ModuleOptions(SettingsOptions):
    """The options that name tools: modules, and the sources of the settings."""

    from_: list[str] | None = option("--from MODULE[:NAME]", "Modules of tools, besides the sources in the settings")

    def load_tools(self) -> "list[Tool]":
        """Import the modules, and return their tools."""
        from agenttool.adapters.python.source import load_tools  # noqa: PLC0415 -- it is slow to load

        return load_tools(self.from_ or [])


@dataclass(frozen=True, kw_only=True)
class UrlOptions:
    """The option that names a server, in place of the options that name something on this machine."""

    url: str | None = option("--url URL", f"Use this server; default: ${URL}. Set its key in {KEY} or {KEY_FILE}")

    def resolved(self, only_here: Mapping[str, object] | None = None) -> Self:
        """Return these options with the server that is used, if one is.

        It is `--url`, or else `AGENTTOOL_URL` unless an option names something on this machine. `only_here` are the
        other options that do not work with a server, with their values.

        Raises:
            ConfigError: the server is combined with an option that it does not have.
        """
        local = _given({name: getattr(self, name, None) for name in ("from_", "store", "settings")})
        url = self.url if self.url is not None or local else environment([URL]).get(URL) or None
        refused = [*local, *_given(only_here or {})] if url is not None else []
        if refused and self.url is None:
            raise ConfigError(f"--{refused[0]} does not work with the server in {URL}; leave it out, or unset {URL}")
        if refused:
            raise ConfigError(f"--{refused[0]} does not work with --url; leave one of them out")
        return replace(self, url=url)


def _given(options: Mapping[str, object]) -> list[str]:
    return [name.strip("_").replace("_", "-") for name, value in options.items() if value not in (None, False)]


@dataclass(frozen=True, kw_only=True)
class ToolUrlOptions(UrlOptions, ModuleOptions):
    """The options of commands about the tools of modules, of sources or of a server."""


def output_file(file: Path | None) -> Path | None:
    """Return the file that a command writes its output to.

    Raises:
        ConfigError: it is a store or belongs to one, which would be lost.
    """
    if file is not None and belongs_to_database(file):
        raise ConfigError(f"{str(file)!r} is a database or belongs to one, and is not overwritten; name another file")
    return file


def read_variable(setting: str, name: str) -> str:
    """Return the environment variable that an option or setting names.

    Raises:
        ConfigError: it is not set.
    """
    value = environment([name]).get(name)
    if value is None:
        raise ConfigError(f"{setting} names {name!r}, which is not set; set it, or leave {setting} out")
    return value


@dataclass(frozen=True, kw_only=True)
class StoreOptions(SettingsOptions):
    """The options that name a store: `--store`, or else the [store] table of `--settings`."""

    store: str | None = option("--store FILE", f"Store file; default: the one in the settings, or {STORE_FILE}")

    @cached_property
    def setting(self) -> StoreSetting | None:
        """The [store] table, if it applies."""
        return None if self.store is not None else load_config(self.config).store

    @property
    def file(self) -> Path | None:
        """The file of the store; none if it is in memory, or if no option names one."""
        place = self.store if self.setting is None else store_location(self.setting)[0]
        return None if place is None else store_path(place)

    @property
    def payloads(self) -> str | None:
        """Where the payloads are, if the [store] table names a place."""
        return None if self.setting is None else store_location(self.setting)[1]

    def or_default(self) -> Self:
        """Return these options, with `STORE_FILE` if they name no store."""
        return self if self.store is not None or self.setting is not None else replace(self, store=STORE_FILE)

    def for_use(self) -> Self:
        """Return the same for a command that runs calls or writes: a store that no option names must be the user's own.

        Raises:
            ConfigError: this user did not create it, and does not trust it.
        """
        found = self.or_default()
        if found is not self:
            check_found_store(Path(STORE_FILE))
        return found

    def existing_file(self) -> Path:
        """Return the file of the journal, which exists.

        Raises:
            ConfigError: the store is in memory, or there is no such file.
        """
        file = self.or_default().file
        if file is None:
            raise ConfigError("the journal is in memory, which no other process reads; name a file with --store")
        if not file.is_file():
            raise ConfigError(
                f"there is no journal at {str(file)!r}; name its file with --store. Calls are stored only "
                "if `[store] url` in agenttool.toml or --store names a file"
            )
        return file

    def open_journal(self) -> AbstractContextManager[SqliteReader]:
        """Open the existing journal read-only."""
        return SqliteReader.open(self.existing_file(), steps=STEPS)

    def payload_location(self, file: Path) -> str:
        """Return where the payloads of a journal are: as the settings say, or a folder beside the file."""
        return self.payloads or str(payload_folder(file))

    @property
    def arguments(self) -> str:
        """The options as shell words, each after a blank, for a suggested command."""
        given = (("--store", self.store), ("--settings", self.settings))
        return "".join(f" {word} {shlex.quote(str(value))}" for word, value in given if value is not None)

    @property
    def for_any_folder(self) -> Self:
        """The same with absolute paths, for a command that a user may run in another folder."""
        settings = None if self.settings is None else self.settings.absolute()
        file = None if self.store is None and settings is not None else self.file
        return replace(self, store=self.store if file is None else str(file.absolute()), settings=settings)


@dataclass(frozen=True, kw_only=True)
class StoreUrlOptions(UrlOptions, StoreOptions):
    """The options of commands about the calls of a store or of a server."""

    @property
    def arguments(self) -> str:
        """The options as shell words, each after a blank, for a suggested command."""
        return super().arguments if self.url is None else f" --url {shlex.quote(self.url)}"


@dataclass(frozen=True, kw_only=True)
class StoreToolOptions(StoreOptions, ModuleOptions):
    """The options of commands that serve tools."""


@dataclass(frozen=True, kw_only=True)
class CallOptions(StoreUrlOptions, ModuleOptions):
    """The options of commands that make, answer or end calls.

    Attributes:
        by: the name that this user claims.
    """

    by: str | None = option("--by NAME", "Your name, recorded as a claim beside the operating-system user")

    def resolved(self, only_here: Mapping[str, object] | None = None) -> Self:
        """Return these options with the server that is used, which takes no `--by`."""
        return super().resolved({"by": self.by, **(only_here or {})})


def check_found_store(file: Path) -> None:
    """Check a store that was found by its name.

    Raises:
        ConfigError: this user did not create it, and does not trust it.
    """
    if not is_store_trusted(file):
        from agenttool.cli.store_effects import require_store_trust  # noqa: PLC0415 -- it is slow to load

        require_store_trust(file)


@asynccontextmanager
async def open_parts(file: Path, payloads: str | None) -> AsyncGenerator[StoreParts]:
    """Open the store in a file for reading and writing; create it if there is none."""
    parts = open_store(f"sqlite:{file}", STEPS, payloads)
    try:
        yield parts
    finally:
        if parts.close is not None:
            await parts.close()


def open_existing_store(options: StoreOptions) -> AbstractAsyncContextManager[StoreParts]:
    """Open the store of an existing journal for reading and writing."""
    options = options.for_use()
    return open_parts(options.existing_file(), options.payloads)
