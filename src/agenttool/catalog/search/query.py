"""What a query asks for: its telling words, and the words of the catalog that answer them."""

from collections.abc import Iterable
from dataclasses import dataclass

from agenttool.catalog.search.request_words import FAINT_WORDS
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.words import asked_words

MAX_WORDS = 100
"""How many words of a query count; a whole page asks for nothing in particular."""

TALKATIVE = 16
"""A query of more words says it in several ways by itself; then only its own words count."""

FAINTLY = 0.3
"""How much a faint word counts, and a number: it is what a tool is given, and seldom what a tool is."""

RELATIVES_COUNT = 0.4
"""How much a related word counts beside the word itself."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A word of the catalog that answers an asked one, and how well, from 0 to 1."""

    word: str
    sign: str
    likeness: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of a query: how it was written, how loud, how much it tells, and what answers it."""

    said: str
    loudness: float
    weight: float
    answers: tuple[Answer, ...]


def read_query(query: str, shelf: Shelf) -> tuple[Asked, ...]:
    """Read a query against the words that there are; a word that nobody has may mean one that is written like it."""
    words = list(asked_words(query).items())[:MAX_WORDS]
    return tuple(_asked(word, said, shelf, alone=len(words) > TALKATIVE) for word, said in words)


def _asked(word: str, said: str, shelf: Shelf, *, alone: bool) -> Asked:
    sign = shelf.alphabet.sign(word)
    having = shelf.having(sign) if sign else 0
    if sign and having:
        answers = [Answer(word, sign, 1.0)]
        if not alone:
            related = shelf.spellings.relatives(word)
            answers += _present([(other, RELATIVES_COUNT * likeness) for other, likeness in related], shelf)
    else:
        answers = _present(shelf.spellings.meant_by(word), shelf)
        having = shelf.having(answers[0].sign) if answers else 0
    loudness = FAINTLY if said in FAINT_WORDS or said.isdigit() else 1.0
    return Asked(said, loudness, loudness * shelf.rarity(having), tuple(answers))


def _present(words: Iterable[tuple[str, float]], shelf: Shelf) -> list[Answer]:
    """Leave out words that no tool has any more."""
    signs = ((word, shelf.alphabet.sign(word), likeness) for word, likeness in words)
    return [Answer(word, sign, likeness) for word, sign, likeness in signs if sign and shelf.having(sign)]
