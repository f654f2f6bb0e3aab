"""Read one settings file into a `Config`; every error names the file and the line."""

import hashlib
import itertools
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Self, TypeVar, cast

from agenttool.config.settings import (
    Config,
    JwtTable,
    PermissionsTable,
    SearchTable,
    ServerSetting,
    Setting,
    StoreSetting,
    StoreTable,
    SurfaceSetting,
)
from agenttool.config.table import TableError, members_of, read_table, suggestion
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject, Part, RuleSource

_T = TypeVar("_T", bound=Part)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One parsed file, with the lines for error messages, and the digest of its bytes."""

    file: Path
    lines: tuple[str, ...]
    tables: JsonObject
    digest: str

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file.

        Raises:
            ConfigError: it cannot be read, or is not TOML.
        """
        file = Path(path)
        try:
            data = file.read_bytes()
            text = data.decode("utf-8-sig")
            return cls(file, tuple(text.splitlines()), tomllib.loads(text), digest_of_settings(data))
        except OSError as error:
            raise ConfigError(f"settings cannot be read: {str(path)!r}: {error.strerror}; name another file") from error
        except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and lists too deeply
            raise ConfigError(f"{path}: not TOML: {error}; correct it") from error

    def headings(self, *names: str) -> list[int]:
        """Return the lines of this table's headings, or of each table in a list of this name."""
        return self._lines(rf"\s*\[+\s*{_dotted(names)}\s*\]")

    def line(self, *names: str, key: str | None = None) -> int:
        """Return the line of a table or of one of its keys; 1 if it is not found."""
        begun = self.headings(*names) or self._lines(rf"\s*\[*\s*{_dotted(names)}\s*[=.]") or [1]
        begin = begun[0]
        if key is not None:
            table = itertools.takewhile(lambda line: not line.lstrip().startswith("["), self.lines[begin:])
            member = re.compile(rf'\s*["\']?{re.escape(key)}["\']?\s*[=.]')
            begin = next((number for number, line in enumerate(table, begin + 1) if member.match(line)), begin)
        return begin

    def place(self, *names: str, key: str | None = None) -> str:
        """Return the file and line of a table or of one of its keys."""
        return f"{self.file}:{self.line(*names, key=key)}"

    def table(self, name: str, kind: type[_T]) -> _T | None:
        """Return the struct of a table, such as `server` or `server.jwt`; None if it is not written.

        Raises:
            ConfigError: it is not a table, or a key is unknown, missing or invalid.
        """
        names, table = name.split("."), cast("Json", self.tables)
        for each in names:
            table = table.get(each) if isinstance(table, dict) else table
        if table is None:
            return None
        if not isinstance(table, dict):
            raise ConfigError(f"{self.place(*names)}: {name} must be a table; write [{name}]")
        try:
            return read_table(table, kind, f"[{name}]")
        except TableError as error:
            raise ConfigError(f"{self.place(*names, key=error.key)}: {error}") from error

    def members(self, name: str, form: str) -> JsonObject:
        """Return the members of a table without checking them; none if it is not written.

        Raises:
            ConfigError: it is not a table; the message shows how it is written.
        """
        table = self.tables.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{self.place(name)}: {name} must be {form}")
        return table

    def _lines(self, pattern: str) -> list[int]:
        found = re.compile(pattern)
        return [number for number, line in enumerate(self.lines, 1) if found.match(line)]


def digest_of_settings(data: bytes) -> str:
    """Return the digest of the bytes of a settings file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _dotted(names: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(rf'["\']?{re.escape(each)}["\']?' for each in names)


_KNOWN = tuple(
    "credentials hooks mcp permissions roles rules search server sources store surface teams".split()  # noqa: SIM905 -- a list of words reads best as words
)


STARTER_FILE = "starter.toml"
"""The rules for commands that come with the package."""


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names that are set; no other code reads the environment."""
    variables = os.environ  # noqa: TID251 -- the one reader
    return {name: variables[name] for name in names if name in variables}


def user_folder() -> Path:
    """Return the configuration folder of the user.

    Raises:
        ConfigError: the user has no home directory.
    """
    folder = environment(["XDG_CONFIG_HOME"]).get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(folder).expanduser() / "agenttool"
    except RuntimeError as error:
        raise ConfigError("this user has no home directory; set HOME, or XDG_CONFIG_HOME") from error


