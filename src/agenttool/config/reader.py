"""Read one settings file into a `Config`; every error names the file and the line."""

import itertools
import math
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from agenttool.config.settings import Config, ServerSetting, Setting, SourceSetting, StoreSetting, SurfaceSetting
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, RuleSource


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One parsed file, with the lines for error messages."""

    file: Path
    lines: tuple[str, ...]
    tables: JsonObject

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file.

        Raises:
            ConfigError: it cannot be read, or is not TOML.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
            return cls(file, tuple(text.splitlines()), tomllib.loads(text))
        except OSError as error:
            raise ConfigError(f"settings cannot be read: {str(path)!r}: {error.strerror}; name another file") from error
        except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and lists beyond all measure
            raise ConfigError(f"{path}: not TOML: {error}; correct it") from error

    def headings(self, *names: str) -> list[int]:
        """Return the lines of this table's headings, or of each table in a list of this name."""
        return self._lines(rf"\s*\[+\s*{_dotted(names)}\s*\]")

    def place(self, *names: str, key: str | None = None) -> str:
        """Return the file and line of a table or of one of its keys; line 1 if it is not found."""
        begun = self.headings(*names) or self._lines(rf"\s*\[*\s*{_dotted(names)}\s*[=.]") or [1]
        begin = begun[0]
        if key is not None:
            table = itertools.takewhile(lambda line: not line.lstrip().startswith("["), self.lines[begin:])
            member = re.compile(rf'\s*["\']?{re.escape(key)}["\']?\s*[=.]')
            begin = next((number for number, line in enumerate(table, begin + 1) if member.match(line)), begin)
        return f"{self.file}:{begin}"

    def members(self, name: str, known: tuple[str, ...]) -> JsonObject:
        """Return the members of a table that may be left out.

        Raises:
            ConfigError: it is not a table, or has an unknown member.
        """
        table = self.tables.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{self.place(name)}: {name} must be a table; write [{name}]")
        for each in table:
            if each not in known:
                place = self.place(name, key=each)
                raise ConfigError(f"{place}: [{name}] has no {each!r}; use one of {', '.join(sorted(known))}")
        return cast("JsonObject", table)

    def _lines(self, pattern: str) -> list[int]:
        found = re.compile(pattern)
        return [number for number, line in enumerate(self.lines, 1) if found.match(line)]


