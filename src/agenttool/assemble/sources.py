"""Make the sources of a runtime from settings tables and options, each by the factory of its kind."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from agenttool.assemble.checks import as_list
from agenttool.config import Config
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError
from agenttool.ports.source import Source, SourceFactory, SourceSettings, SourceTable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "agenttool.sources"
"""The entry point group by which packages add kinds; the name of an entry point is the kind."""

_BUILT_IN = {
    "mcp": "agenttool.adapters.mcp.source:make_sources",
    "openapi": "agenttool.adapters.openapi.source:make_sources",
    "python": "agenttool.adapters.python.source:make_sources",
    "rap": "agenttool.adapters.rap.source:make_sources",
}
"""The factory of each built-in kind; it is imported when a source of its kind is made."""

_EXTRAS = {"mcp": "mcp", "openapi": "openapi"}
"""The extra of the package that a built-in kind needs."""


@dataclass(frozen=True, slots=True)
class MadeSources:
    """The sources of a runtime, and the tables that some were made from.

    Attributes:
        kinds: the kind of each source that was made from tables, by its name.
    """

    sources: tuple[Source, ...]
    kinds: dict[str, str]
    tables: dict[str, SourceTable]

    def changed(self, before: "MadeSources") -> tuple[set[str], tuple[Source, ...]]:
        """Return the names of the earlier sources to disconnect, and the sources to connect.

        A source stays if its table is the same. A source that was made from several tables stays if all tables of its
        kind are the same.
        """
        names = self.tables.keys() | before.tables.keys()
        changed = {each for each in names if self.tables.get(each) != before.tables.get(each)}
        tables = (table for name in changed for table in (self.tables.get(name), before.tables.get(name)))
        kinds = {each.kind for each in tables if each is not None}

        def is_changed(name: str, kind: str) -> bool:
            return name in changed if name in names else kind in kinds

        removed = {name for name, kind in before.kinds.items() if is_changed(name, kind)}
        added = {name for name, kind in self.kinds.items() if is_changed(name, kind)}
        return removed, tuple(each for each in self.sources if each.name in added)


def make_sources(config: Config, given: Iterable[Source | SourceSettings]) -> MadeSources:
    """Return the sources of the settings file, and then those of the program.

    Raises:
        ConfigError: a kind is unknown, a table is invalid, or two sources have one name.
    """
    ready: list[Source] = []
    settings: dict[str, list[SourceSettings]] = {}
    names: set[str] = set()
    tables = {each.name: each for each in _tables(config)}
    for each in (*tables.values(), *as_list("sources", given)):
        if not isinstance(cast("object", each), Source | SourceSettings):
            raise ConfigError(f"not a source: {each!r}; pass an object with the methods of `Source`")
        if each.name in names:
            raise ConfigError(f"two sources are named {each.name!r}; rename one of them")
        names.add(each.name)
        if isinstance(each, Source):
            ready.append(each)
        else:
            settings.setdefault(each.kind, []).append(each)
    factories = [(_load_factory(group[0]), group) for group in settings.values()]
    made = [(source, group[0].kind) for factory, group in factories for source in factory(group)]
    kinds = {source.name: kind for source, kind in made}
    return MadeSources((*(source for source, _ in made), *ready), kinds, tables)


def _tables(config: Config) -> Iterator[SourceTable]:
    for name, setting in config.sources.items():
        members = {key: value for key, value in setting.members.items() if key != "kind"}
        kind = str(setting.members["kind"])
        yield SourceTable(kind=kind, name=name, members=members, place=setting.place, file=setting.file)


def check_kinds(config: Config) -> None:
    """Check that the kinds of the source tables are known; none is loaded, because that may run code.

    Raises:
        ConfigError: a kind is unknown.
    """
    for table in _tables(config):
        _find_factory(table)


def _find_factory(settings: SourceSettings) -> "EntryPoint":
    """Return where the factory of a kind is.

    Raises:
        ConfigError: the kind is unknown.
    """
    from importlib.metadata import EntryPoint, entry_points  # noqa: PLC0415 -- slow, and most programs have no source

    kind = settings.kind
    installed = {each.name: each for each in entry_points(group=GROUP)}
    if kind in _BUILT_IN:
        return EntryPoint(kind, _BUILT_IN[kind], GROUP)
    if kind in installed:
        return installed[kind]
    known = sorted({*_BUILT_IN, *installed})
    raise ConfigError(f"{_place_of(settings)}no source is of the kind {kind!r}; {suggestion(kind, known)}")


def _load_factory(settings: SourceSettings) -> SourceFactory:
    """Load the factory of a kind.

    Raises:
        ConfigError: the kind is unknown, or its package cannot be imported.
    """
    kind, found = settings.kind, _find_factory(settings)
    try:
        return cast("SourceFactory", found.load())
    except (ImportError, AttributeError) as error:
        place = _place_of(settings)
        remedy = f"pip install 'agenttool[{_EXTRAS[kind]}]'" if kind in _EXTRAS else "install it again"
        raise ConfigError(f"{place}sources of the kind {kind!r} cannot be loaded: {error}; {remedy}") from error


def _place_of(settings: SourceSettings) -> str:
    return f"{settings.place}: " if isinstance(settings, SourceTable) else ""
