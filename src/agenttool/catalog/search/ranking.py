"""Score tools for a query by words, combine the scores with similarity in meaning, and order the tools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from math import exp, hypot, sqrt

from agenttool.catalog.search.documents import (
    FIELD_TITLES,
    FIELD_WEIGHTS,
    DocumentField,
    EncodedDocument,
    ToolDocuments,
)
from agenttool.catalog.search.query import ParsedQuery, QueryTerm, TermMatch
from agenttool.catalog.search.tokens import SEPARATOR
from agenttool.records import ToolId

SATURATION = 1.0
"""Limits how much a word scores in more fields; its first occurrence is most of its score."""

LENGTH_NORMALIZATION = 0.4
"""How much a word counts less in a field that is longer than average."""

REPEAT_GAIN, MAX_REPEATS = 0.5, 2.0
"""The weight that a word gains by each repetition in a field, and the largest weight."""

MEANING_WEIGHT = 0.5
"""The weight of similarity in meaning beside the score by words."""

STANDS_OUT = 0.9
"""By how many standard deviations a tool without a matching word must be more similar than average to be found."""

MIN_SIMILARITY = 0.2
"""The cosine similarity that a tool without a matching word must have to be found."""

MIN_SPREAD = 0.01
"""The least standard deviation that scores by words are divided by, so that tiny differences stay small."""

NO_SPREAD = 1e-9

DIVERSITY = 0.3
"""How much a sentence counts less after the tool that answers it best was listed; only without a model."""

DIVERSE_TOOLS = 10
"""After how many listed tools the weights of sentences stay as they are."""

_FIELDS = tuple(DocumentField)
_WeightedTerms = list[tuple[float, list[tuple[str, float]]]]
"""The weight of each term and the symbols that match it, with their similarity."""

_WeightedFields = list[tuple[str, float]]
"""The symbols of each field and the weight of a word in it."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    terms: _WeightedTerms = field(default_factory=list)
    fillers: list[tuple[float, str]] = field(default_factory=list)


class DocumentScorer:
    """Scores tools for one query.

    Each sentence yields a score, and the length of the vector of scores is the score of a tool. A tool that answers
    one sentence well ranks above one that shares a word with each sentence.
    """

    def __init__(self, query: ParsedQuery, store: ToolDocuments) -> None:
        self._terms = [each for each in query.terms if each.matches]
        self._sentences = [_Sentence() for _ in range(query.sentences)]
        for each in self._terms:
            term = each.weight, [(match.symbol, match.similarity) for match in each.matches]
            for number in each.sentences:
                self._sentences[number].terms.append(term)
        for each in query.fillers:
            for number in each.sentences if each.matches else ():
                self._sentences[number].fillers.append((each.weight, each.matches[0].symbol))
        self._slopes = [LENGTH_NORMALIZATION / store.average_length(each) for each in _FIELDS]
        totals = [0.0] * query.sentences
        for each in query.terms + query.fillers:
            for number in each.sentences:
                totals[number] += each.weight
        self._total = hypot(*totals) or 1.0
        self._store = store
        self._asked: dict[str, float] = {}
        for each in query.fillers + query.terms:
            for match in each.matches:
                self._asked[match.symbol] = max(match.similarity, self._asked.get(match.symbol, 0.0))

    def sentence_scores(self, document: EncodedDocument) -> list[float]:
        """Score one tool for each sentence; all are zero if no content word matches."""
        texts = document.split(SEPARATOR)
        fields: _WeightedFields = []
        for text, weight, slope in zip(texts, FIELD_WEIGHTS, self._slopes):  # noqa: B905 -- this is the inner loop
            if text:
                fields.append((text, weight / (1 - LENGTH_NORMALIZATION + slope * len(text))))
        name, summary = texts[DocumentField.NAME], texts[DocumentField.DESCRIPTION]
        scores: list[float] = []
        is_match = False
        for sentence in self._sentences:
            score = _match(sentence.terms, document, fields)
            if score:
                is_match = True
            for weight, symbol in sentence.fillers:
                if symbol in name or symbol in summary:
                    score += weight
            scores.append(score / self._total)
        if not is_match:
            return [0.0] * len(scores)
        share = self._share_of_title(texts[DocumentField.HINT])
        return [score + share * score * (1 - score) for score in scores] if share else scores

    def _share_of_title(self, title: str) -> float:
        """Return which share of a title the query says, by the rarity of its words.

        A tool whose whole title is asked for ranks above one whose title says more.
        """
        asked = total = 0.0
        for symbol in title:
            weight = self._store.rarity(self._store.frequency(symbol))
            total += weight
            asked += weight * self._asked.get(symbol, 0.0)
        return asked / total if total else 0.0

    def reason(self, document: EncodedDocument) -> str:
        """Return which words of the query were found, and in which field; empty if none was."""
        found: dict[str, dict[str, None]] = {}
        for each in self._terms:
            for match in each.matches:
                if match.symbol in document:
                    field = document.count(SEPARATOR, 0, document.index(match.symbol))
                    found.setdefault(FIELD_TITLES[field], {})[_reason_word(each, match)] = None
                    break
        titles = dict.fromkeys(FIELD_TITLES)
        return "; ".join(f"{title} says {', '.join(found[title])}" for title in titles if title in found)


