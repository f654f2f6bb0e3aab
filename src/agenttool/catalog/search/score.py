"""How well a tool answers a query, between 0 and 1, and the reason in words."""

from math import hypot
from operator import mul

from agenttool.catalog.search.document import WEIGHTS, Document, Field
from agenttool.catalog.search.query import Answer, Asked, Query
from agenttool.catalog.search.shelf import Shelf
from agenttool.catalog.search.synonyms import deed_of
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
_SHORT = 1 - LENGTH_MATTERS
_Answers = list[tuple[str, float]]
"""Signs that answer a word, and how well."""

_Places = list[tuple[str, float]]
"""Fields of a tool, and how much a word tells that stands there."""


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
        self._accords: dict[str, list[float]] = {}
        self._alphabet = shelf.alphabet
        self._nothing = [0.0] * len(query.deeds)
        self._slopes = [LENGTH_MATTERS / shelf.usual_length(field) for field in _FIELDS]
        self._saturation = SATURATION + SLOWER * min(1.0, query.longest / LONG)
        whole = self._nothing.copy()
        for each in query.asked + query.whispered:
            for sentence in each.sentences:
                whole[sentence] += each.weight
        self._whole = hypot(*whole) or 1.0

    def opinions(self, document: Document) -> list[float]:
        """Score one tool for each sentence: rare words in telling fields, the more so in its name, and its deed."""
        fields = document.split(BETWEEN)
        told = zip(fields, WEIGHTS, self._slopes, strict=True)
        places = [(field, weight / (_SHORT + slope * len(field))) for field, weight, slope in told if field]
        name, match = fields[0], self._match
        texts, named = self._nothing.copy(), self._nothing.copy()
        mentioned: dict[int, int] = {}
        for weight, sentences, answers in self._words:
            best, in_name = match(answers, document, places, name)
            if best:
                for sentence in sentences:
                    texts[sentence] += weight * best
                    if in_name:
                        named[sentence] += weight * in_name
                        mentioned[sentence] = mentioned.get(sentence, 0) + 1
        if not any(texts):
            return texts
        lead = fields[Field.DESCRIPTION]
        for weight, sentences, sign in self._whispers:
            if sign in name or sign in lead:
                for sentence in sentences:
                    texts[sentence] += weight
        return self._weighed(texts, named, mentioned, name)

    def _weighed(self, texts: list[float], named: list[float], mentioned: dict[int, int], name: str) -> list[float]:
        """Make opinions of what the words of each sentence are worth: by the share of the name, and by the deed."""
        texts = [(1 - NAME_SHARE) * each for each in texts]
        if mentioned:
            words = len(set(name))
            for sentence, often in mentioned.items():
                texts[sentence] += NAME_SHARE * named[sentence] * (often / words if often < words else 1.0)
        ends = name[:1] + name[-1:]
        accord = self._accords.get(ends)
        if accord is None:
            accord = self._accords[ends] = self._accord(ends)
        return list(map(mul, texts, accord))

    def _accord(self, ends: str) -> list[float]:
        """Weigh for each sentence whether a tool does what is wanted: its name begins or ends with what it does."""
        words = self._alphabet
        does = {deed for end in ends if (deed := deed_of(words.word(end))) is not None}
        otherwise = DOES_OTHERWISE if does else MAY_DO
        return [(otherwise if wanted and does.isdisjoint(wanted) else 1.0) / self._whole for wanted in self._deeds]

    def _match(self, answers: _Answers, document: Document, places: _Places, name: str) -> tuple[float, float]:
        """Tell how well a tool answers a word, and how well its name does.

        It matters where a word stands; in a long field it tells less, and twice in a field is hardly more than once.
        """
        best = in_name = 0.0
        for sign, likeness in answers:
            if likeness <= best:
                break  # they come by likeness
            if sign in document:
                amount = 0.0
                for field, tells in places:
                    often = field.count(sign)
                    if often:
                        amount += tells if often == 1 else tells * min(MAX_TIMES, 1 + AGAIN * (often - 1))
                best = max(best, likeness * amount / (self._saturation + amount))
                if likeness > in_name and sign in name:
                    in_name = likeness
        return best, in_name

    def reason(self, document: Document) -> str:
        """Say which words were found, each once, where it tells most."""
        fields = document.split(BETWEEN)
        told: dict[Field, dict[str, None]] = {}
        for each in self._asked:
            answer = next((answer for answer in each.answers if answer.sign in document), None)
            if answer is not None:
                field = next(field for field in _FIELDS if answer.sign in fields[field])
                told.setdefault(_SAID_IN.get(field, field), {})[_told(each, answer)] = None
        return "; ".join(f"{_SAYS[field]} says {', '.join(told[field])}" for field in sorted(told))


def _told(asked: Asked, answer: Answer) -> str:
    return asked.said if answer.likeness == 1.0 else f"{answer.word} (for {asked.said})"
