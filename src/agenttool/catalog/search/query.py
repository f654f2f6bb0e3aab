"""What a query asks for: its telling words, and the words of the catalog that answer them."""

from dataclasses import dataclass

from agenttool.catalog.search.request_words import FAINT_WORDS
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.words import asked_words

MAX_WORDS = 48
"""How many words of a query count; a whole page asks for nothing in particular."""

FAINTLY = 0.3
"""How much a faint word counts, and a number: it is what a tool is given, and seldom what a tool is."""

MAX_ALIKE = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A word of the catalog that answers an asked one, and how well, from 0 to 1."""

    word: str
    sign: str
    likeness: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of a query: how it was written, how much it tells, and what answers it."""

    said: str
    weight: float
    answers: tuple[Answer, ...]


def read_query(query: str, shelf: Shelf) -> tuple[Asked, ...]:
    """Read a query against the words that there are; a word that nobody has may mean one that is written like it."""
    return tuple(_asked(word, said, shelf) for word, said in list(asked_words(query).items())[:MAX_WORDS])


def _asked(word: str, said: str, shelf: Shelf) -> Asked:
    answers, having = [Answer(word, sign, 1.0)] if (sign := shelf.alphabet.sign(word)) else [], 0
    having = shelf.having(sign) if sign else 0
    if not having:
        answers = _alike(word, shelf)
        having = min((shelf.having(each.sign) for each in answers), default=0)
    weight = shelf.rarity(having)
    return Asked(said, FAINTLY * weight if said in FAINT_WORDS or said.isdigit() else weight, tuple(answers))


def _alike(word: str, shelf: Shelf) -> list[Answer]:
    found = [
        Answer(other, sign, likeness)
        for other, likeness in shelf.spellings.like(word)
        if (sign := shelf.alphabet.sign(other)) and shelf.having(sign)
    ]
    found.sort(key=lambda each: (-each.likeness, each.word))
    return found[:MAX_ALIKE]
