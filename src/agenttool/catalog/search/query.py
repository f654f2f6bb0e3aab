"""What a query asks for: its telling words by sentences, and the words of the catalog that answer them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from agenttool.catalog.search.forms import forms_of
from agenttool.catalog.search.kinds import kinds_of
from agenttool.catalog.search.request_words import FAINT_WORDS, REQUEST_WORDS
from agenttool.catalog.search.sentences import sentences_of
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.spellings import Alike
from agenttool.catalog.search.synonyms import TELLING, asks, deed_of, same_as
from agenttool.catalog.search.words import Said, said_words, stem

MAX_WORDS = 100
"""How many words of a query count; a whole page asks for nothing in particular."""

TALKATIVE = 16
"""A query of more words says it in several ways by itself; then relatives of its words count no more."""

TELLS, MAX_SENTENCES = 2, 8
"""A sentence with so many telling words has a meaning worth comparing, and so many sentences are compared."""

FAINTLY = 0.3
"""How much a faint word counts, and a number: it is what a tool is given, and seldom what a tool is."""

WHISPERED = 0.1
"""How much a word of asking counts; it decides between tools that are alike in all else."""

RELATIVES_COUNT, SYNONYMS_COUNT = 0.4, 0.4
"""How much a related word counts beside the word itself, and one that means much the same."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A word of the catalog that answers an asked one, and how well, from 0 to 1."""

    word: str
    sign: str
    likeness: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of a query: how it was written and where, how loud, how much it tells, and what answers it."""

    said: str
    sentences: tuple[int, ...]
    loudness: float
    weight: float
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked.

    Attributes:
        asked: the words that tell something.
        whispered: the words of asking.
        deeds: for each sentence, the deeds that it names.
    """

    asked: tuple[Asked, ...]
    whispered: tuple[Asked, ...]
    deeds: tuple[frozenset[int], ...]

    @property
    def longest(self) -> int:
        """How many telling words the longest sentence has."""
        return max(Counter(at for each in self.asked for at in each.sentences).values(), default=0)


def read_query(query: str, shelf: Shelf) -> Query:
    """Read a query against the words that there are; words of asking are whispered, unless no other is answered."""
    said = said_words(query)
    telling = _once(each for each in said if each.spelling not in REQUEST_WORDS)
    reader = _Reader(shelf, said, alone=len(telling) > TALKATIVE)
    asked = tuple(map(reader.asked, telling))
    if any(each.answers for each in asked):
        heard = {each.word for each in telling}
        whispered = tuple(reader.whispered(each) for each in _once(said) if each.word not in heard)
    else:
        asked, whispered = tuple(map(reader.asked, _once(said))), ()
    return Query(asked, whispered, _deeds(said))


def telling_sentences(query: str) -> list[str]:
    """Give the sentences that have something to say, or the whole query: in a letter, one sentence is the wish."""
    found = [each for each in sentences_of(query) if sum(map(_tells, said_words(each))) >= TELLS]
    return found[:MAX_SENTENCES] or [query]


def _tells(said: Said) -> bool:
    return said.spelling not in REQUEST_WORDS and said.spelling not in FAINT_WORDS


def _once(said: Iterable[Said]) -> list[Said]:
    """Take each word as it was said first: a repeated one counts once."""
    first: dict[str, Said] = {}
    for each in said:
        first.setdefault(each.word, each)
    return list(first.values())[:MAX_WORDS]


def _deeds(said: Sequence[Said]) -> tuple[frozenset[int], ...]:
    """Tell the deeds of each sentence; a question asks to be told something."""
    found = [set[int]() for _ in range(said[-1].sentence + 1 if said else 0)]
    last = -1
    for each in said:
        deed = deed_of(each.word)
        if deed is not None:
            found[each.sentence].add(deed)
        if each.sentence != last and asks(each.spelling):
            found[each.sentence].add(TELLING)
        last = each.sentence
    return tuple(map(frozenset, found))


class _Reader:
    """Finds what answers the words of one query."""

    def __init__(self, shelf: Shelf, said: Sequence[Said], *, alone: bool) -> None:
        self._shelf = shelf
        self._alone = alone
        self._sentences: dict[str, dict[int, None]] = {}
        for each in said:
            self._sentences.setdefault(each.word, {})[each.sentence] = None
        self._joined: dict[str, list[str]] = {}
        for one, other in pairwise(said):
            if shelf.alphabet.sign(whole := stem(one.spelling + other.spelling)) and len(one.word) > 1 < len(
                other.word
            ):
                for each in (one, other):
                    self._joined.setdefault(each.word, []).append(whole)

    def asked(self, said: Said) -> Asked:
        """Read a telling word."""
        answers, having = self._answers(said.word)
        loudness = FAINTLY if said.spelling in FAINT_WORDS or said.spelling.isdigit() else 1.0
        return self._told(said, loudness, answers, having)

    def whispered(self, said: Said) -> Asked:
        """Read a word of asking: nothing but itself answers it."""
        answers = self._present([(said.word, 1.0)])
        return self._told(said, WHISPERED, answers, self._shelf.having(answers[0].sign) if answers else 0)

    def _told(self, said: Said, loudness: float, answers: list[Answer], having: int) -> Asked:
        weight = loudness * self._shelf.rarity(having)
        return Asked(said.spelling, tuple(self._sentences[said.word]), loudness, weight, tuple(answers))

    def _answers(self, word: str) -> tuple[list[Answer], int]:
        """Find what answers a word, the likest first, and how many tools have it; else what may be meant instead."""
        shelf = self._shelf
        joined = [(each, 1.0) for each in self._joined.get(word, ())]
        synonyms = [(each, SYNONYMS_COUNT) for each in forms_of(word) + same_as(word) + kinds_of(word)]
        itself = self._present([(word, 1.0)])
        if not itself:
            found = self._present(joined) or self._present(synonyms) or self._present(shelf.spellings.meant_by(word))
            return found, max((shelf.having(each.sign) for each in found), default=0)
        having = shelf.having(itself[0].sign)
        related = [(each, RELATIVES_COUNT * like) for each, like in self._relatives(word)]
        others = [self._no_rarer(each, having) for each in self._present(related + synonyms)]
        return [*itself, *self._present(joined), *sorted(others, key=attrgetter("likeness"), reverse=True)], having

    def _relatives(self, word: str) -> Alike:
        return () if self._alone else self._shelf.spellings.relatives(word)

    def _no_rarer(self, answer: Answer, having: int) -> Answer:
        """Let a common word that answers for a rare one count as what it is."""
        rarity = self._shelf.rarity
        share = min(1.0, rarity(self._shelf.having(answer.sign)) / rarity(having))
        return Answer(answer.word, answer.sign, answer.likeness * share)

    def _present(self, words: Iterable[tuple[str, float]]) -> list[Answer]:
        """Leave out words that no tool has, or has any more."""
        shelf = self._shelf
        signs = ((word, shelf.alphabet.sign(word), likeness) for word, likeness in words)
        return [Answer(word, sign, likeness) for word, sign, likeness in signs if sign and shelf.having(sign)]