def _match(terms: _WeightedTerms, document: EncodedDocument, fields: _WeightedFields) -> float:
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
                        count = text.count(symbol)
                        amount += (
                            field_weight
                            if count == 1
                            else field_weight * min(MAX_REPEATS, 1 + REPEAT_GAIN * (count - 1))
                        )
                found = similarity * amount / (SATURATION + amount)
                if found > best:  # noqa: PLR1730 -- a call of max takes as long as the rest
                    best = found
        score += weight * best
    return score


def _reason_word(term: QueryTerm, match: TermMatch) -> str:
    return term.spelling if match.similarity == 1.0 else f"{match.word} (for {term.spelling})"


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
    words, meaning = _z_scores(by_words, min_spread=MIN_SPREAD), _z_scores(similarity)
    stands_out = {number for number in similar if similarity[number] > STANDS_OUT}
    found = {number for number, score in by_words.items() if score or number in stands_out}
    sums = {number: words[number] + MEANING_WEIGHT * meaning.get(number, 0.0) for number in found}
    return {number: 1 / (1 + exp(-each / (1 + MEANING_WEIGHT))) for number, each in sums.items()}


def _z_scores(scores: Mapping[int, float], *, min_spread: float = 0.0) -> dict[int, float]:
    if not scores:
        return {}
    mean = sum(scores.values()) / len(scores)
    spread = max(min_spread, sqrt(sum((each - mean) ** 2 for each in scores.values()) / len(scores)))
    return {number: (each - mean) / spread if spread > NO_SPREAD else 0.0 for number, each in scores.items()}


RankedTool = tuple[float, ToolId, int]
"""A tool as it is sorted: its negative score, its id and its number."""


def diversify(ranked: Sequence[RankedTool], sentence_scores: Mapping[int, Sequence[float]]) -> Iterator[RankedTool]:
    """Yield tools best first; each listed tool lowers the weight of the sentences that it answers.

    Scores only decrease, so that only the current best tool has to be scored again.
    """
    waiting, scores = list(ranked), {number: score for score, _, number in ranked}
    heapify(waiting)
    best = [max(each) or 1.0 for each in zip(*map(sentence_scores.__getitem__, scores), strict=True)]
    weights, count = [1.0] * len(best), 0
    while waiting:
        first = score, tool_id, number = waiting[0]
        now = scores[number] * _remaining(sentence_scores[number], weights)
        if now != score:
            heapreplace(waiting, (now, tool_id, number))
            continue
        yield first
        heappop(waiting)
        count += 1
        if count <= DIVERSE_TOOLS:
            shares = zip(weights, sentence_scores[number], best, strict=True)
            weights = [weight * (1 - DIVERSITY * (mine / most) ** 2) for weight, mine, most in shares]


def _remaining(scores: Sequence[float], weights: Sequence[float]) -> float:
    """Return the share of a tool's score that remains with these weights of the sentences."""
    length = hypot(*scores)
    return hypot(*(score * weight for score, weight in zip(scores, weights, strict=True))) / length if length else 1.0
