"""The words of all indexed tools, each represented by one character, and corrections of misspelled words.

A tool's text becomes a short string with one character per word, so that looking for a word is a string search.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher

from agenttool.catalog.search.tokens import SEPARATOR, split_all_runs, split_runs, words_in_run

CACHED_RUNS = 1 << 16
"""How many spellings are cached with their symbols."""

_SURROGATES, _SURROGATE_COUNT, _LAST = 0xD800, 0x800, 0x10FFFF
"""The first code point that UTF-8 cannot encode, how many there are, and the last code point."""

RELATED = 0.6
"""The share of trigrams that two words must have in common to count as related, such as `mail` and `email`."""

MISSPELLED, LENGTH_DIFFERENCE = 0.8, 1
"""The ratio of equal letters that makes a word a misspelling of another, and how much their lengths may differ."""

MISSPELLING_WEIGHT = 0.9
MIN_LENGTH = 4
"""Shorter words resemble too many others."""

COMPARED, MAX_CORRECTIONS = 20, 3
"""How many words with the most common trigrams are compared, and how many corrections are returned."""

COMMON_TRIGRAM = 1000
"""A trigram that occurs in more words is ignored."""

Corrections = tuple[tuple[str, float], ...]
"""Words and their similarity to a misspelled one, best first."""


class Vocabulary:
    """Assigns each word a symbol: one character, in the order in which words are added."""

    def __init__(self) -> None:
        """Start with no word but the separator."""
        self._codes = {SEPARATOR: ord(SEPARATOR)}
        self._words = [SEPARATOR]
        self._free: list[int] = []
        self._new: list[int] = []
        self._cache = _RunCache(self)

    @property
    def words(self) -> Sequence[str]:
        """All words by position; a free position holds an empty string."""
        return self._words

    def take_new(self) -> Sequence[int]:
        """Return the positions of the words that were added since the last call."""
        new, self._new = self._new, []
        return new

    def retain(self, symbols: AbstractSet[str]) -> None:
        """Delete all words but those of these symbols, which stay valid."""
        for word, code in [*self._codes.items()]:
            if word != SEPARATOR and chr(code) not in symbols:
                del self._codes[word]
                self._words[_position(code)] = ""
                self._free.append(code)
        self._cache.clear()
        self._new = [position for position, word in enumerate(self._words) if word]

    def encode(self, text: str) -> str:
        """Return the symbols of all words of a text; new words are added."""
        return self._symbols(split_runs(text)) if text else ""

    def encode_all(self, texts: Sequence[str]) -> Sequence[str]:
        """Encode many texts, in half the time that it takes one by one."""
        if not any(texts):
            return texts
        runs = split_all_runs(texts)
        return [*map(self.encode, texts)] if runs is None else self._symbols(runs).split(SEPARATOR)

    def _symbols(self, runs: Iterable[str | bytes]) -> str:
        return "".join(map(self._cache.__getitem__, runs))

    def symbol(self, word: str) -> str | None:
        """Return the symbol of a word; None if no tool has contained it recently."""
        code = self._codes.get(word)
        return None if code is None else chr(code)

    def add(self, word: str) -> str:
        """Return the symbol of a word, assigning one if it is new; empty if all characters are used."""
        code = self._codes.get(word)
        if code is None:
            code = self._free.pop() if self._free else self._next_code()
            if code > _LAST:
                return ""
            self._codes[word] = code
            self._words[_position(code)] = word
            self._new.append(_position(code))
        return chr(code)

    def _next_code(self) -> int:
        position = len(self._words)
        code = position + _SURROGATE_COUNT if position >= _SURROGATES else position
        if code <= _LAST:
            self._words.append("")
        return code


def _position(code: int) -> int:
    return code - _SURROGATE_COUNT if code > _SURROGATES else code


class _RunCache(dict[str | bytes, str]):
    """The symbols of recent spellings; most texts consist of few different ones."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, run: str | bytes) -> str:
        if len(self) >= CACHED_RUNS:
            self.clear()
        add, words = self._vocabulary.add, words_in_run(run)
        symbols = self[run] = add(words[0]) if len(words) == 1 else "".join(map(add, words))
        return symbols


class SpellingIndex:
    """Finds the words of a vocabulary that resemble an unknown word, by trigrams of letters."""

    def __init__(self) -> None:
        self._words: Sequence[str] = ()
        self._by_trigram: dict[str, array[int]] = {}
        self._sizes = array("B")

    def add(self, words: Sequence[str], positions: Iterable[int]) -> None:
        """Add new words, given by their positions in the list of all words."""
        self._words = words
        by_trigram, sizes = self._by_trigram, self._sizes
        sizes.extend([0] * (len(words) - len(sizes)))
        for position in positions:
            trigrams = _trigrams(words[position])
            sizes[position] = len(trigrams)
            for trigram in trigrams:
                if trigram not in by_trigram:
                    by_trigram[trigram] = array("I")
                by_trigram[trigram].append(position)

    def corrections(self, word: str) -> Corrections:
        """Return the words that an unknown word may stand for: related words and likely misspellings."""
        shared, ignored = self._similar(word)
        found: dict[str, float] = {}
        mine = _trigrams(word)
        for position, count in shared.items():
            other = self._words[position]
            upper_bound = 2 * (count + ignored) / (len(mine) + self._sizes[position])
            if upper_bound >= RELATED:
                theirs = _trigrams(other)
                likeness = 2 * len(mine & theirs) / (len(mine) + len(theirs))
                if likeness >= RELATED:
                    found[other] = likeness
            if other[0] == word[0] and len(other) >= MIN_LENGTH and abs(len(other) - len(word)) <= LENGTH_DIFFERENCE:
                ratio = SequenceMatcher(None, word, other, autojunk=False).ratio()
                if ratio >= MISSPELLED:
                    found[other] = max(found.get(other, 0.0), MISSPELLING_WEIGHT * ratio)
        return tuple(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:MAX_CORRECTIONS])

    def _similar(self, word: str) -> tuple[dict[int, int], int]:
        """Return the positions of similar words with their shared trigrams, and how many trigrams were ignored."""
        shared: Counter[int] = Counter()
        ignored = 0
        for trigram in _trigrams(word) if len(word) >= MIN_LENGTH else ():
            positions = self._by_trigram.get(trigram, ())
            if len(positions) <= COMMON_TRIGRAM:
                shared.update(positions)
            else:
                ignored += 1
        words = self._words
        similar = [at for at, count in shared.items() if count > 1 and words[at] != word]
        if len(similar) > COMPARED:
            similar.sort(key=lambda at: (-shared[at] / (len(word) + len(words[at])), words[at]))
        return {at: shared[at] for at in similar[:COMPARED]}, ignored


def _trigrams(word: str) -> frozenset[str]:
    """Return the overlapping trigrams of a word; none for numbers, which are never corrected."""
    if not word.isalpha():
        return frozenset()
    padded = f"^{word}$"
    return frozenset(padded[at : at + 3] for at in range(max(1, len(padded) - 2)))
