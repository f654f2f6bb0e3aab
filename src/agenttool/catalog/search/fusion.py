"""Two opinions on the same tools become one, each measured in its own deviations, so that neither drowns the other."""

from collections.abc import Mapping, Sequence
from math import exp, hypot, sqrt

MEANING_COUNTS = 0.8
"""How much meaning counts beside words: nearly as much, for words are never quite wrong, and a model may be."""

STANDS_OUT = 0.9
"""By so many deviations a tool is nearer than others, if it is found without a word that leads to it."""

HARDLY = 0.01
"""Scores by words that differ by less hardly say anything; they are not taken for a full opinion."""

NOTHING = 1e-9
"""A spread so small is no opinion at all."""


def fused(words: Mapping[int, float], meanings: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Join scores by words with likeness in meaning to each sentence, by z-score.

    A tool is measured by the sentence that it fits best, and a meaning not known yet is average. Without any meaning,
    words stand alone.
    """
    fits: dict[int, float] = {}
    for meaning in meanings:
        for number, each in _standard(meaning).items():
            fits[number] = max(each, fits.get(number, each))
    if not fits:
        return dict(words)
    by_words, by_meaning = _standard(words, least=HARDLY), _standard(fits)
    found = {number for number, score in words.items() if score or fits.get(number, 0.0) > STANDS_OUT}
    sums = {number: by_words[number] + MEANING_COUNTS * by_meaning.get(number, 0.0) for number in found}
    return {number: 1 / (1 + exp(-each / (1 + MEANING_COUNTS))) for number, each in sums.items()}


def wish_by_wish(
    opinions: Mapping[int, Sequence[float]], meanings: Mapping[int, Mapping[int, float]]
) -> Mapping[int, Sequence[float]]:
    """Tell which sentences a tool answers, by words and by likeness in meaning to each sentence that has one.

    Both are measured by the best of all tools; to be less like a sentence than most says nothing against a tool.
    """
    if not meanings or not opinions:
        return opinions
    most = max(hypot(*mine) for mine in opinions.values()) or 1.0
    joined = {number: [each / most for each in mine] for number, mine in opinions.items()}
    for sentence, meaning in meanings.items():
        fits = _standard(meaning)
        nearest = max(fits.values(), default=0.0)
        for number, each in fits.items():
            if each > 0.0:
                joined[number][sentence] += MEANING_COUNTS * each / nearest
    return joined


def _standard(scores: Mapping[int, float], *, least: float = 0.0) -> dict[int, float]:
    if not scores:
        return {}
    middle = sum(scores.values()) / len(scores)
    spread = max(least, sqrt(sum((each - middle) ** 2 for each in scores.values()) / len(scores)))
    return {number: (each - middle) / spread if spread > NOTHING else 0.0 for number, each in scores.items()}
