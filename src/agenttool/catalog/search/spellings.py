"""Which words of a catalog are written like another, by slips of the pen or by descent."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from heapq import nlargest

ALIKE = 0.75
"""How alike two words must be, from 0 to 1, for one to stand for the other."""

SHORTEST = 4
"""A shorter word has too many that are like it."""

COMPARED = 20
"""How many of the words that share most trigrams are compared letter by letter."""


class Spellings:
    """Words by the overlapping threes of letters that they are made of."""

    def __init__(self) -> None:
        """Begin with no words."""
        self._words: Sequence[str] = ()
        self._learned = 0
        self._having: dict[str, array[int]] = {}

    def learn(self, words: Sequence[str]) -> None:
        """Take what was added to the list of words since the last time."""
        self._words = words
        for place in range(self._learned, len(words)):
            for trigram in trigrams(words[place]):
                if trigram not in self._having:
                    self._having[trigram] = array("I")
                self._having[trigram].append(place)
        self._learned = len(words)

    def like(self, word: str) -> Iterable[tuple[str, float]]:
        """Give the words that are written most like this one, and how alike they are."""
        if len(word) < SHORTEST:
            return
        shared: Counter[int] = Counter()
        for trigram in trigrams(word):
            shared.update(self._having.get(trigram, ()))
        size = len(word)
        near = nlargest(COMPARED, ((count / (size + len(self._words[at])), at) for at, count in shared.items()))
        for _, at in near:
            other = self._words[at]
            likeness = SequenceMatcher(None, word, other, autojunk=False).ratio()
            if likeness >= ALIKE and other != word:
                yield other, likeness


def trigrams(word: str) -> frozenset[str]:
    """Cut a word into overlapping threes; a number is never a slip of the pen, and has none."""
    if not word.isalpha() or len(word) < SHORTEST - 1:
        return frozenset()
    edged = f"^{word}$"
    return frozenset(edged[at : at + 3] for at in range(len(edged) - 2))
