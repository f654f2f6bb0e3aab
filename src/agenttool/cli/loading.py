"""Tools and settings by the words of the command line."""

import importlib
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

from agenttool.adapters.python.declare import FunctionTool
from agenttool.assemble import Runtime, Tool, kept_at
from agenttool.config import read_config
from agenttool.errors import ConfigError
from agenttool.ports.tool import DeclaredTool
from agenttool.stores.places import file_of

SETTINGS = "agenttool.toml"


def load_tools(places: list[str]) -> list[Tool]:
    """Import modules and take their tools: `package.module` for all of them, `package.module:name` for one or a list.

    Raises:
        ConfigError: there is no such module or tool, or importing it failed.
    """
    sys.path.insert(0, str(Path.cwd()))
    found: list[Tool] = []
    for place in places:
        name, _, attribute = place.partition(":")
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {error}"
            advice = f"write {Path(name).stem}, not the name of its file" if name.endswith(".py") else "correct it"
            raise ConfigError(f"module {name!r} cannot be imported: {told}; {advice}") from error
        values: list[object] = [getattr(module, attribute, None)] if attribute else list(vars(module).values())
        tools = list(_tools_in(values))
        if not tools:
            raise ConfigError(f"{place!r} holds no tool; decorate a function with @tool, and name its module")
        found += tools
    return list({id(each): each for each in found}.values())


def _tools_in(values: Iterable[object]) -> Iterator[Tool]:
    """Go through the tools among values, those in lists and tables of them included."""
    for value in values:
        yield from (cast("Tool", each) for each in _listed(value) if isinstance(each, FunctionTool | DeclaredTool))


def _listed(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    return cast("Iterable[object]", value) if isinstance(value, list | tuple) else (value,)


def settings_file(given: Path | None) -> Path | None:
    """Take the settings that were named, or the ones that lie here."""
    return given if given is not None else Path(SETTINGS) if Path(SETTINGS).exists() else None


def store_place(given: str | None) -> str | None:
    """Read where a store is; the path of a file is enough."""
    return given if given is None or given.startswith(("sqlite:", "memory:")) else f"sqlite:{given}"


def store_file(given: str | None, settings: Path | None) -> Path | None:
    """Find the file that the words of the command, or else the settings, keep calls in; none for memory.

    Raises:
        ConfigError: what they say is no place for a store.
    """
    if given is not None:
        return file_of(store_place(given) or "")
    setting = None if settings is None else read_config(settings).store
    return None if setting is None else file_of(kept_at(setting)[0])


class Named(NamedTuple):
    """How a command was told where its store is; a command to be run next is told the same."""

    store: str | None
    settings: Path | None = None

    @property
    def words(self) -> str:
        """Repeat the words."""
        given = (("--store", self.store), ("--settings", self.settings))
        return "".join(f" {word} {shlex.quote(str(value))}" for word, value in given if value is not None)

    @property
    def words_to_read(self) -> str:
        """Say it to a command that only reads: such a one takes a file, and no settings."""
        if self.store is not None or self.settings is None:
            return Named(self.store).words
        return Named(str(store_file(None, self.settings))).words


def refuse_if_no_tools(rt: Runtime, given: list[Tool]) -> None:
    """Say what is missing where neither a module nor a source of the settings brings tools.

    Raises:
        ConfigError: there are none.
    """
    if not given and rt.rap is None:
        raise ConfigError("nobody said where the tools are; name their module, or a source in the settings")