def _dotted(names: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(rf'["\']?{re.escape(each)}["\']?' for each in names)


_KNOWN = ("hooks", "permissions", "rules", "search", "server", "sources", "store", "surface", "telemetry")
_SOURCE_KINDS = ("rap",)
_LIMITS = ("max_tools", "max_tokens")
_SWITCHES = ("hide_denied", "has_browser", "allows_shell")
_NAMES = ("credentials", "gates", "skills", "peers")
_LAST_PORT = 65_535


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names that are set; no other code reads the environment."""
    variables = os.environ  # noqa: TID251 -- the one reader
    return {name: variables[name] for name in names if name in variables}


def read_config(path: str | Path, *, source: RuleSource = RuleSource.PROJECT_SETTINGS) -> Config:
    """Read one settings file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or has an unknown or invalid setting; names the line.
    """
    written = SettingsFile.read(path)
    for name in written.tables:
        if name not in _KNOWN:
            raise ConfigError(f"{written.place(name)}: no setting is called {name!r}; use one of {', '.join(_KNOWN)}")
    if "telemetry" in written.tables:
        raise ConfigError(f"{written.place('telemetry')}: [telemetry] is not understood yet; take it out")
    permissions = written.members("permissions", ("interactive", "mode", "workspace"))
    return Config(
        rules=_list(written, "rules", source),
        hooks=_list(written, "hooks", source),
        mode=_mode(written, permissions.get("mode")),
        mode_place=written.place("permissions", key="mode"),
        interactive=_interactive(written, permissions.get("interactive")),
        workspace=_workspace(written, permissions.get("workspace", [])),
        store=_store(written),
        surface=_surface(written),
        search_model=_search_model(written),
        sources=_sources(written),
        server=_server(written),
    )


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


def _mode(written: SettingsFile, mode: object) -> str | None:
    if mode is None or isinstance(mode, str):
        return mode
    place = written.place("permissions", key="mode")
    raise ConfigError(f"{place}: mode must be text, got {mode!r}; write it in quotes")


def _interactive(written: SettingsFile, interactive: object) -> bool | None:
    if interactive is None or isinstance(interactive, bool):
        return interactive
    place = written.place("permissions", key="interactive")
    raise ConfigError(f"{place}: interactive must be true or false, got {interactive!r}; write one of them")


def _workspace(written: SettingsFile, value: object) -> tuple[str, ...]:
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    roots = tuple(each for each in found if isinstance(each, str) and each)
    if len(roots) == len(found):
        return roots
    place = written.place("permissions", key="workspace")
    raise ConfigError(f"{place}: workspace must be a folder or a list of folders, got {value!r}; write it in quotes")


def _store(written: SettingsFile) -> StoreSetting | None:
    if "store" not in written.tables:
        return None
    known, place = ("journal_days", "payload_days", "payloads", "url"), written.place("store")
    members = written.members("store", known)
    for name, value in members.items():
        if name not in _DAYS and (not isinstance(value, str) or not value):
            wrong = written.place("store", key=name)
            raise ConfigError(f"{wrong}: {name} must be text, got {value!r}; write it in quotes")
    if "url" not in members:
        raise ConfigError(f'{place}: [store] says not where; write url = "sqlite:agenttool.db"')
    payloads = members.get("payloads")
    return StoreSetting(
        url=str(members["url"]),
        payloads=None if payloads is None else str(payloads),
        folder=written.file.resolve().parent,
        place=written.place("store", key="url"),
        payload_days=_days(written, "payload_days", members.get("payload_days")),
        journal_days=_days(written, "journal_days", members.get("journal_days")),
    )


_DAYS = ("payload_days", "journal_days")


def _days(written: SettingsFile, name: str, value: object) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf):
        return value
    wrong = written.place("store", key=name)
    raise ConfigError(f"{wrong}: {name} must be a number of days from 0 on, got {value!r}; write 30, or leave it out")


def _surface(written: SettingsFile) -> SurfaceSetting | None:
    if "surface" not in written.tables:
        return None
    members = written.members("surface", (*_LIMITS, *_SWITCHES, *_NAMES))
    for name in _LIMITS:
        limit = members.get(name, False)
        if limit is not False and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            place = written.place("surface", key=name)
            raise ConfigError(f"{place}: {name} must be a whole number or false, got {limit!r}; false is no limit")
    for name in _SWITCHES:
        said = members.get(name)
        if not isinstance(said, bool | None):
            place = written.place("surface", key=name)
            raise ConfigError(f"{place}: {name} must be true or false, got {said!r}; write one of them")
    for name in _NAMES:
        listed = members.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            place = written.place("surface", key=name)
            raise ConfigError(f'{place}: {name} must be a list of names, got {listed!r}; write {name} = ["NAME"]')
    return SurfaceSetting(
        max_tools=cast("int | bool | None", members.get("max_tools")),
        max_tokens=cast("int | bool | None", members.get("max_tokens")),
        hide_denied=cast("bool | None", members.get("hide_denied")),
        credentials=_names(members, "credentials"),
        gates=_names(members, "gates"),
        skills=_names(members, "skills"),
        peers=_names(members, "peers"),
        has_browser=cast("bool | None", members.get("has_browser")),
        allows_shell=cast("bool | None", members.get("allows_shell")),
    )


def _names(members: JsonObject, name: str) -> tuple[str, ...] | None:
    return tuple(cast("list[str]", members[name])) if name in members else None


def _search_model(written: SettingsFile) -> Path | None:
    if "search" not in written.tables:
        return None
    model = written.members("search", ("model",)).get("model")
    if not isinstance(model, str) or not model:
        place = written.place("search", key="model")
        raise ConfigError(f'{place}: model must be a folder, got {model!r}; write model = "FOLDER"')
    return written.file.resolve().parent / model


def _sources(written: SettingsFile) -> tuple[SourceSetting, ...]:
    tables = written.tables.get("sources", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{written.place('sources')}: sources must be tables; write [sources.NAME]")
    found: list[SourceSetting] = []
    for name, table in cast("JsonObject", tables).items():
        place = written.place("sources", name)
        if not isinstance(table, dict):
            raise ConfigError(f"{place}: a source must be a table; write [sources.{name}]")
        members = {key: value for key, value in table.items() if key != "kind"}
        kind = table.get("kind")
        if kind not in _SOURCE_KINDS:
            wrong = written.place("sources", name, key="kind")
            raise ConfigError(f"{wrong}: no source is of the kind {kind!r}; use one of {', '.join(_SOURCE_KINDS)}")
        found.append(SourceSetting(name=name, kind=str(kind), members=members, place=place))
    return tuple(found)


def _server(written: SettingsFile) -> ServerSetting | None:
    if "server" not in written.tables:
        return None
    kinds = {"host": str, "port": int, "url": str, "token_env": str}
    members = written.members("server", tuple(kinds))
    for name, value in members.items():
        if type(value) is not kinds[name]:
            place = written.place("server", key=name)
            raise ConfigError(f"{place}: {name} must be of the type {kinds[name].__name__}, got {value!r}; correct it")
    port = members.get("port", 0)
    if isinstance(port, int) and not 0 <= port <= _LAST_PORT:
        place = written.place("server", key="port")
        raise ConfigError(f"{place}: port must be from 0 to {_LAST_PORT}, got {port}; 0 is any that is free")
    return ServerSetting(**members)  # pyright: ignore[reportArgumentType] -- each was checked just now
