"""The tools that one caller may find on a surface, and the records that a search returns about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from agenttool.catalog.entry import Entry, estimate_tokens
from agenttool.catalog.search.index import SearchHit, ToolIndex
from agenttool.catalog.surface import Surface, VisibleTools
from agenttool.catalog.visibility import LOADABLE, SHOWN, Visibility, VisibilityMap
from agenttool.errors import ConfigError, RecordError
from agenttool.records import NextAction, QueryType, SearchMatch, ToolId, ToolSearchResult
from agenttool.schema.patterns import compile_pattern

PREFIXES = {"select:": QueryType.SELECT, "regex:": QueryType.REGEX}
"""The prefixes of queries that are not words. Case and leading space are ignored, since models vary both."""

MAX_LOADED_TOKENS = 4_000
"""How large the definitions are that one search by words or by a pattern loads; the first is loaded at any size."""

NAME_MATCH, DESCRIPTION_MATCH = 1.0, 0.5
"""The score of a tool whose name, or only whose description, a pattern matches."""

MODEL = "search_model"
"""Listed among the pending providers while the search model still encodes tools."""


def parse_form(query: str) -> tuple[QueryType, str]:
    """Return the form of a query, and the query without the prefix of that form."""
    text = query.lstrip()
    for prefix, query_type in PREFIXES.items():
        if text[: len(prefix)].lower() == prefix:
            return query_type, text[len(prefix) :]
    return QueryType.KEYWORD, query


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
        return tool_id in self.deferred or tool_id in self.loaded

    def __getitem__(self, tool_id: ToolId) -> Entry:
        return self.deferred.get(tool_id) or self.loaded[tool_id]

    def search(
        self,
        index: ToolIndex,
        query: str,
        limit: int,
        *,
        encoded: Sequence[str] = (),
        retrieved: Sequence[str] | None = None,
    ) -> ToolSearchResult:
        """Search by words and encoded sentences, by exact names after `select:`, or by a pattern after `regex:`.

        A search by words returns the tools that a retriever returned, if there is one.

        Raises:
            ConfigError: the pattern is no regular expression, or cannot be matched in bounded time.
        """
        pending, missing = self.pending_providers, ()
        query_type, text = parse_form(query)
        match query_type:
            case QueryType.SELECT:
                hits, missing = self._select(index, text.split(","))
            case QueryType.REGEX:
                hits = self._matching(text.strip(), limit)
            case _ if retrieved is not None:
                hits = self._retrieved(index, retrieved)[:limit]
            case _:
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
            query_type=query_type,
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

    def _matching(self, pattern: str, limit: int) -> list[SearchHit]:
        """Return the tools whose name or description a pattern matches; those with a matching name come first."""
        try:
            compiled = compile_pattern(f"(?i){pattern}")
        except RecordError as error:
            raise ConfigError(f"{pattern!r} is no regular expression; correct it, or search by words") from error
        if not pattern or not compiled.is_linear:
            raise ConfigError(
                f"the pattern {pattern!r} is empty, or has look-around or a back reference; use a simpler one"
            )
        found: list[tuple[float, str, ToolId]] = []
        for tool_id, entry in self.findable.items():
            if compiled.matches(entry.qualified_name):
                found.append((-NAME_MATCH, entry.qualified_name, tool_id))
            elif compiled.matches(entry.tool.declaration.description):
                found.append((-DESCRIPTION_MATCH, entry.qualified_name, tool_id))
        reasons = {-NAME_MATCH: "its name matches", -DESCRIPTION_MATCH: "its description matches"}
        return [SearchHit(tool_id, -score, reasons[score]) for score, _, tool_id in sorted(found)[:limit]]

    def _retrieved(self, index: ToolIndex, names: Sequence[str]) -> list[SearchHit]:
        """Return the tools that a retriever returned, as far as they can be found on this surface."""
        owners = dict.fromkeys(each for name in names for each in index.named(name, self.findable))
        return [SearchHit(each, round(1 / place, 4), "the retriever chose it") for place, each in enumerate(owners, 1)]

    def _next_action(
        self, matches: Sequence[SearchMatch], missing: Sequence[str], pending: Sequence[str]
    ) -> NextAction:
        if pending and (missing or not matches):
            return NextAction.WAIT_FOR_PROVIDER
        if not matches:
            return NextAction.REFINE_QUERY
        has_deferred = any(each.tool_id in self.deferred for each in matches)
        return NextAction.LOAD_SCHEMA_THEN_CALL if has_deferred else NextAction.NONE

    def found_to_load(self, result: ToolSearchResult) -> tuple[Entry, ...]:
        """Return the deferred tools that a model's search loads.

        Those are all that it selected by name; else the best matches, while their definitions are not too large.
        """
        found = (each.tool_id for each in result.matches if isinstance(each, SearchMatch))
        entries = tuple(self.deferred[each] for each in found if each in self.deferred)
        if result.query_type == QueryType.SELECT:
            return entries
        sizes = accumulate(estimate_tokens(each.tool.declaration) for each in entries)
        return entries[: max(1, sum(size <= MAX_LOADED_TOKENS for size in sizes))]

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
