"""The tools that one caller may know of, and what a search tells about them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from agenttool.catalog.catalog import Entry
from agenttool.catalog.fates import LOADABLE, SHOWN, Fate, Fates
from agenttool.catalog.search.index import Found, Index
from agenttool.catalog.surface import Members, Surface
from agenttool.errors import ConfigError
from agenttool.records import NextAction, QueryType, SearchMatch, ToolId, ToolSearchResult

SELECT = "select:"
"""How a query begins that names tools; in any capitals, and after any space, for models are careless with both."""

MODEL = "search_model"
"""Who is told to be pending as long as the model that search looks at meanings with has not read every tool."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The tools that a surface offers or defers; of any other, nothing is said, not even that it is there."""

    loaded: Mapping[ToolId, Entry]
    deferred: Mapping[ToolId, Entry]
    findable: Mapping[ToolId, Entry]
    pending_providers: tuple[str, ...] = ()

    @classmethod
    def on(cls, surface: Surface) -> Self:
        """Take what a surface let a caller know of when it was made."""
        return cls.of(surface, surface.fates)

    @classmethod
    def of(cls, surface: Surface, fates: Fates) -> Self:
        """Take what a surface lets a caller know of, of which so much is left."""
        loaded, deferred = Members(fates, SHOWN), Members(fates, LOADABLE)
        return cls(loaded, deferred, Members(fates, SHOWN | {Fate.DISCOVERABLE}), surface.pending_providers)

    def __contains__(self, tool_id: object) -> bool:
        """Tell whether the caller may know of a tool."""
        return tool_id in self.deferred or tool_id in self.loaded

    def __iter__(self) -> Iterator[ToolId]:
        """Go through the tools that the caller may know of."""
        return chain(self.deferred, self.loaded)

    def __len__(self) -> int:
        """Count them."""
        return len(self.deferred) + len(self.loaded)

    def __getitem__(self, tool_id: ToolId) -> Entry:
        """Give a tool that the caller may know of."""
        return self.deferred.get(tool_id) or self.loaded[tool_id]

    def answer(self, index: Index, query: str, limit: int, heard: Sequence[str] = ()) -> ToolSearchResult:
        """Search, also by the meaning of what was heard of a query; finding nothing is an answer, too."""
        asked = query.lstrip()
        if asked[: len(SELECT)].lower() == SELECT:
            return self._select(index, query, asked[len(SELECT) :].split(","))
        found = index.find(query, self.findable, limit, heard=heard)
        waited_for = (*self.pending_providers, MODEL) if index.is_being_read else self.pending_providers
        return self._told(query, QueryType.KEYWORD, found, pending=waited_for)

    def _select(self, index: Index, query: str, names: Iterable[str]) -> ToolSearchResult:
        """Find exactly the tools that are named; all that share a bare name are."""
        found: dict[ToolId, Found] = {}
        missing: dict[str, None] = {}
        for name in filter(None, map(str.strip, names)):
            owners = index.named(name, self)
            for each in owners:
                shared = "" if len(owners) == 1 else f", as {len(owners)} tools are"
                found.setdefault(each, Found(each, 1.0, f"it is named {name!r}{shared}"))
            if not owners:
                missing[name] = None
        pending = self.pending_providers
        return self._told(query, QueryType.SELECT, found.values(), missing=tuple(missing), pending=pending)

    def _told(
        self,
        query: str,
        query_type: QueryType,
        found: Iterable[Found],
        *,
        missing: tuple[str, ...] = (),
        pending: tuple[str, ...],
    ) -> ToolSearchResult:
        matches = tuple(
            SearchMatch(
                tool_id=each.tool_id, name=self[each.tool_id].qualified_name, score=each.score, reason=each.reason
            )
            for each in found
        )
        return ToolSearchResult(
            query=query,
            query_type=query_type,
            matches=matches,
            total_deferred_tools=len(self.deferred),
            pending_providers=pending,
            missing_names=missing,
            next_action=self._next(matches, missing, pending),
        )

    def _next(self, matches: Sequence[SearchMatch], missing: Sequence[str], pending: Sequence[str]) -> NextAction:
        if pending and (missing or not matches):
            return NextAction.WAIT_FOR_PROVIDER
        if not matches:
            return NextAction.REFINE_QUERY
        waiting = any(each.tool_id in self.deferred for each in matches)
        return NextAction.LOAD_SCHEMA_THEN_CALL if waiting else NextAction.NONE

    def selected(self, result: ToolSearchResult) -> tuple[Entry, ...]:
        """Give the deferred tools that a search selected by name; all that share a bare name are."""
        if result.query_type != QueryType.SELECT:
            return ()
        found = (each.tool_id for each in result.matches if isinstance(each, SearchMatch))
        return tuple(self.deferred[each] for each in found if each in self.deferred)

    def to_load(self, index: Index, names: Iterable[str]) -> tuple[Entry, ...]:
        """Give the deferred tools that are named; one that is loaded already needs nothing.

        Raises:
            ConfigError: a name leads to no tool that may be known here, or to several.
        """
        chosen: dict[ToolId, Entry] = {}
        for name in names:
            owners = index.named(name, self)
            if len(owners) != 1:
                raise ConfigError(self._why_not(name, owners))
            if owners[0] in self.deferred:
                chosen[owners[0]] = self.deferred[owners[0]]
        return tuple(chosen.values())

    def _why_not(self, name: str, owners: Sequence[ToolId]) -> str:
        if not owners and any(name in (each.name, each.qualified_name) for each in self.deferred.values()):
            return f"{name!r} cannot be loaded any more; the surface `current(surface)` says why"
        if not owners:
            return f"no tool that can be loaded on this surface is named {name!r}; search for it first"
        choices = ", ".join(sorted(repr(self[each].qualified_name) for each in owners))
        return f"{len(owners)} tools answer to {name!r}; load one of {choices}"
