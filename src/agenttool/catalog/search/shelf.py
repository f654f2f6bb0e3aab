"""The documents of a catalog by number, and what is known of all of them: their words, how rare, and how many."""

from collections.abc import Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.alphabet import Alphabet
from agenttool.catalog.search.document import Document, Field, columns_of, documents_of
from agenttool.catalog.search.spellings import Spellings
from agenttool.catalog.search.synonyms import deeds
from agenttool.catalog.search.words import BETWEEN

if TYPE_CHECKING:
    from agenttool.catalog.search.candidates import Candidates

FEW = 500
"""So many documents are looked through one by one; of more there is a full-text index."""

GONE = 500
"""So many documents may go before their words are forgotten; of a large catalog, as many as it has."""

_NONE = Document("")


class Shelf:
    """Documents that come and go; one more or less costs only that one."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.alphabet = Alphabet()
        self.spellings = Spellings()
        self.deeds: dict[str, int] = {}
        self.candidates: Candidates | None = None
        self._documents: list[Document] = []
        self._count = 0
        self._gone = 0
        self._lengths = [0] * len(Field)
        self._having: dict[str, int] = {}

    @property
    def documents(self) -> Sequence[Document]:
        """All documents by number; those that are not there are empty."""
        return self._documents

    def has(self, number: int) -> bool:
        """Tell whether there is a document of this number."""
        return number < len(self._documents) and bool(self._documents[number])

    def put(self, entries: Mapping[int, Entry]) -> None:
        """Read tools by number, the more at once the less time for each; the numbers are free."""
        columns = columns_of([*entries.values()], self.alphabet)
        for field, column in enumerate(columns):
            self._lengths[field] += sum(map(len, column))
        self._documents += [_NONE] * (max(entries) + 1 - len(self._documents))
        self._count += len(entries)
        self._having.clear()
        new = dict(zip(entries, documents_of(columns), strict=True))
        for number, document in new.items():
            self._documents[number] = document
        if self.candidates is not None:
            self.candidates.add(new.items())
        elif self._count > FEW:
            self.candidates = self._full_text()

    def remove(self, number: int) -> None:
        """Forget a document, if it is there."""
        if self.has(number):
            document, self._documents[number] = self._documents[number], _NONE
            self._count -= 1
            self._gone += 1
            self._having.clear()
            for field, signs in enumerate(document.split(BETWEEN)):
                self._lengths[field] -= len(signs)
            if self.candidates is not None:
                self.candidates.remove(number)

    def _full_text(self) -> "Candidates":
        from agenttool.catalog.search.candidates import Candidates  # noqa: PLC0415 -- only large catalogs pay for it

        candidates = Candidates()
        candidates.add(each for each in enumerate(self._documents) if each[1])
        return candidates

    def settle(self) -> None:
        """Make words that are new known to those who look for a spelling, or for a deed."""
        if self._gone > max(GONE, self._count):
            self._forget_words()
        new = self.alphabet.news()
        if new:
            self.spellings.learn(self.alphabet.words, new)
            signs = ((self.alphabet.sign(word), deed) for word, deed in deeds().items())
            self.deeds = {sign: deed for sign, deed in signs if sign}

    def _forget_words(self) -> None:
        """Forget the words that no document has any more: by now, as many may have gone as there are."""
        self.alphabet.keep(frozenset[str]().union(*self._documents))
        self.spellings = Spellings()
        self._having.clear()
        self._gone = 0

    def having(self, sign: str) -> int:
        """Count the documents that have a word; of many, removed ones may count until their place is used again."""
        count = self._having.get(sign)
        if count is None:
            count = self._having[sign] = self._counted(sign)
        return count

    def _counted(self, sign: str) -> int:
        if self.candidates is not None:
            return min(self.candidates.having(sign), self._count)
        return sum(sign in document for document in self._documents)

    def rarity(self, having: int) -> float:
        """Weigh a word that so many documents have: the fewer, the more it tells."""
        return log(1 + (self._count - having + 0.5) / (having + 0.5))

    def usual_length(self, field: Field) -> float:
        """Give how many words a field has on average."""
        return max(1.0, self._lengths[field] / max(1, self._count))
