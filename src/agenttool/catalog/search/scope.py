"""The tools that one caller may find on a surface, and the records that a search returns about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.index import SearchHit, ToolIndex
from agenttool.catalog.surface import Surface, VisibleTools
from agenttool.catalog.visibility import LOADABLE, SHOWN, Visibility, VisibilityMap
from agenttool.errors import ConfigError
from agenttool.records import NextAction, QueryType, SearchMatch, ToolId, ToolSearchResult

SELECT = "select:"
"""The prefix of a query that names tools. Case and leading space are ignored, since models vary both."""

MODEL = "search_model"
"""Listed among the pending providers while the search model still encodes tools."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchScope:
    """The tools that a surface shows or defers. A search never reveals any other tool."""

    loaded: Mapping[ToolId, Entry]
    deferred: Mapping[ToolId, Entry]
    findable: Mapping[ToolId, Entry]
    pending_providers: tuple[str, ...] = ()

    @classmethod
    def of(cls, surface: Surface, visibility: VisibilityMap) -> Self:
        """Return the scope of a surface, of which this visibility remains."""
        loaded, deferred = VisibleTools(visibility, SHOWN), VisibleTools(visibility, LOADABLE)
        findable = VisibleTools(visibility, SHOWN | {Visibility.DISCOVERABLE})
        return cls(loaded, deferred, findable, surface.pending_providers)

    def __contains__(self, tool_id: object) -> bool:
        """Return whether a tool is in scope."""
        return tool_id in self.deferred or tool_id in self.loaded

    def __getitem__(self, tool_id: ToolId) -> Entry:
        """Return a tool in scope."""
        return self.deferred.get(tool_id) or self.loaded[tool_id]

    def search(self, index: ToolIndex, query: str, limit: int, encoded: Sequence[str] = ()) -> ToolSearchResult:
        """Search by words, by the meaning of encoded sentences, or by exact names after `select:`."""
        text, pending, missing = query.lstrip(), self.pending_providers, ()
        is_selection = text[: len(SELECT)].lower() == SELECT
        if is_selection:
            hits, missing = self._select(index, text[len(SELECT) :].split(","))
        else:
            hits = index.find(query, self.findable, limit, encoded=encoded)
            pending = (*pending, MODEL) if index.is_encoding else pending
        matches = tuple(
            SearchMatch(
                tool_id=each.tool_id, name=self[each.tool_id].qualified_name, score=each.score, reason=each.reason
            )
            for each in hits
        )
        return ToolSearchResult(
            query=query,
            query_type=QueryType.SELECT if is_selection else QueryType.KEYWORD,
            matches=matches,
            total_deferred_tools=len(self.deferred),
            pending_providers=pending,
            missing_names=missing,
            next_action=self._next_action(matches, missing, pending),
        )

    def _select(self, index: ToolIndex, names: Iterable[str]) -> tuple[list[SearchHit], tuple[str, ...]]:
        """Return exactly the tools that are named, and the names without a tool; tools may share a bare name."""
        hits: dict[ToolId, SearchHit] = {}
        missing: dict[str, None] = {}
        for name in filter(None, map(str.strip, names)):
            owners = index.named(name, self)
            for each in owners:
                shared = "" if len(owners) == 1 else f", as {len(owners)} tools are"
                hits.setdefault(each, SearchHit(each, 1.0, f"it is named {name!r}{shared}"))
            if not owners:
                missing[name] = None
        return list(hits.values()), tuple(missing)

    def _next_action(
        self, matches: Sequence[SearchMatch], missing: Sequence[str], pending: Sequence[str]
    ) -> NextAction:
        if pending and (missing or not matches):
            return NextAction.WAIT_FOR_PROVIDER
        if not matches:
            return NextAction.REFINE_QUERY
        has_deferred = any(each.tool_id in self.deferred for each in matches)
        return NextAction.LOAD_SCHEMA_THEN_CALL if has_deferred else NextAction.NONE

    def selected(self, result: ToolSearchResult) -> tuple[Entry, ...]:
        """Return the deferred tools that a search selected by name."""
        if result.query_type != QueryType.SELECT:
            return ()
        found = (each.tool_id for each in result.matches if isinstance(each, SearchMatch))
        return tuple(self.deferred[each] for each in found if each in self.deferred)

    def to_load(self, index: ToolIndex, names: Iterable[str]) -> tuple[Entry, ...]:
        """Return the deferred tools with these names; tools that are loaded already are skipped.

        Raises:
            ConfigError: a name matches no tool in scope, or several.
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
            return f"{name!r} can no longer be loaded; the surface `current(surface)` gives the reason"
        if not owners:
            return f"no tool that can be loaded on this surface is named {name!r}; search for it first"
        choices = ", ".join(sorted(repr(self[each].qualified_name) for each in owners))
        return f"{len(owners)} tools have the name {name!r}; load one of {choices}"
