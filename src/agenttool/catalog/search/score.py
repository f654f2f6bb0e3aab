"""How well a tool answers a query, between 0 and 1, and the reason in words."""

from dataclasses import dataclass
from dataclasses import field as made_by
from math import hypot

from agenttool.catalog.search.document import WEIGHTS, Document, Field
from agenttool.catalog.search.query import Answer, Asked, Query
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.words import BETWEEN

SATURATION, SLOWER, LONG = 0.7, 1.5, 30
"""How slowly a word gains by standing in better places or more often; being there at all is most of it.

In a long sentence it is less: of many words, any tool has some. How much less, and of how many words that is all.
"""

LENGTH_MATTERS = 0.6
AGAIN, MAX_TIMES = 0.5, 2.0
"""What a word gains by standing in a field once more, and the most that it counts; stuffing does not pay."""

NAME_SHARE = 0.05
"""How much of a score is earned by naming the tool, rather than by sharing words with it."""

MAY_DO, DOES_OTHERWISE = 0.9, 0.8
"""What is left of a score if a tool does not tell by its name what it does, and if it does something else."""

_FIELDS = tuple(Field)
_NAME, _LEAD = int(Field.NAME), int(Field.DESCRIPTION)
_SHORT, _TEXT_SHARE = 1 - LENGTH_MATTERS, 1 - NAME_SHARE
_Words = list[tuple[float, list[tuple[str, float]]]]
"""How much a word tells, and the signs that answer it, each with how well."""

_Places = list[tuple[str, float]]
"""Fields of a tool, and how much a word tells that stands there."""


_SAYS: dict[int, str] = {
    Field.NAME: "its name",
    Field.ALIAS: "an alias",
    Field.HINT: "its hint",
    Field.DESCRIPTION: "its description",
    Field.PARAMETER: "a parameter",
    Field.ABOUT_PARAMETER: "a parameter's description",
    Field.NAMESPACE: "its namespace",
}
_SAID_IN: dict[int, int] = {Field.DETAILS: Field.DESCRIPTION}
"""Fields that are one to a person."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """One sentence of a query: the deeds that it names, its words, and those of asking."""

    deeds: frozenset[int]
    words: _Words = made_by(default_factory=list)
    whispers: list[tuple[float, str]] = made_by(default_factory=list)


class Scorer:
    """Scores tools for one query.

    Each sentence has an opinion of its own, and they are joined as the sides of a right angle are: a tool that answers
    one sentence is worth more than one that shares a word with each.
    """

    def __init__(self, query: Query, shelf: Shelf) -> None:
        """Take the query and the words it is weighed by."""
        self._asked = [each for each in query.asked if each.answers]
        self._wishes = [_Wish(deeds) for deeds in query.deeds]
        for each in self._asked:
            word = each.weight, [(answer.sign, answer.likeness) for answer in each.answers]
            for sentence in each.sentences:
                self._wishes[sentence].words.append(word)
        for each in query.whispered:
            for sentence in each.sentences if each.answers else ():
                self._wishes[sentence].whispers.append((each.weight, each.answers[0].sign))
        self._does = shelf.deeds
        self._accords: dict[tuple[int | None, int | None], list[float]] = {}
        self._slopes = [LENGTH_MATTERS / shelf.usual_length(field) for field in _FIELDS]
        self._saturation = SATURATION + SLOWER * min(1.0, query.longest / LONG)
        whole = [0.0] * len(query.deeds)
        for each in query.asked + query.whispered:
            for sentence in each.sentences:
                whole[sentence] += each.weight
        self._whole = hypot(*whole) or 1.0

    def opinions(self, document: Document) -> list[float]:
        """Score one tool for each sentence: rare words in telling fields, the more so in its name, and its deed."""
        fields = document.split(BETWEEN)
        places: _Places = []
        for field, weight, slope in zip(fields, WEIGHTS, self._slopes):  # noqa: B905 -- of fifty tools a query, it shows
            if field:
                places.append((field, weight / (_SHORT + slope * len(field))))
        name, lead = fields[_NAME], fields[_LEAD]
        accord = self._accord(name)
        worth: list[float] = []
        is_meant = False
        for at, wish in enumerate(self._wishes):
            text, named = self._match(wish.words, document, places, name)
            if text:
                is_meant = True
            for weight, sign in wish.whispers:
                if sign in name or sign in lead:
                    text += weight
            worth.append((_TEXT_SHARE * text + NAME_SHARE * named) * accord[at])
        return worth if is_meant else [0.0] * len(worth)

    def _accord(self, name: str) -> list[float]:
        """Weigh for each sentence whether a tool does what is wanted: its name begins or ends with what it does."""
        ends = self._does.get(name[:1]), self._does.get(name[-1:])
        accord = self._accords.get(ends)
        if accord is None:
            does = {each for each in ends if each is not None}
            otherwise = DOES_OTHERWISE if does else MAY_DO
            accord = self._accords[ends] = [
                (otherwise if wish.deeds and does.isdisjoint(wish.deeds) else 1.0) / self._whole
                for wish in self._wishes
            ]
        return accord

    def _match(self, words: _Words, document: Document, places: _Places, name: str) -> tuple[float, float]:
        """Tell how well a tool answers the words of a sentence, and how well its name does, by the share that is said.

        It matters where a word stands; in a long field it tells less, and twice in a field is hardly more than once.
        """
        text = named = 0.0
        mentioned, saturation = 0, self._saturation
        for weight, answers in words:
            best = in_name = 0.0
            for sign, likeness in answers:
                if likeness <= best:
                    break  # they come by likeness
                if sign in document:
                    amount = 0.0
                    for field, tells in places:
                        if sign in field:
                            often = field.count(sign)
                            amount += tells if often == 1 else tells * min(MAX_TIMES, 1 + AGAIN * (often - 1))
                    answered = likeness * amount / (saturation + amount)
                    if answered > best:  # noqa: PLR1730 -- a call would take as long as the rest
                        best = answered
                    if likeness > in_name and sign in name:
                        in_name = likeness
            text += weight * best
            if in_name:
                named += weight * in_name
                mentioned += 1
        words_in_name = len(set(name)) if mentioned else 0
        return text, named * mentioned / words_in_name if mentioned < words_in_name else named

    def reason(self, document: Document) -> str:
        """Say which words were found, each once, where it tells most."""
        told: dict[int, dict[str, None]] = {}
        for each in self._asked:
            for answer in each.answers:
                if answer.sign in document:
                    field = document.count(BETWEEN, 0, document.index(answer.sign))
                    told.setdefault(_SAID_IN.get(field, field), {})[_told(each, answer)] = None
                    break
        return "; ".join(f"{_SAYS[field]} says {', '.join(told[field])}" for field in sorted(told))


def _told(asked: Asked, answer: Answer) -> str:
    return asked.said if answer.likeness == 1.0 else f"{answer.word} (for {asked.said})"
