"""Settings: the only reader of settings files, each kept with its file and line, and of the environment."""

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agenttool.errors import ConfigError
from agenttool.records import JsonObject, RuleSource

_TABLES = ("rules", "hooks")
_KNOWN = {"rules", "hooks", "permissions", "search", "sources", "store", "surface", "server", "telemetry"}
_PERMISSIONS = {"mode", "interactive", "workspace"}
_STORE = {"url", "payloads"}
_LIMITS = ("max_tools", "max_tokens")
_SURFACE = {*_LIMITS, "hide_denied"}
_SOURCE_KINDS = ("rap",)
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One table of a settings file, as written, and where it stands."""

    members: JsonObject
    file: str
    line: int
    source: RuleSource

    @property
    def place(self) -> str:
        """Say where it stands, for a message."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetting:
    """Where the journal and the payloads are kept, as written; what is relative begins in the folder of the file."""

    url: str
    payloads: str | None
    folder: Path
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceSetting:
    """How much surfaces show, as far as the file says; a limit of `false` is none."""

    max_tools: int | bool | None = None
    max_tokens: int | bool | None = None
    hide_denied: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSetting:
    """A source of tools, as written."""

    name: str
    kind: str
    members: JsonObject
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetting:
    """Where this runtime is served, and under which URL others reach it."""

    host: str = "127.0.0.1"
    port: int = 8642
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What settings files say. Several files make one configuration; nothing in one hides what another says."""

    rules: tuple[Setting, ...] = ()
    hooks: tuple[Setting, ...] = ()
    mode: str | None = None
    interactive: bool | None = None
    workspace: tuple[str, ...] = ()
    store: StoreSetting | None = None
    surface: SurfaceSetting | None = None
    search_model: Path | None = None
    sources: tuple[SourceSetting, ...] = ()
    server: ServerSetting | None = None


def read_config(path: str | Path, *, source: RuleSource = RuleSource.PROJECT_SETTINGS) -> Config:
    """Read one settings file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or has a table that nobody knows; says where and what to do.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
        settings = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"settings cannot be read: {str(path)!r}: {error.strerror}; name another file") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and lists beyond all measure
        raise ConfigError(f"{path}: not TOML: {error}; correct it") from error
    unknown = sorted(settings.keys() - _KNOWN)
    if unknown:
        raise ConfigError(f"{path}: no setting is called {unknown[0]!r}; use one of {', '.join(sorted(_KNOWN))}")
    permissions = _permissions(str(path), settings.get("permissions", {}))
    tables = {name: _tables(name, settings.get(name, []), text, str(path), source) for name in _TABLES}
    for name in ("telemetry",):
        if name in settings:
            raise ConfigError(f"{path}: [{name}] is not understood yet; take it out")
    mode, interactive = permissions.get("mode"), permissions.get("interactive")
    if mode is not None and not isinstance(mode, str):
        raise ConfigError(f"{path}: mode must be text, got {mode!r}; write it in quotes")
    if interactive is not None and not isinstance(interactive, bool):
        raise ConfigError(f"{path}: interactive must be true or false, got {interactive!r}; write one of them")
    return Config(
        rules=tables["rules"],
        hooks=tables["hooks"],
        mode=mode if isinstance(mode, str) else None,
        interactive=interactive if isinstance(interactive, bool) else None,
        workspace=_workspace(str(path), permissions.get("workspace", [])),
        store=_store(file, settings["store"], text) if "store" in settings else None,
        surface=_surface(file, settings["surface"], text) if "surface" in settings else None,
        search_model=_search_model(file, settings["search"]) if "search" in settings else None,
        sources=_sources(file, settings.get("sources", {}), text),
        server=_server(_place(file, "server", text), settings["server"]) if "server" in settings else None,
    )


def _surface(file: Path, table: object, text: str) -> SurfaceSetting:
    place = _place(file, "surface", text)
    members = _members(table, place, "surface", _SURFACE)
    for name in _LIMITS:
        limit = members.get(name, False)
        if limit is not False and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise ConfigError(f"{place}: {name} must be a whole number or false, got {limit!r}; false is no limit")
    if not isinstance(members.get("hide_denied", False), bool):
        raise ConfigError(f"{place}: hide_denied must be true or false, got {members['hide_denied']!r}; write one")
    return SurfaceSetting(
        max_tools=cast("int | bool | None", members.get("max_tools")),
        max_tokens=cast("int | bool | None", members.get("max_tokens")),
        hide_denied=cast("bool | None", members.get("hide_denied")),
    )


def _search_model(file: Path, table: object) -> Path:
    model = cast("JsonObject", table).get("model") if isinstance(table, dict) else None
    if not isinstance(model, str) or not model or len(cast("JsonObject", table)) > 1:
        raise ConfigError(f'{file}: [search] knows model and nothing else; write model = "FOLDER"')
    return file.resolve().parent / model


