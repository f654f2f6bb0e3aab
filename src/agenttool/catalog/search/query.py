"""Parse a query into weighted terms, each with the words of the catalog that match it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from agenttool.catalog.search.documents import ToolDocuments
from agenttool.catalog.search.lexicon import FILLER_WORDS, WEAK_WORDS, related_words
from agenttool.catalog.search.tokens import QueryToken, split_requests, stem, tokens_in_query

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


@dataclass(frozen=True, slots=True)
class TermMatch:
    """A word of the catalog that matches a term, and how well, from 0 to 1."""

    word: str
    symbol: str
    similarity: float


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One word of a query.

    Attributes:
        spelling: how it is written in the query.
        sentences: the numbers of the sentences that contain it.
        boost: 1 for content words, less for weak words and fillers.
        weight: the boost times the rarity of the word.
        matches: the words of the catalog that match it, best first.
    """

    spelling: str
    sentences: tuple[int, ...]
    boost: float
    weight: float
    matches: tuple[TermMatch, ...]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The terms of a query.

    Attributes:
        sentences: how many sentences the query has.
    """

    terms: tuple[QueryTerm, ...]
    fillers: tuple[QueryTerm, ...]
    sentences: int


def parse_query(query: str, store: ToolDocuments) -> ParsedQuery:
    """Parse a query; filler words count as content words if no content word matches any tool."""
    tokens = tokens_in_query(query)
    content = _distinct(each for each in tokens if each.spelling not in FILLER_WORDS)
    parser = _QueryParser(store, tokens)
    terms = tuple(map(parser.content_term, content))
    if any(each.matches for each in terms):
        used = {each.word for each in content}
        fillers = tuple(parser.filler_term(each) for each in _distinct(tokens) if each.word not in used)
    else:
        terms, fillers = tuple(map(parser.content_term, _distinct(tokens))), ()
    return ParsedQuery(terms, fillers, tokens[-1].sentence + 1 if tokens else 0)


def content_sentences(query: str) -> list[str]:
    """Return the sentences of a query that are more than small talk; the whole query if there are none."""
    found = [
        each for each in split_requests(query) if sum(map(_is_content, tokens_in_query(each))) >= MIN_CONTENT_WORDS
    ]
    return found[:MAX_SENTENCES] or [query]


def _is_content(token: QueryToken) -> bool:
    return token.spelling not in FILLER_WORDS and token.spelling not in WEAK_WORDS


def _distinct(tokens: Iterable[QueryToken]) -> list[QueryToken]:
    """Return the first token of each word."""
    first: dict[str, QueryToken] = {}
    for each in tokens:
        first.setdefault(each.word, each)
    return list(first.values())[:MAX_TERMS]


class _QueryParser:
    """Finds the words of the catalog that match the words of one query."""

    def __init__(self, store: ToolDocuments, tokens: Sequence[QueryToken]) -> None:
        self._store = store
        self._sentences: dict[str, dict[int, None]] = {}
        for each in tokens:
            self._sentences.setdefault(each.word, {})[each.sentence] = None
        self._compounds: dict[str, list[str]] = {}
        for one, other in pairwise(tokens):
            compound = stem(one.spelling + other.spelling)
            if store.vocabulary.symbol(compound) and len(one.word) > 1 < len(other.word):
                for each in (one, other):
                    self._compounds.setdefault(each.word, []).append(compound)

    def content_term(self, token: QueryToken) -> QueryTerm:
        matches, frequency = self._matches(token.word)
        boost = WEAK_WEIGHT if token.spelling in WEAK_WORDS or token.spelling.isdigit() else 1.0
        return self._term(token, boost, matches, frequency)

    def filler_term(self, token: QueryToken) -> QueryTerm:
        matches = self._present([(token.word, 1.0)])
        return self._term(token, FILLER_WEIGHT, matches, self._store.frequency(matches[0].symbol) if matches else 0)

    def _term(self, token: QueryToken, boost: float, matches: list[TermMatch], frequency: int) -> QueryTerm:
        weight = boost * self._store.rarity(frequency)
        return QueryTerm(token.spelling, tuple(self._sentences[token.word]), boost, weight, tuple(matches))

    def _matches(self, word: str) -> tuple[list[TermMatch], int]:
        """Return what matches a word, best first, and how many tools contain it.

        A word that no tool contains is replaced by a compound, by related words, or by spelling corrections.
        """
        store = self._store
        compounds = [(each, 1.0) for each in self._compounds.get(word, ())]
        related = [(each, RELATED_WEIGHT) for each in related_words(word)]
        itself = self._present([(word, 1.0)])
        if not itself:
            found = (
                self._present(compounds) or self._present(related) or self._present(store.spellings.corrections(word))
            )
            return found, max((store.frequency(each.symbol) for each in found), default=0)
        frequency = store.frequency(itself[0].symbol)
        others = [self._limit_to_rarity(each, frequency) for each in self._present(related)]
        return [
            *itself,
            *self._present(compounds),
            *sorted(others, key=attrgetter("similarity"), reverse=True),
        ], frequency

    def _limit_to_rarity(self, match: TermMatch, frequency: int) -> TermMatch:
        """Reduce the similarity of a word that is more common than the one it replaces."""
        rarity = self._store.rarity
        share = min(1.0, rarity(self._store.frequency(match.symbol)) / rarity(frequency))
        return TermMatch(match.word, match.symbol, match.similarity * share)

    def _present(self, words: Iterable[tuple[str, float]]) -> list[TermMatch]:
        """Return the words that some tool contains."""
        store = self._store
        symbols = ((word, store.vocabulary.symbol(word), similarity) for word, similarity in words)
        return [
            TermMatch(word, symbol, similarity)
            for word, symbol, similarity in symbols
            if symbol and store.frequency(symbol)
        ]