def read_config(path: str | Path, *, source: RuleSource = RuleSource.PROJECT_SETTINGS) -> Config:
    """Read one settings file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or has an unknown or invalid setting; names the line.
    """
    return config_in(SettingsFile.read(path), source=source)


def config_in(written: SettingsFile, *, source: RuleSource) -> Config:
    """Return the settings of a parsed file.

    Raises:
        ConfigError: a setting is unknown or invalid; names the line.
    """
    for name in written.tables:
        if name not in _KNOWN:
            raise ConfigError(f"{written.place(name)}: no setting is called {name!r}; {suggestion(name, _KNOWN)}")
    permissions = written.table("permissions", PermissionsTable) or PermissionsTable()
    search = written.table("search", SearchTable)
    model = None if search is None else search.model
    written.table("server.jwt", JwtTable)
    return Config(
        rules=(*_list(written, "rules", source), *(starter_rules(source) if permissions.rules else ())),
        hooks=_list(written, "hooks", source),
        mode=permissions.mode,
        mode_place="" if permissions.mode is None else written.place("permissions", key="mode"),
        interactive=permissions.interactive,
        workspace=tuple(str(written.file.resolve().parent / each) for each in permissions.workspace),
        store=_store(written),
        surface=written.table("surface", SurfaceSetting),
        search_model=model if model in (None, "none") else written.file.resolve().parent / model,
        sources=_sources(written, source),
        credentials=_named(written, "credentials", source),
        server=written.table("server", ServerSetting),
        mcp=_named(written, "mcp", source),
        roles=_groups(written, "roles"),
        teams=_groups(written, "teams"),
    )


def starter_rules(source: RuleSource = RuleSource.PROJECT_SETTINGS) -> tuple[Setting, ...]:
    """Return the rules for commands that come with the package."""
    path = Path(str(files("agenttool") / "policy" / STARTER_FILE))
    return tuple(replace(each, file=STARTER_FILE) for each in _list(SettingsFile.read(path), "rules", source))


def _list(written: SettingsFile, name: str, source: RuleSource) -> tuple[Setting, ...]:
    """Pair each table of a list with its line; the parser keeps the order, so the n-th heading is the n-th table."""
    tables, lines = written.tables.get(name, []), written.headings(name)
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{written.place(name)}: {name} must be a list of tables; write [[{name}]]")
    found = cast("list[JsonObject]", tables)
    if len(lines) != len(found):  # written in one piece, or with tables of their own
        lines = [next(iter(lines), 1)] * len(found)
    file = str(written.file)
    return tuple(
        Setting(members=each, file=file, line=line, source=source) for each, line in zip(found, lines, strict=True)
    )


def _store(written: SettingsFile) -> StoreSetting | None:
    table = written.table("store", StoreTable)
    if table is None:
        return None
    folder, place = written.file.resolve().parent, written.place("store", key="url")
    return StoreSetting(**members_of(table), folder=folder, place=place)


def _groups(written: SettingsFile, name: str) -> dict[str, tuple[str, ...]]:
    """Return the actors of each group in `[roles]` or `[teams]`."""
    found: dict[str, tuple[str, ...]] = {}
    for group, listed in written.members(name, f"a table; write [{name}]").items():
        actors = [listed] if isinstance(listed, str) else listed
        if not isinstance(actors, list) or not all(isinstance(each, str) and each for each in actors):
            place = written.place(name, key=group)
            raise ConfigError(
                f'{place}: {group} must be a list of actors, got {listed!r}; write {group} = ["user:ada"]'
            )
        found[group] = tuple(cast("list[str]", actors))
    return found


def _named(written: SettingsFile, name: str, source: RuleSource) -> dict[str, Setting]:
    """Return the tables `[NAME.…]` by their second name."""
    found: dict[str, Setting] = {}
    for each, table in written.members(name, f"tables; write [{name}.NAME]").items():
        if not isinstance(table, dict):  # the value is not shown: it may be a secret
            place = written.place(name, key=each)
            raise ConfigError(f"{place}: {each} in [{name}] must be a table; write [{name}.{each}]")
        line = written.line(name, each)
        found[each] = Setting(members=table, file=str(written.file), line=line, source=source)
    return found


def _sources(written: SettingsFile, source: RuleSource) -> dict[str, Setting]:
    found = _named(written, "sources", source)
    for setting in found.values():
        if not isinstance(setting.members.get("kind"), str):
            raise ConfigError(f'{setting.place}: a source needs a kind; write kind = "rap"')
    return found
