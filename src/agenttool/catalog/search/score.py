"""How well a tool answers a query, between 0 and 1, and the reason in words."""

from dataclasses import dataclass

from agenttool.catalog.search.document import WEIGHTS, Document, Field
from agenttool.catalog.search.vocabulary import Vocabulary
from agenttool.catalog.search.words import asked_words

SATURATION = 1.2
LENGTH_MATTERS = 0.5
NAME_SHARE = 0.3
"""How much of a score is earned by naming the tool, rather than by sharing words with it."""

MAX_WORDS = 32
"""How many words of a query count; a whole page asks for nothing in particular."""

_SAYS = {
    Field.NAME: "its name",
    Field.ALIAS: "an alias",
    Field.HINT: "its hint",
    Field.DESCRIPTION: "its description",
    Field.PARAMETER: "a parameter",
    Field.NAMESPACE: "its namespace",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of a query: how it was written, how much it tells, and the words of the catalog that answer it."""

    said: str
    rarity: float
    answers: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """A score and what it rests on."""

    score: float
    reason: str


def read_query(query: str, vocabulary: Vocabulary) -> tuple[Asked, ...]:
    """Read a query against the words that there are; a word that nobody has may mean one that is written like it."""
    found: list[Asked] = []
    for word, said in list(asked_words(query).items())[:MAX_WORDS]:
        answers = [(word, 1.0)] if word in vocabulary else vocabulary.alike(word)
        rarity = max((vocabulary.rarity(answer) for answer, _ in answers), default=vocabulary.rarity(word))
        found.append(Asked(said, rarity, tuple(answers)))
    return tuple(found)


class Scorer:
    """Scores tools for one query."""

    def __init__(self, asked: tuple[Asked, ...], vocabulary: Vocabulary) -> None:
        """Take the query and the words it is weighed by."""
        self._asked = asked
        self._whole = sum(each.rarity for each in asked) or 1.0
        self._slopes = [LENGTH_MATTERS / vocabulary.usual_length(field) for field in Field]

    def score(self, document: Document) -> float:
        """Score one tool: rare words in telling fields, and the more so if they are most of its name."""
        fields, name = document.fields, document.name
        weights = [
            weight / (1 - LENGTH_MATTERS + slope * len(field))
            for weight, slope, field in zip(WEIGHTS, self._slopes, fields, strict=True)
        ]
        text = named = 0.0
        mentioned: set[str] = set()
        for each in self._asked:
            best = 0.0
            for word, likeness in each.answers:
                amount = _amount(word, fields, weights)
                if amount:
                    best = max(best, likeness * amount / (SATURATION + amount))
                    if word in name:
                        mentioned.add(word)
                        named += each.rarity * likeness
            text += each.rarity * best
        share = len(mentioned) / len(set(name)) if mentioned else 0.0
        naming = share * min(1.0, named / self._whole)
        return (1 - NAME_SHARE) * text / self._whole + NAME_SHARE * naming

    def reason(self, document: Document) -> str:
        """Say in which fields which words were found."""
        told: list[str] = []
        for field in Field:
            here = [
                _told(each, word) for each in self._asked for word, _ in each.answers if word in document.fields[field]
            ]
            if here:
                told.append(f"{_SAYS[field]} says {', '.join(dict.fromkeys(here))}")
        return "; ".join(told)


def _amount(word: str, fields: tuple[tuple[str, ...], ...], weights: list[float]) -> float:
    """Weigh how often a word stands where; a word in a long field tells less."""
    amount = 0.0
    for at, field in enumerate(fields):
        if word in field:
            amount += weights[at] * field.count(word)
    return amount


def _told(asked: Asked, word: str) -> str:
    return asked.said if len(asked.answers) == 1 and asked.answers[0][1] == 1.0 else f"{word} (for {asked.said})"
