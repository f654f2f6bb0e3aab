"""Which words of a catalog are written like another, by descent or by a slip of the pen."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

RELATED = 0.6
"""How many of the trigrams of two words must be the same for them to be relatives, such as `mail` and `email`."""

SLIPPED, A_SLIP = 0.8, 1
"""How alike, letter by letter, a word that nobody has must be to one that somebody has to be a slip of the pen.

And how many letters a slip adds or loses: who writes `situation` does not mean `station`.
"""

SLIP_COUNTS = 0.9
SHORTEST = 4
"""A shorter word has too many that are like it."""

COMPARED, MAX_ALIKE = 20, 3
"""How many words that share most trigrams are compared, and how many of them are taken."""

TELLING = 1000
"""A trigram that more words have tells nothing."""

Alike = tuple[tuple[str, float], ...]


class Spellings:
    """Words by the overlapping threes of letters that they are made of."""

    def __init__(self) -> None:
        """Begin with no words."""
        self._words: Sequence[str] = ()
        self._having: dict[str, array[int]] = {}
        self._sizes = array("B")
        self._related: dict[str, Alike] = {}

    def learn(self, words: Sequence[str], places: Iterable[int]) -> None:
        """Take the words that are new, by their places in a list of all words."""
        self._words = words
        self._related.clear()
        having, sizes = self._having, self._sizes
        sizes.extend([0] * (len(words) - len(sizes)))
        for place in places:
            trigrams = _trigrams(words[place])
            sizes[place] = len(trigrams)
            for trigram in trigrams:
                if trigram not in having:
                    having[trigram] = array("I")
                having[trigram].append(place)

    def relatives(self, word: str) -> Alike:
        """Give the words most related to one that the catalog has, and how closely."""
        if word not in self._related:
            self._related[word] = _best(self._related_to(word))
        return self._related[word]

    def meant_by(self, word: str) -> Alike:
        """Give the words most related to one that the catalog has not, and those it may be a slip for."""
        found = dict(self._related_to(word))
        for at in self._near(word)[0]:
            other = self._words[at]
            if other[0] == word[0] and len(other) >= SHORTEST and abs(len(other) - len(word)) <= A_SLIP:
                likeness = SequenceMatcher(None, word, other, autojunk=False).ratio()
                if likeness >= SLIPPED:
                    found[other] = max(found.get(other, 0.0), SLIP_COUNTS * likeness)
        return _best(found.items())

    def _related_to(self, word: str) -> Iterable[tuple[str, float]]:
        mine = _trigrams(word)
        near, untold = self._near(word)
        for at, shared in near.items():
            most = 2 * (shared + untold) / (len(mine) + self._sizes[at])
            if most >= RELATED:  # most are not, and need not be cut again
                theirs = _trigrams(self._words[at])
                likeness = 2 * len(mine & theirs) / (len(mine) + len(theirs))
                if likeness >= RELATED:
                    yield self._words[at], likeness

    def _near(self, word: str) -> tuple[dict[int, int], int]:
        """Find the places of words that share most trigrams with this one, how many each, and how many tell nothing."""
        shared: Counter[int] = Counter()
        untold = 0
        for trigram in _trigrams(word) if len(word) >= SHORTEST else ():
            places = self._having.get(trigram, ())
            if len(places) <= TELLING:
                shared.update(places)
            else:
                untold += 1
        words = self._words
        near = [at for at, count in shared.items() if count > 1 and words[at] != word]  # most share one, by chance
        if len(near) > COMPARED:
            near.sort(key=lambda at: (-shared[at] / (len(word) + len(words[at])), words[at]))
        return {at: shared[at] for at in near[:COMPARED]}, untold


def _best(found: Iterable[tuple[str, float]]) -> Alike:
    return tuple(sorted(found, key=lambda each: (-each[1], each[0]))[:MAX_ALIKE])


def _trigrams(word: str) -> frozenset[str]:
    """Cut a word into overlapping threes; a number is never a slip of the pen, and has none."""
    if not word.isalpha():
        return frozenset()
    edged = f"^{word}$"
    return frozenset(edged[at : at + 3] for at in range(max(1, len(edged) - 2)))
