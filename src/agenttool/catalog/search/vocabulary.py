"""The words of a whole catalog: how rare each is, how long fields are, and which word a slip of the pen may mean."""

from collections import Counter
from math import log

from agenttool.catalog.search.document import Document, Field

ALIKE = 0.5
"""How alike two words must be, from 0 to 1, for one to stand for the other."""

MAX_ALIKE = 3


class Vocabulary:
    """Counts that follow the catalog: one tool more or less changes only its own words."""

    def __init__(self) -> None:
        """Begin with no words."""
        self._tools = 0
        self._having: Counter[str] = Counter()
        self._lengths = [0] * len(Field)
        self._by_trigram: dict[str, set[str]] = {}

    def add(self, document: Document) -> None:
        """Count a tool in."""
        self._count(document, 1)
        for word in document.words():
            self._having[word] += 1
            if self._having[word] == 1:
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
        for field in Field:
            self._lengths[field] += by * len(document.fields[field])

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
        own = _trigrams(word)
        shared = Counter(other for trigram in own for other in self._by_trigram.get(trigram, ()))
        likeness = [
            (other, 2 * count / (len(own) + len(_trigrams(other))))
            for other, count in shared.items()
            if count * 3 > len(own)
        ]
        likeness.sort(key=lambda each: (-each[1], each[0]))
        return [each for each in likeness[:MAX_ALIKE] if each[1] >= ALIKE]


def _trigrams(word: str) -> frozenset[str]:
    edged = f"^{word}$"
    return frozenset(edged[at : at + 3] for at in range(max(1, len(edged) - 2)))
