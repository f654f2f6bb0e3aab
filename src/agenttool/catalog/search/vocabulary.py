"""The words of all indexed tools, each represented by one character, and corrections of misspelled words.

A tool's text becomes a short string with one character per word, so that looking for a word is a string search.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from agenttool.catalog.search.tokens import SEPARATOR, split_all_runs, split_runs, words_in_run

CACHED_RUNS = 1 << 16
"""How many spellings are cached with their symbols."""

_SURROGATES, _SURROGATE_COUNT, _LAST = 0xD800, 0x800, 0x10FFFF
"""The first code point that UTF-8 cannot encode, how many there are, and the last code point."""

MISSPELLED, LENGTH_DIFFERENCE = 0.8, 1
"""The ratio of equal letters that makes a word a misspelling of another, and how much their lengths may differ."""

MIN_LENGTH = 4
"""Shorter words resemble too many others."""

COMPARED, MAX_CORRECTIONS = 20, 3
"""How many words with the most common trigrams are compared, and how many corrections are returned."""

COMMON_TRIGRAM = 1000
"""A trigram that occurs in more words is ignored."""


class Vocabulary(dict[str, str]):
    """The symbol of each word: one character, in the order in which words are added."""

    def __init__(self) -> None:
        """Start with no word but the separator."""
        super().__init__({SEPARATOR: SEPARATOR})
        self._runs = _RunCache(self)
        self._by_trigram: dict[str, array[int]] = {}
        self._spelled: list[str] = []

    def encode(self, text: str) -> str:
        """Return the symbols of all words of a text; new words are added."""
        return self._symbols(split_runs(text))

    def encode_all(self, texts: Sequence[str]) -> Sequence[str]:
        """Encode many texts, in half the time that it takes one by one."""
        runs = split_all_runs(texts)
        return [*map(self.encode, texts)] if runs is None else self._symbols(runs).split(SEPARATOR)

    def _symbols(self, runs: Iterable[str | bytes]) -> str:
        return "".join(map(self._runs.__getitem__, runs))

    def __missing__(self, word: str) -> str:
        """Assign a symbol to a new word; it is empty if all characters are used."""
        code = len(self)
        code += _SURROGATE_COUNT if code >= _SURROGATES else 0
        if code > _LAST:
            return ""
        symbol = self[word] = chr(code)
        for trigram in _trigrams(word):
            if trigram not in self._by_trigram:
                self._by_trigram[trigram] = array("I")
            self._by_trigram[trigram].append(len(self._spelled))
        self._spelled.append(word)
        return symbol

    def corrections(self, word: str) -> list[tuple[str, float]]:
        """Return the words that an unknown word may stand for, with their similarity."""
        if len(word) < MIN_LENGTH:
            return []
        compare = SequenceMatcher(None, "", word, autojunk=False)
        found: list[tuple[float, str]] = []
        for other in self._similar(word):
            compare.set_seq1(other)
            if abs(len(other) - len(word)) <= LENGTH_DIFFERENCE and (ratio := compare.ratio()) >= MISSPELLED:
                found.append((-ratio, other))
        return [(other, -negative) for negative, other in sorted(found)[:MAX_CORRECTIONS]]

    def _similar(self, word: str) -> list[str]:
        """Return the words that share most trigrams with a word."""
        shared: Counter[int] = Counter()
        for trigram in _trigrams(word):
            places = self._by_trigram.get(trigram, ())
            if len(places) <= COMMON_TRIGRAM:
                shared.update(places)
        words = self._spelled
        ranked = [
            (-count / (len(word) + len(words[at])), words[at])
            for at, count in shared.items()
            if count > 1 and words[at] != word
        ]
        return [other for _, other in sorted(ranked)[:COMPARED]]


class _RunCache(dict[str | bytes, str]):
    """The symbols of recent spellings; most texts consist of few different ones."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, run: str | bytes) -> str:
        if len(self) >= CACHED_RUNS:
            self.clear()
        symbols = self[run] = "".join(map(self._vocabulary.__getitem__, words_in_run(run)))
        return symbols


def _trigrams(word: str) -> frozenset[str]:
    """Return the overlapping trigrams of a word; none for numbers, which are never corrected."""
    if not word.isalpha():
        return frozenset()
    padded = f"^{word}$"
    return frozenset(padded[at : at + 3] for at in range(max(1, len(padded) - 2)))
