"""How well a tool answers a query, between 0 and 1, and the reason in words."""

from math import hypot

from agenttool.catalog.search.alphabet import BETWEEN
from agenttool.catalog.search.document import WEIGHTS, Document, Field
from agenttool.catalog.search.query import Answer, Asked, Query
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.synonyms import deeds

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

_SHORT = 1 - LENGTH_MATTERS
_Answers = list[tuple[str, float]]

_SAYS = {
    Field.NAME: "its name",
    Field.ALIAS: "an alias",
    Field.HINT: "its hint",
    Field.DESCRIPTION: "its description",
    Field.PARAMETER: "a parameter",
    Field.ABOUT_PARAMETER: "a parameter's description",
    Field.NAMESPACE: "its namespace",
}
_SAID_IN = {Field.DETAILS: Field.DESCRIPTION}
"""Fields that are one to a person."""


class Scorer:
    """Scores tools for one query.

    Each sentence has an opinion of its own, and they are joined as the sides of a right angle are: a tool that answers
    one sentence is worth more than one that shares a word with each.
    """

    def __init__(self, query: Query, shelf: Shelf) -> None:
        """Take the query and the words it is weighed by."""
        self._asked = [each for each in query.asked if each.answers]
        self._words = [
            (each.weight, each.sentences, [(answer.sign, answer.likeness) for answer in each.answers])
            for each in self._asked
        ]
        self._whispers = [
            (each.weight, each.sentences, each.answers[0].sign) for each in query.whispered if each.answers
        ]
        self._deeds = query.deeds
        self._deed_of = _deeds_by_sign(shelf) if any(query.deeds) else None
        self._slopes = [LENGTH_MATTERS / shelf.usual_length(field) for field in Field]
        self._saturation = SATURATION + SLOWER * min(1.0, query.longest / LONG)
        whole = [0.0] * len(query.deeds)
        for each in query.asked + query.whispered:
            for sentence in each.sentences:
                whole[sentence] += each.weight
        self._whole = hypot(*whole) or 1.0

    def opinions(self, document: Document) -> list[float]:
        """Score one tool for each sentence: rare words in telling fields, the more so in its name, and its deed."""
        fields = document.split(BETWEEN)
        texts, named = [0.0] * len(self._deeds), [0.0] * len(self._deeds)
        mentioned = [0] * len(self._deeds)
        found = False
        for weight, sentences, answers in self._words:
            best, in_name = self._match(answers, document, fields)
            if best:
                found = True
                for sentence in sentences:
                    texts[sentence] += weight * best
                    if in_name:
                        named[sentence] += weight * in_name
                        mentioned[sentence] += 1
        if not found:
            return texts
        name, lead = fields[Field.NAME], fields[Field.DESCRIPTION]
        for weight, sentences, sign in self._whispers:
            if sign in name or sign in lead:
                for sentence in sentences:
                    texts[sentence] += weight
        words = len(set(name))
        for sentence, often in enumerate(mentioned):
            share = NAME_SHARE * min(1.0, often / words) if often else 0.0
            texts[sentence] = (1 - NAME_SHARE) * texts[sentence] + share * named[sentence]
        return self._weighed(texts, name)

    def _weighed(self, texts: list[float], name: str) -> list[float]:
        """Make opinions of what the words of each sentence are worth: of all that was asked, and by the deed."""
        whole = self._whole
        if self._deed_of is None:
            return [each / whole for each in texts]
        first, last = self._deed_of.get(name[:1]), self._deed_of.get(name[-1:])
        return [each * _accord(first, last, wanted) / whole for each, wanted in zip(texts, self._deeds, strict=True)]

    def _match(self, answers: _Answers, document: Document, fields: list[str]) -> tuple[float, float]:
        """Tell how well a tool answers a word, and how well its name does.

        It matters where a word stands; in a long field it tells less, and twice in a field is hardly more than once.
        """
        best = in_name = 0.0
        slopes, saturation = self._slopes, self._saturation
        for sign, likeness in answers:
            if likeness <= best:
                break  # they come by likeness
            if sign in document:
                amount = 0.0
                for field, weight, slope in zip(fields, WEIGHTS, slopes, strict=True):
                    if sign in field:
                        often = field.count(sign)
                        times = 1.0 if often == 1 else min(MAX_TIMES, 1 + AGAIN * (often - 1))
                        amount += weight * times / (_SHORT + slope * len(field))
                best = max(best, likeness * amount / (saturation + amount))
                if sign in fields[0] and likeness > in_name:
                    in_name = likeness
        return best, in_name

    def reason(self, document: Document) -> str:
        """Say which words were found, each once, where it tells most."""
        fields = document.split(BETWEEN)
        told: dict[Field, dict[str, None]] = {}
        for each in self._asked:
            answer = next((answer for answer in each.answers if answer.sign in document), None)
            if answer is not None:
                field = next(field for field in Field if answer.sign in fields[field])
                told.setdefault(_SAID_IN.get(field, field), {})[_told(each, answer)] = None
        return "; ".join(f"{_SAYS[field]} says {', '.join(told[field])}" for field in sorted(told))


def _deeds_by_sign(shelf: Shelf) -> dict[str, int]:
    signs = ((shelf.alphabet.sign(word), deed) for word, deed in deeds().items())
    return {sign: deed for sign, deed in signs if sign}


def _accord(first: int | None, last: int | None, wanted: frozenset[int]) -> float:
    """Weigh whether a tool does what is wanted: its name begins or ends with what it does."""
    if not wanted or first in wanted or last in wanted:
        return 1.0
    return MAY_DO if first is None and last is None else DOES_OTHERWISE


def _told(asked: Asked, answer: Answer) -> str:
    return asked.said if answer.likeness == 1.0 else f"{answer.word} (for {asked.said})"
