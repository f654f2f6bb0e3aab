"""The words of a whole catalog: how rare each is, how long fields are, and which word a slip of the pen may mean."""

from collections import Counter
from difflib import SequenceMatcher
from heapq import nsmallest
from math import log

from agenttool.catalog.search.document import Document, Field

ALIKE = 0.75
"""How alike two words must be, from 0 to 1, for one to stand for the other."""

SHORTEST = 4
"""A shorter word has too many that are like it."""

COMPARED, MAX_ALIKE = 20, 3
"""How many words that share most trigrams are compared letter by letter, and how many of them are taken."""


class Vocabulary:
    """Counts that follow the catalog: one tool more or less changes only its own words."""

    def __init__(self) -> None:
        """Begin with no words."""
        self._tools = 0
        self._having: dict[str, int] = {}
        self._lengths = [0] * len(Field)
        self._by_trigram: dict[str, set[str]] = {}

    def add(self, document: Document) -> None:
        """Count a tool in."""
        self._count(document, 1)
        having = self._having
        for word in document.words():
            if word in having:
                having[word] += 1
            else:
                having[word] = 1
                for trigram in _trigrams(word):
                    self._by_trigram.setdefault(trigram, set()).add(word)

    def remove(self, document: Document) -> None:
        """Count a tool out."""
        self._count(document, -1)
        for word in document.words():
            self._having[word] -= 1
            if not self._having[word]:
                del self._having[word]
                for trigram in _trigrams(word):
                    self._by_trigram[trigram].discard(word)

    def _count(self, document: Document, by: int) -> None:
        self._tools += by
        self._lengths = [total + by * len(words) for total, words in zip(self._lengths, document.fields, strict=True)]

    def __contains__(self, word: str) -> bool:
        """Tell whether any tool has this word."""
        return word in self._having

    def rarity(self, word: str) -> float:
        """Weigh a word: the fewer tools have it, the more it tells."""
        having = self._having.get(word, 0)
        return log(1 + (self._tools - having + 0.5) / (having + 0.5))

    def usual_length(self, field: Field) -> float:
        """Give how many words a field has on average."""
        return max(1.0, self._lengths[field] / max(1, self._tools))

    def alike(self, word: str) -> list[tuple[str, float]]:
        """Give the words of the catalog that are written most like this one, and how alike they are."""
        if len(word) < SHORTEST:
            return []
        shared = Counter(other for trigram in _trigrams(word) for other in self._by_trigram.get(trigram, ()))
        near = nsmallest(COMPARED, shared.items(), key=lambda each: (-each[1] / (len(each[0]) + len(word)), each[0]))
        alike = [(other, SequenceMatcher(None, word, other, autojunk=False).ratio()) for other, _ in near]
        alike.sort(key=lambda each: (-each[1], each[0]))
        return [each for each in alike[:MAX_ALIKE] if each[1] >= ALIKE]


def _trigrams(word: str) -> frozenset[str]:
    """Cut a word into overlapping threes; a number is never a slip of the pen, and has none."""
    if not word.isalpha():
        return frozenset()
    edged = f"^{word}$"
    return frozenset(edged[at : at + 3] for at in range(max(1, len(edged) - 2)))
