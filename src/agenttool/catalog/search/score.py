"""How well a tool answers a query, between 0 and 1, and the reason in words."""

from agenttool.catalog.search.alphabet import BETWEEN
from agenttool.catalog.search.document import WEIGHTS, Document, Field
from agenttool.catalog.search.query import Answer, Asked
from agenttool.catalog.search.shelf import Shelf

SATURATION = 0.7
"""How slowly a word gains by standing in better places or more often; being there at all is most of it."""

LENGTH_MATTERS = 0.5
AGAIN, MAX_TIMES = 0.5, 2.0
"""What a word gains by standing in a field once more, and the most that it counts; stuffing does not pay."""

NAME_SHARE = 0.05
"""How much of a score is earned by naming the tool, rather than by sharing words with it."""

_SAYS = {
    Field.NAME: "its name",
    Field.ALIAS: "an alias",
    Field.HINT: "its hint",
    Field.DESCRIPTION: "its description",
    Field.DETAILS: "its description",
    Field.PARAMETER: "a parameter",
    Field.NAMESPACE: "its namespace",
}


class Scorer:
    """Scores tools for one query."""

    def __init__(self, asked: tuple[Asked, ...], shelf: Shelf) -> None:
        """Take the query and the words it is weighed by."""
        self._asked = [each for each in asked if each.answers]
        self._whole = sum(each.weight for each in asked) or 1.0
        self._slopes = [LENGTH_MATTERS / shelf.usual_length(field) for field in Field]

    def score(self, document: Document) -> float:
        """Score one tool: rare words in telling fields, and the more so if they are much of its name."""
        fields = document.split(BETWEEN)
        name = fields[Field.NAME]
        text = named = 0.0
        mentioned = 0
        for each in self._asked:
            best = likest = 0.0
            for answer in each.answers:
                sign = answer.sign
                if sign in document:
                    amount = self._amount(sign, fields)
                    best = max(best, answer.likeness * amount / (SATURATION + amount))
                    if sign in name:
                        likest = max(likest, answer.likeness)
            text += each.weight * best
            if likest:
                named += each.weight * likest
                mentioned += 1
        share = min(1.0, mentioned / len(set(name))) if mentioned else 0.0
        return ((1 - NAME_SHARE) * text + NAME_SHARE * share * named) / self._whole

    def _amount(self, sign: str, fields: list[str]) -> float:
        """Weigh where a word stands; in a long field it tells less, and twice in a field is hardly more than once."""
        amount = 0.0
        for at, field in enumerate(fields):
            if sign in field:
                often = min(MAX_TIMES, 1 + AGAIN * (field.count(sign) - 1))
                amount += WEIGHTS[at] * often / (1 - LENGTH_MATTERS + self._slopes[at] * len(field))
        return amount

    def reason(self, document: Document) -> str:
        """Say which words were found, each where it tells most."""
        told: dict[str, list[str]] = {}
        seen: set[str] = set()
        for field, signs in zip(Field, document.split(BETWEEN), strict=True):
            here = [_told(each, answer) for each in self._asked for answer in each.answers if answer.sign in signs]
            new = [word for word in dict.fromkeys(here) if word not in seen]
            if new:
                told.setdefault(_SAYS[field], []).extend(new)
                seen.update(new)
        return "; ".join(f"{where} says {', '.join(words)}" for where, words in told.items())


def _told(asked: Asked, answer: Answer) -> str:
    return asked.said if answer.likeness == 1.0 else f"{answer.word} (for {asked.said})"