def _sources(file: Path, tables: object, text: str) -> tuple[SourceSetting, ...]:
    if not isinstance(tables, dict):
        raise ConfigError(f"{file}: sources must be tables; write [sources.NAME]")
    found: list[SourceSetting] = []
    for name, table in cast("JsonObject", tables).items():
        heading = rf'sources\s*\.\s*"?{re.escape(name)}"?'
        place = _place(file, heading, text)
        if not isinstance(table, dict):
            raise ConfigError(f"{place}: a source must be a table; write [sources.{name}]")
        members = {key: value for key, value in table.items() if key != "kind"}
        kind = table.get("kind")
        if kind not in _SOURCE_KINDS:
            raise ConfigError(f"{place}: no source is of the kind {kind!r}; use one of {', '.join(_SOURCE_KINDS)}")
        found.append(SourceSetting(name=name, kind=str(kind), members=members, place=place))
    return tuple(found)


def _server(place: str, table: object) -> ServerSetting:
    kinds = {"host": str, "port": int, "url": str}
    members = _members(table, place, "server", set(kinds))
    for name, value in members.items():
        if type(value) is not kinds[name]:
            raise ConfigError(f"{place}: {name} must be of the type {kinds[name].__name__}, got {value!r}; correct it")
    port = members.get("port", 0)
    if isinstance(port, int) and not 0 <= port <= _LAST_PORT:
        raise ConfigError(f"{place}: port must be from 0 to {_LAST_PORT}, got {port}; 0 is any that is free")
    return ServerSetting(**members)  # pyright: ignore[reportArgumentType] -- each was checked just now


def _place(file: Path, name: str, text: str) -> str:
    heading = re.compile(rf"^\s*\[\s*{name}\s*\]")
    line = next((number for number, line in enumerate(text.splitlines(), 1) if heading.match(line)), 1)
    return f"{file}:{line}"


def _members(table: object, place: str, name: str, known: set[str]) -> JsonObject:
    if not isinstance(table, dict):
        raise ConfigError(f"{place}: {name} must be a table; write [{name}]")
    members = cast("JsonObject", table)
    unknown = sorted(members.keys() - known)
    if unknown:
        raise ConfigError(f"{place}: [{name}] has no {unknown[0]!r}; use one of {', '.join(sorted(known))}")
    return members


def _store(file: Path, table: object, text: str) -> StoreSetting:
    place = _place(file, "store", text)
    members = _members(table, place, "store", _STORE)
    for name, value in members.items():
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{place}: {name} must be text, got {value!r}; write it in quotes")
    if "url" not in members:
        raise ConfigError(f'{place}: [store] says not where; write url = "sqlite:agenttool.db"')
    payloads = members.get("payloads")
    return StoreSetting(
        url=str(members["url"]),
        payloads=None if payloads is None else str(payloads),
        folder=file.resolve().parent,
        place=place,
    )


def _workspace(path: str, value: object) -> tuple[str, ...]:
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    roots = tuple(each for each in found if isinstance(each, str) and each)
    if len(roots) < len(found):
        raise ConfigError(f"{path}: workspace must be a folder or a list of folders, got {value!r}; write it in quotes")
    return roots


def environment(names: Iterable[str]) -> dict[str, str]:
    """Give the variables of these names that are set; nothing else of the environment leaves this file."""
    variables = os.environ  # noqa: TID251 -- the one reader
    return {name: variables[name] for name in names if name in variables}


def _permissions(path: str, table: object) -> JsonObject:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: permissions must be a table; write [permissions]")
    members = cast("JsonObject", table)
    unknown = sorted(members.keys() - _PERMISSIONS)
    if unknown:
        raise ConfigError(f"{path}: [permissions] has no {unknown[0]!r}; use one of {', '.join(sorted(_PERMISSIONS))}")
    return members


def _tables(name: str, tables: object, text: str, path: str, source: RuleSource) -> tuple[Setting, ...]:
    """Pair each table of a list with its line; the parser keeps the order, so the n-th heading is the n-th table."""
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: {name} must be a list of tables; write [[{name}]]")
    found = cast("list[object]", tables)
    heading = re.compile(rf"^\s*\[\[\s*{name}\s*\]\]")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if heading.match(line)]
    lines += [1] * (len(found) - len(lines))
    settings: list[Setting] = []
    for each, line in zip(found, lines, strict=False):
        if not isinstance(each, dict):
            raise ConfigError(f"{path}:{line}: {name} must be a list of tables; write [[{name}]]")
        members = cast("JsonObject", each)
        settings.append(Setting(members=members, file=path, line=line, source=source))
    return tuple(settings)
