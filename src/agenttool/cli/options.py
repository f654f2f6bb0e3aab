"""Options that commands share: the modules of tools, the settings file, and the store with its journal."""

import shlex
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from agenttool.config import AUTO, StoreSetting, environment, load_config
from agenttool.config.layers import SETTINGS_FILE
from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.stores.location import StoreParts, open_store, payload_folder, store_location, store_path
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.store_trust import STORE_FILE, is_store_trusted

URL, KEY, KEY_FILE = "AGENTTOOL_URL", "AGENTTOOL_KEY", "AGENTTOOL_KEY_FILE"
"""The variables that name a server, and the key for it or its file."""

MAX_PAGE = 200
"""So many items a server returns at a time."""

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="FILE", help=f"Store file; default: the one in the settings, or {STORE_FILE}"),
]
ByOption = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Your name, recorded as a claim beside the operating-system user"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="MODULE[:NAME]", help="Modules of tools, besides the sources in the settings"),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help=f"Use only this settings file; default: {SETTINGS_FILE} here or above, and your own",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Use this server; default: ${URL}. Set its key in {KEY} or {KEY_FILE}"),
]


def server_url(url: str | None, **local: object) -> str | None:
    """Return the server of a command: `--url`, or else `AGENTTOOL_URL` unless an option names something local.

    Raises:
        ConfigError: `--url` is combined with an option that a server does not have.
    """
    given = [name for name, value in local.items() if value not in (None, False)]
    if url is None:
        return None if given else environment([URL]).get(URL) or None
    if given:
        raise ConfigError(f"--{given[0].replace('_', '-')} does not work with --url; leave one of them out")
    return url


def read_variable(setting: str, name: str) -> str:
    """Return the environment variable that an option or setting names.

    Raises:
        ConfigError: it is not set.
    """
    value = environment([name]).get(name)
    if value is None:
        raise ConfigError(f"{setting} names {name!r}, which is not set; set it, or leave {setting} out")
    return value


class StoreOptions(NamedTuple):
    """The options that name a store: `--store`, or else the [store] table of `--settings`."""

    store: str | None
    settings: Path | None = None

    @property
    def setting(self) -> StoreSetting | None:
        """The [store] table, if it applies."""
        return None if self.store is not None else load_config(self.settings or AUTO).store

    @property
    def file(self) -> Path | None:
        """The file of the store; none if it is in memory, or if no option names one."""
        setting = self.setting
        place = self.store if setting is None else store_location(setting)[0]
        return None if place is None else store_path(place)

    @property
    def payloads(self) -> str | None:
        """Where the payloads are, if the [store] table names a place."""
        setting = self.setting
        return None if setting is None else store_location(setting)[1]

    def or_default(self) -> "StoreOptions":
        """Return these options, with `STORE_FILE` if they name no store."""
        return self if self.store is not None or self.setting is not None else self._replace(store=STORE_FILE)

    def for_use(self) -> "StoreOptions":
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

    @property
    def arguments(self) -> str:
        """The options as shell words, each after a blank, for a suggested command."""
        given = (("--store", self.store), ("--settings", self.settings))
        return "".join(f" {word} {shlex.quote(str(value))}" for word, value in given if value is not None)

    @property
    def for_any_folder(self) -> "StoreOptions":
        """The same with absolute paths, for a command that a user may run in another folder."""
        settings = None if self.settings is None else self.settings.absolute()
        file = None if self.store is None and settings is not None else self.file
        return StoreOptions(self.store if file is None else str(file.absolute()), settings)

    @property
    def journal_arguments(self) -> str:
        """The same for a command that only reads the journal: it accepts a file, and no settings."""
        if self.store is not None or self.settings is None:
            return StoreOptions(self.store).arguments
        return StoreOptions(str(self.file)).arguments


def check_found_store(file: Path) -> None:
    """Check a store that was found by its name.

    Raises:
        ConfigError: this user did not create it, and does not trust it.
    """
    if not is_store_trusted(file):
        from agenttool.cli.store_effects import require_store_trust  # noqa: PLC0415 -- it is slow to load

        require_store_trust(file)


def open_journal(store: str | None) -> AbstractContextManager[SqliteReader]:
    """Open an existing journal read-only."""
    return SqliteReader.open(StoreOptions(store).existing_file(), steps=STEPS)


@asynccontextmanager
async def open_parts(file: Path, payloads: str | None) -> AsyncGenerator[StoreParts]:
    """Open the store in a file for reading and writing; create it if there is none."""
    parts = open_store(f"sqlite:{file}", STEPS, payloads)
    try:
        yield parts
    finally:
        if parts.close is not None:
            await parts.close()


def open_existing_store(store: str | None) -> AbstractAsyncContextManager[StoreParts]:
    """Open the store of an existing journal for reading and writing."""
    options = StoreOptions(store).for_use()
    return open_parts(options.existing_file(), options.payloads)


def payload_location(store: str | None, file: Path) -> str:
    """Return where the payloads of a journal are: as the settings say, or a folder beside the file."""
    return StoreOptions(store).payloads or str(payload_folder(file))
