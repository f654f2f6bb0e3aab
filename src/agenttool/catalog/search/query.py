"""Parse a query into weighted terms, each with the words of the catalog that match it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import NamedTuple

from agenttool.catalog.search.documents import ToolDocuments
from agenttool.catalog.search.lexicon import FILLER_WORDS, WEAK_WORDS, related_words
from agenttool.catalog.search.tokens import split_requests, stem, tokens_in_query

MAX_TERMS = 100
"""How many different words of a query count."""

MIN_CONTENT_WORDS, MAX_SENTENCES = 2, 8
"""How many content words make a sentence worth encoding, and how many sentences are encoded."""

WEAK_WEIGHT = 0.3
"""The weight of weak words and of numbers, which are mostly arguments for a tool."""

FILLER_WEIGHT = 0.1
"""The weight of filler words; it decides between tools that are otherwise equal."""

RELATED_WEIGHT = 0.4
"""The weight of a related word in place of the word itself."""


class TermMatch(NamedTuple):
    """A word of the catalog that matches a term, and how well, from 0 to 1."""

    word: str
    symbol: str
    similarity: float


class QueryTerm(NamedTuple):
    """One word of a query.

    Attributes:
        spelling: how it is written in the query.
        boost: 1 for content words, less for weak words and fillers.
        weight: the boost times the rarity of the word.
        matches: the words of the catalog that match it, best first.
    """

    spelling: str
    boost: float
    weight: float
    matches: Sequence[TermMatch]


class ParsedQuery(NamedTuple):
    """The terms of a query; filler words are separate."""

    terms: Sequence[QueryTerm]
    fillers: Sequence[QueryTerm]


def parse_query(query: str, store: ToolDocuments) -> ParsedQuery:
    """Parse a query; filler words count as content words if no content word matches any tool."""
    tokens = [*tokens_in_query(query)]
    parser = _QueryParser(store, tokens)
    every, content = _distinct(tokens), _distinct(each for each in tokens if each[1] not in FILLER_WORDS)
    terms = [parser.content_term(*each) for each in content.items()]
    if not any(each.matches for each in terms):
        return ParsedQuery([parser.content_term(*each) for each in every.items()], ())
    return ParsedQuery(terms, [parser.filler_term(*each) for each in every.items() if each[0] not in content])


def content_sentences(query: str) -> list[str]:
    """Return the sentences of a query that are more than small talk; the whole query if there are none."""
    small_talk = FILLER_WORDS | WEAK_WORDS
    found = [
        sentence
        for sentence in split_requests(query)
        if sum(spelling not in small_talk for _, spelling in tokens_in_query(sentence)) >= MIN_CONTENT_WORDS
    ]
    return found[:MAX_SENTENCES] or [query]


def _distinct(tokens: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first spelling of each word."""
    first: dict[str, str] = {}
    for word, spelling in tokens:
        first.setdefault(word, spelling)
    return dict(islice(first.items(), MAX_TERMS))


class _QueryParser:
    """Finds the words of the catalog that match the words of one query."""

    def __init__(self, store: ToolDocuments, tokens: Sequence[tuple[str, str]]) -> None:
        self._store = store
        self._compounds = defaultdict[str, list[tuple[str, float]]](list)
        for (one, spelling), (other, following) in pairwise(tokens):
            compound = stem(spelling + following)
            if compound in store.vocabulary and len(one) > 1 < len(other):
                for each in (one, other):
                    self._compounds[each].append((compound, 1.0))

    def content_term(self, word: str, spelling: str) -> QueryTerm:
        boost = WEAK_WEIGHT if spelling in WEAK_WORDS or spelling.isdigit() else 1.0
        matches, rarity = self._matches(word)
        return QueryTerm(spelling, boost, boost * rarity, matches)

    def filler_term(self, word: str, spelling: str) -> QueryTerm:
        matches = self._present([(word, 1.0)])
        return QueryTerm(spelling, FILLER_WEIGHT, FILLER_WEIGHT * self._rarity(matches), matches)

    def _matches(self, word: str) -> tuple[list[TermMatch], float]:
        """Return what matches a word, best first, and the rarity of the word.

        A word that no tool contains is replaced by a compound, by related words, or by spelling corrections.
        """
        compounds = self._present(self._compounds[word])
        related = self._present((each, RELATED_WEIGHT) for each in related_words(word))
        itself = self._present([(word, 1.0)])
        if not itself:
            found = compounds or related or self._present(self._store.vocabulary.corrections(word))
            return found, self._rarity(found)
        rarity = self._rarity(itself)
        # A word that is more common than the one it replaces is less similar.
        others = [
            each._replace(similarity=each.similarity * min(1.0, self._rarity([each]) / rarity)) for each in related
        ]
        return [*itself, *compounds, *sorted(others, key=attrgetter("similarity"), reverse=True)], rarity

    def _rarity(self, matches: Sequence[TermMatch]) -> float:
        """Return the rarity of the most common match."""
        return min(self._store.rarity(each.symbol) for each in matches) if matches else self._store.rarity(None)

    def _present(self, words: Iterable[tuple[str, float]]) -> list[TermMatch]:
        """Return the words that some tool contains."""
        store = self._store
        symbols = ((word, store.vocabulary.get(word), similarity) for word, similarity in words)
        return [
            TermMatch(word, symbol, similarity)
            for word, symbol, similarity in symbols
            if symbol and store.frequency(symbol)
        ]
