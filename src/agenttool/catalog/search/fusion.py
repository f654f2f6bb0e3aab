"""Two opinions on the same tools become one, each measured in its own deviations, so that neither drowns the other."""

from collections.abc import Mapping
from math import exp
from statistics import fmean, pstdev

MEANING_COUNTS = 0.6
"""How much meaning counts beside words: as much as leaves a poor model little to spoil."""


def fused(words: Mapping[int, float], meaning: Mapping[int, float]) -> dict[int, float]:
    """Join scores by words with likeness in meaning, by z-score; a meaning not known yet is average."""
    by_words, by_meaning = _standard(words), _standard(meaning)
    sums = {number: each + MEANING_COUNTS * by_meaning.get(number, 0.0) for number, each in by_words.items()}
    return {number: 1 / (1 + exp(-each / (1 + MEANING_COUNTS))) for number, each in sums.items()}


def _standard(scores: Mapping[int, float]) -> dict[int, float]:
    if not scores:
        return {}
    middle, spread = fmean(scores.values()), pstdev(scores.values())
    return {number: (each - middle) / spread if spread else 0.0 for number, each in scores.items()}
