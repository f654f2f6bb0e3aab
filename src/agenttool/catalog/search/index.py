"""The searchable index of all tools of a catalog."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.documents import ToolDocuments, text_for_embedding
from agenttool.catalog.search.query import QueryTerm, content_sentences, parse_query
from agenttool.catalog.search.ranking import DocumentScorer, combine_scores
from agenttool.catalog.search.tokens import is_identifier
from agenttool.ports.retriever import Retriever
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.records import ToolId

CANDIDATES = 48
"""How many tools are scored; more if the caller asks for more than half as many."""

SEMANTIC_CANDIDATES = 64
"""How many tools are scored because of their similarity in meaning."""

CANDIDATE_SYMBOLS = 32
"""How many words select candidates."""

MAX_QUERY_LENGTH = 20_000
"""How many characters of a query are read."""

STALE_LIMIT = 500
"""How many tools may be removed before all are encoded again; in a large catalog, as many as it holds."""

MIN_SCORE = 0.0001


class SearchHit(NamedTuple):
    """One tool that matches a query, with its score from 0 to 1 and the reason."""

    tool_id: ToolId
    score: float
    reason: str


class ToolIndex:
    """Names and texts of tools. Adding a tool is cheap; `catch_up` encodes them in steps of any size."""

    def __init__(self, semantic_index: SemanticIndex | None = None, retriever: Retriever | None = None) -> None:
        """Start with no tools; with a semantic index, similarity in meaning counts beside words.

        A retriever replaces `find` where searches are made for callers.
        """
        self.semantic_index = semantic_index
        self.retriever = retriever
        self._names: dict[str, list[Entry]] = {}
        self._unnamed: list[Entry] = []
        self._numbers: dict[ToolId, int] = {}
        self._entries: dict[int, Entry] = {}
        self._waiting: dict[int, Entry] = {}
        self._free: list[int] = []
        self._removed = 0
        self._store = ToolDocuments()

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        self.remove(entry.tool_id)
        number = self._free.pop() if self._free else len(self._numbers)
        self._numbers[entry.tool_id] = number
        self._entries[number] = self._waiting[number] = entry
        self._unnamed.append(entry)

    def remove(self, tool_id: ToolId) -> None:
        """Remove a tool, if it is indexed."""
        number = self._numbers.pop(tool_id, None)
        if number is None:
            return
        self._free.append(number)
        self._removed += 1
        entry = self._entries.pop(number)
        for name in _folded_names(entry):
            owners = self._owners(name)
            owners.remove(entry)
            if not owners:
                del self._names[name]
        self._waiting.pop(number, None)
        self._store.remove(number)
        if self.semantic_index is not None:
            self.semantic_index.remove(number)

    def catch_up(self, tools: int) -> bool:
        """Encode at most this many of the tools that were added; return whether more are waiting."""
        if self._removed > max(STALE_LIMIT, len(self._entries)):  # the vocabulary contains words of removed tools
            self._store, self._removed = ToolDocuments(), 0
            self._store.put({each: entry for each, entry in self._entries.items() if each not in self._waiting})
        new = dict(islice(self._waiting.items(), tools))
        if new:
            self._store.put(new)
        for number, entry in new.items():
            del self._waiting[number]
            if self.semantic_index is not None:
                self.semantic_index.put(number, text_for_embedding(entry))
        return bool(self._waiting)

    @property
    def is_encoding(self) -> bool:
        """Whether the model still encodes tools, so that some are found by words alone."""
        return self.semantic_index is not None and self.semantic_index.pending

    def named(self, name: str, visible: Container[ToolId]) -> tuple[ToolId, ...]:
        """Return the visible tools with exactly this qualified name, bare name, alias or id.

        A qualified name takes precedence over a bare name, a bare name over an alias, and an alias over an id. An exact
        spelling takes precedence over one in another case.
        """
        folded, tool_id = name.casefold(), ToolId(name)
        sharing = self._owners(folded)
        matching = [each for each in sharing if each.qualified_name.casefold() == folded] or sharing
        exact = [each for each in matching if name in (each.qualified_name, each.name, *_aliases(each))]
        owners = [each for each in exact or matching if each.tool_id in visible]
        primary = [each for each in owners if folded in (each.name.casefold(), each.qualified_name.casefold())]
        if not owners and tool_id in self._numbers and tool_id in visible:
            return (tool_id,)
        return tuple(each.tool_id for each in primary or owners)

    def _owners(self, folded: str) -> list[Entry]:
        """Return the tools with a name; the table is brought up to date only when a name is looked up."""
        for entry in self._unnamed:
            for name in _folded_names(entry):
                self._names.setdefault(name, []).append(entry)
        self._unnamed.clear()
        return self._names.get(folded, [])

    def find(
        self, query: str, visible: Collection[ToolId], limit: int, *, encoded: Sequence[str] = ()
    ) -> list[SearchHit]:
        """Return the visible tools that match a query best; a tool that the query names exactly comes first.

        Args:
            query: the words of the user or the model.
            visible: the tools that may be found.
            limit: how many to return at most.
            encoded: the sentences that `encode_query` returned, to search by meaning, too.
        """
        query, limit = query[:MAX_QUERY_LENGTH], min(limit, len(visible))
        exact = self._named_in(query, visible)[:limit]
        found = [SearchHit(each, 1.0, "this is its name") for each in exact]
        documents = self._store.documents
        parsed = parse_query(query, self._store)
        scorer = DocumentScorer(parsed, self._store)
        candidates = set(self._candidates(parsed.terms, visible, limit))
        by_words = {each: scorer.score(documents[each]) for each in candidates}
        similarities = self._similarities(encoded, visible, scorer, by_words)
        scores = combine_scores(by_words, similarities)
        ranked = [(-score, self._entries[each].tool_id, each) for each, score in scores.items() if score]
        for score, tool_id, each in sorted(ranked):
            if len(found) >= limit:
                break
            if tool_id not in exact:
                reason = scorer.reason(documents[each]) or "its meaning is similar"
                found.append(SearchHit(tool_id, max(MIN_SCORE, round(-score, 4)), reason))
        return found

    def _named_in(self, query: str, visible: Container[ToolId]) -> tuple[ToolId, ...]:
        """Return the tools whose name is the whole query, or whose identifiers it contains."""
        whole = self.named(query.strip(), visible)
        if whole:
            return whole
        words = (word.strip(".,;:!?\"'`()") for word in query.split())
        return tuple(dict.fromkeys(each for word in words if is_identifier(word) for each in self.named(word, visible)))

    def encode_query(self, query: str) -> Sequence[str]:
        """Return the sentences of a query that the model could encode; blocks while the model works."""
        if self.semantic_index is None:
            return ()
        sentences = content_sentences(query[:MAX_QUERY_LENGTH])
        return sentences if self.semantic_index.encode_query(sentences) else ()

    def _similarities(
        self,
        encoded: Sequence[str],
        visible: Container[ToolId],
        scorer: DocumentScorer,
        by_words: dict[int, float],
    ) -> list[Mapping[int, float]]:
        """Return the similarity of tools to each encoded sentence; adds the nearest tools to `by_words`."""
        if self.semantic_index is None or not encoded:
            return []
        wanted = SEMANTIC_CANDIDATES // len(encoded)
        for sentence in encoded:
            for each in self._visible_best(partial(self.semantic_index.nearest, sentence), visible, wanted):
                if each not in by_words:
                    by_words[each] = scorer.score(self._store.documents[each])
        return [self.semantic_index.similarity(sentence, by_words) for sentence in encoded]

    def _candidates(self, terms: Sequence[QueryTerm], visible: Collection[ToolId], limit: int) -> Iterable[int]:
        """Return the tools that are worth scoring."""
        matches = [(each.weight * match.similarity, each, match) for each in terms for match in each.matches]
        heaviest = nlargest(CANDIDATE_SYMBOLS, matches, key=itemgetter(0))
        symbols = [(match.symbol, term.boost * match.similarity) for _, term, match in heaviest]
        wanted = max(CANDIDATES, 2 * limit)
        return self._visible_best(partial(self._store.full_text.best, symbols), visible, wanted) if symbols else ()

    def _visible_best(self, best: Callable[[int], Sequence[int]], visible: Container[ToolId], wanted: int) -> list[int]:
        """Return the best visible tools; calls `best` with a higher limit while too few of them are visible."""
        ahead = wanted
        while True:
            numbers = best(ahead)
            found = [each for each in numbers if each in self._entries and self._entries[each].tool_id in visible]
            if len(found) >= wanted or len(numbers) < ahead:
                return found[:wanted]
            ahead *= 8


def _folded_names(entry: Entry) -> set[str]:
    names = (entry.name, entry.qualified_name, *_aliases(entry))
    return {name if name == name.casefold() else name.casefold() for name in names}  # most are not copied


def _aliases(entry: Entry) -> Sequence[str]:
    return entry.tool.declaration.aliases or ()
