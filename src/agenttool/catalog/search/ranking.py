"""Score tools for a query by words, combine the scores with similarity in meaning, and order the tools."""

from collections.abc import Mapping, Sequence
from math import exp, sqrt

from agenttool.catalog.search.documents import (
    FIELD_TITLES,
    FIELD_WEIGHTS,
    DocumentField,
    EncodedDocument,
    ToolDocuments,
)
from agenttool.catalog.search.query import ParsedQuery, QueryTerm
from agenttool.catalog.search.tokens import SEPARATOR

SATURATION = 1.0
"""Limits how much a word scores in more fields; its first occurrence is most of its score."""

LENGTH_NORMALIZATION = 0.4
"""How much a word counts less in a field that is longer than average."""

MEANING_WEIGHT = 0.5
"""The weight of similarity in meaning beside the score by words."""

STANDS_OUT = 0.9
"""By how many standard deviations a tool without a matching word must be more similar than average to be found."""

MIN_SIMILARITY = 0.2
"""The cosine similarity that a tool without a matching word must have to be found."""

MIN_SPREAD, NO_SPREAD = 0.01, 1e-9
"""The least standard deviations that scores by words, which may differ little, and similarities are divided by."""

_Matches = list[tuple[float, list[tuple[str, float]]]]
"""The weight of each term and the symbols that match it, with their similarity."""

_WeightedFields = list[tuple[str, float]]
"""The symbols of each field and the weight of a word in it."""


class DocumentScorer:
    """Scores tools for one query."""

    def __init__(self, query: ParsedQuery, store: ToolDocuments) -> None:
        self._query, self._store = query, store
        self._slopes = [LENGTH_NORMALIZATION / store.average_length(each) for each in DocumentField]
        self._terms, self._fillers = _matches(query.terms), _matches(query.fillers)
        self._total = sum(each.weight for each in (*query.terms, *query.fillers)) or 1.0
        self._asked: dict[str, float] = {}
        for _, matches in (*self._terms, *self._fillers):
            for symbol, similarity in matches:
                self._asked[symbol] = max(similarity, self._asked.get(symbol, 0.0))

    def score(self, document: EncodedDocument) -> float:
        """Score one tool, from 0 to 1; the score is 0 if no content word matches."""
        texts = document.split(SEPARATOR)
        fields: _WeightedFields = []
        for text, weight, slope in zip(texts, FIELD_WEIGHTS, self._slopes):  # noqa: B905 -- this is the inner loop
            if text:
                fields.append((text, weight / (1 - LENGTH_NORMALIZATION + slope * len(text))))
        score = _match(self._terms, document, fields)
        if not score:
            return 0.0
        name, summary = texts[DocumentField.NAME], texts[DocumentField.DESCRIPTION]
        for weight, matches in self._fillers:
            symbol = matches[0][0]
            if symbol in name or symbol in summary:
                score += weight
        score /= self._total
        title = texts[DocumentField.HINT]
        return score + self._share_of_title(title) * score * (1 - score) if title else score

    def _share_of_title(self, title: str) -> float:
        """Return the IDF-weighted share of title words in the query.

        A tool whose whole title is asked for ranks above one whose title says more.
        """
        weights = [(self._store.rarity(symbol), self._asked.get(symbol, 0.0)) for symbol in title]
        return sum(weight * asked for weight, asked in weights) / sum(weight for weight, _ in weights)

    def reason(self, document: EncodedDocument) -> str:
        """Return which words of the query were found, and in which field; empty if none was."""
        found: dict[str, dict[str, None]] = {}
        for each in self._query.terms:
            match = next((match for match in each.matches if match.symbol in document), None)
            if match is not None:
                title = FIELD_TITLES[document.count(SEPARATOR, 0, document.index(match.symbol))]
                word = each.spelling if match.similarity == 1.0 else f"{match.word} (for {each.spelling})"
                found.setdefault(title, {})[word] = None
        titles = dict.fromkeys(FIELD_TITLES)
        return "; ".join(f"{title} says {', '.join(found[title])}" for title in titles if title in found)


def _matches(terms: Sequence[QueryTerm]) -> _Matches:
    return [(each.weight, [match[1:] for match in each.matches]) for each in terms if each.matches]


def _match(terms: _Matches, document: EncodedDocument, fields: _WeightedFields) -> float:
    score = 0.0
    for weight, matches in terms:
        best = 0.0
        for symbol, similarity in matches:
            if similarity <= best:
                break  # they are ordered by similarity
            if symbol in document:
                amount = 0.0
                for text, field_weight in fields:
                    if symbol in text:
                        amount += field_weight
                found = similarity * amount / (SATURATION + amount)
                if found > best:  # noqa: PLR1730 -- a call of max takes as long as the rest
                    best = found
        score += weight * best
    return score


def combine_scores(by_words: Mapping[int, float], by_sentence: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Add the z-scores of tools by words and by similarity to the sentence that each fits best.

    A tool whose vector is not known yet gets the average similarity. Without similarities, the scores by words are
    returned.
    """
    similarity: dict[int, float] = {}
    similar: set[int] = set()
    for each in by_sentence:
        similar.update(number for number, cosine in each.items() if cosine >= MIN_SIMILARITY)
        for number, z_score in _z_scores(each).items():
            similarity[number] = max(z_score, similarity.get(number, z_score))
    if not similarity:
        return dict(by_words)
    words, meaning = _z_scores(by_words, MIN_SPREAD), _z_scores(similarity)
    stands_out = {number for number in similar if similarity[number] > STANDS_OUT}
    found = {number for number, score in by_words.items() if score or number in stands_out}
    sums = {number: words[number] + MEANING_WEIGHT * meaning.get(number, 0.0) for number in found}
    return {number: 1 / (1 + exp(-each / (1 + MEANING_WEIGHT))) for number, each in sums.items()}


def _z_scores(scores: Mapping[int, float], min_spread: float = NO_SPREAD) -> dict[int, float]:
    if not scores:
        return {}
    mean = sum(scores.values()) / len(scores)
    spread = max(min_spread, sqrt(sum((each - mean) ** 2 for each in scores.values()) / len(scores)))
    return {number: (each - mean) / spread for number, each in scores.items()}
