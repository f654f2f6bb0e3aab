"""Parse the bytes of one document, and explain what is wrong with it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple, cast

from agenttool.codec import is_too_deep, lower_first, sorted_json
from agenttool.conformance.validate.finding import RecordFlaw, flaw
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of

Steps = tuple[str | int, ...]

MAX_DEPTH = 200
"""Deeper documents are rejected, so that no later check overflows the stack."""


def walk(root: Json) -> Iterator[tuple[Steps, Json, Json]]:
    """Yield the path, the parent and the value of everything below the root, in document order, without recursion."""
    stack = _children((), root)
    while stack:
        steps, parent, value = stack.pop()
        yield steps, parent, value
        stack.extend(_children(steps, value))


def _children(steps: Steps, parent: Json) -> list[tuple[Steps, Json, Json]]:
    """Return the members or items of a value, last first."""
    members = parent.items() if isinstance(parent, dict) else enumerate(parent) if isinstance(parent, list) else ()
    return [((*steps, step), parent, value) for step, value in members][::-1]


class Parsed(NamedTuple):
    """A document that could be parsed, perhaps with flaws.

    Attributes:
        value: its value; numbers that JSON cannot hold are replaced by the nearest.
        content: a hash of the value, independent of its spelling.
        is_exact: whether nothing was replaced.
    """

    value: Json
    content: int
    is_exact: bool
    flaws: tuple[RecordFlaw, ...]


_BLANK = " \t\r\n"
_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
_LONGEST = len(str(_HIGHEST))
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def parse(data: bytes) -> Parsed | RecordFlaw:
    """Parse one document, or return why it cannot be parsed. Never raises, whatever the bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return flaw("not_utf8", lines_down=data.count(b"\n", 0, error.start), byte=error.start + 1)
    parser = _DocumentParser()
    try:
        value, end = parser.decoder.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except json.JSONDecodeError as error:
        return _broken(text, error.pos, lower_first(error.msg))
    except RecursionError:
        return _too_deep()
    rest = text[end:].strip(_BLANK)
    if rest or is_too_deep(value, MAX_DEPTH):
        return _broken(text, end, "there is more after its end") if rest else _too_deep()
    value = parser.mended(value) if parser.has_odd or "\\u" in text else value
    return Parsed(value, hash(sorted_json(value)), not parser.flaws, tuple(parser.flaws))


def _too_deep() -> RecordFlaw:
    return flaw("too_deep", depth=MAX_DEPTH)


def _broken(text: str, at: int, reason: str) -> RecordFlaw:
    """Return the flaw of a document that is not JSON; one that was cut off gets its own message."""
    if not text[at:].strip(_BLANK) or reason.startswith("unterminated string"):
        return flaw("cut_off", lines_down=text.count("\n"), size=len(text.encode()))
    column = at - text.rfind("\n", 0, at)
    return flaw("not_json", lines_down=text.count("\n", 0, at), reason=reason, column=column)


class _Odd(NamedTuple):
    """A number that JSON cannot hold: the name of its flaw, and the value to use instead."""

    flaw: str
    instead: float


class _DocumentParser:
    """Decodes one document and collects the flaws of what is not plain JSON in it."""

    def __init__(self) -> None:
        self.has_odd = False
        self.flaws: list[RecordFlaw] = []
        self._repeated: dict[int, tuple[JsonObject, list[str]]] = {}  # by identity: the decoder reports no places
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object_of,
            parse_int=cast("type[int]", self._integer_of),
            parse_float=cast("type[float]", self._float_of),
            parse_constant=lambda _: self._odd("not_finite", 0.0),
        )

    def _object_of(self, members: list[tuple[str, Json]]) -> JsonObject:
        made = dict(members)
        if len(made) < len(members):
            self.has_odd = True
            counts = Counter(name for name, _ in members)
            self._repeated[id(made)] = made, [name for name, count in counts.items() if count > 1]
        return made

    def _integer_of(self, digits: str) -> int | _Odd:
        number = int(digits) if len(digits) <= _LONGEST else None
        if number is not None and _LOWEST <= number <= _HIGHEST:
            return number
        return self._odd("wide_integer", _LOWEST if digits.startswith("-") else _HIGHEST)

    def _float_of(self, digits: str) -> float | _Odd:
        number = float(digits)
        return number if isfinite(number) else self._odd("huge_number", 0.0)

    def _odd(self, flaw_name: str, instead: float) -> _Odd:
        self.has_odd = True
        return _Odd(flaw_name, instead)

    def mended(self, value: Json | _Odd, steps: Steps = ()) -> Json:
        """Return the value as plain JSON; add a flaw for everything that is replaced."""
        if isinstance(value, _Odd):
            self._add_flaw(value.flaw, steps)
            return value.instead
        if isinstance(value, list):
            return [self.mended(each, (*steps, index)) for index, each in enumerate(value)]
        if isinstance(value, dict):
            _, repeated = self._repeated.get(id(value), (None, ()))
            for name in repeated:
                self._add_flaw("repeated_name", (*steps, name))
            return {
                self._whole(name, (*steps, name)): self.mended(each, (*steps, name)) for name, each in value.items()
            }
        return self._whole(value, steps) if isinstance(value, str) else value

    def _whole(self, text: str, steps: Steps) -> str:
        if _HALF_PAIR.search(text):
            self._add_flaw("half_surrogate", steps)
        return _without_halves(text)

    def _add_flaw(self, flaw_name: str, steps: Steps) -> None:
        self.flaws.append(flaw(flaw_name, _without_halves(pointer_of(steps))))


def _without_halves(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)
