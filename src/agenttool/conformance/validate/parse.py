"""Parse the bytes of one document, and explain what is wrong with it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple, cast

from msgspec.structs import replace

from agenttool.codec import is_too_deep, sorted_json
from agenttool.conformance.validate.finding import Layer, RecordFlaw, Severity
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of

Steps = tuple[str | int, ...]

MAX_DEPTH = 200
"""Deeper documents are rejected, so that no later check overflows the stack."""


def walk(root: Json) -> Iterator[tuple[Steps, list[Json] | JsonObject, Json]]:
    """Yield the path, the parent and the value of everything below the root, in document order, without recursion.

    The caller may replace the value in its parent, but not add or remove members.
    """
    open_ones: list[tuple[Steps, list[Json] | JsonObject, Iterator[tuple[str | int, Json]]]] = []
    if isinstance(root, list | dict):
        open_ones.append(((), root, _children(root)))
    while open_ones:
        before, parent, children = open_ones[-1]
        for step, value in children:
            steps = (*before, step)
            yield steps, parent, value
            if isinstance(value, list | dict):
                open_ones.append((steps, value, _children(value)))
                break
        else:
            open_ones.pop()


def _children(value: list[Json] | JsonObject) -> Iterator[tuple[str | int, Json]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)


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
        return _reading(
            f"byte {error.start + 1} of the document is not UTF-8",
            "UTF-8",
            "re-encode it, and carry binary content as base64 or by ref",
            lines_down=data.count(b"\n", 0, error.start),
        )
    parser = _DocumentParser()
    try:
        value, end = parser.decoder.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except json.JSONDecodeError as error:
        return _broken(text, error.pos, error.msg[:1].lower() + error.msg[1:])
    except RecursionError:
        return TOO_DEEP
    rest = text[end:].strip(_BLANK)
    if rest or is_too_deep(value, MAX_DEPTH):
        return _broken(text, end, "there is more after its end") if rest else TOO_DEEP
    value, flaws = parser.mended(value) if parser.has_odd or "\\u" in text else (value, ())
    return Parsed(value, hash(sorted_json(value)), not flaws, flaws)


def _reading(message: str, expected: str, advice: str, *, lines_down: int = 0) -> RecordFlaw:
    return RecordFlaw(message=message, expected=expected, advice=advice, layer=Layer.READING, lines_down=lines_down)


def _broken(text: str, at: int, reason: str) -> RecordFlaw:
    """Return the flaw of a document that is not JSON; one that was cut off gets its own message."""
    is_cut = not text[at:].strip(_BLANK) or reason.startswith("unterminated string")
    if is_cut:
        return _reading(
            f"the document ends after {len(text.encode())} bytes, before it is complete",
            "a complete document",
            "write it again: it was cut off",
            lines_down=text.count("\n"),
        )
    column = at - text.rfind("\n", 0, at)
    return _reading(
        f"the document is not JSON: {reason}, at column {column}",
        "JSON (RFC 8259)",
        "correct what writes it",
        lines_down=text.count("\n", 0, at),
    )


TOO_DEEP = _reading("the document is nested too deeply to be a record", f"at most {MAX_DEPTH} levels", "flatten it")


class _Odd(NamedTuple):
    """A number that JSON cannot hold: its flaw, and the value to use instead."""

    flaw: RecordFlaw
    instead: float


_WIDE = RecordFlaw(
    message="the integer needs more than 64 bits",
    expected="an integer of at most 64 bits",
    advice="write it as a string: other readers lose its last digits",
    severity=Severity.WARNING,
    layer=Layer.READING,
)
_HUGE = _reading("the number is beyond what a double can hold", "a finite number", "write it as a string")
_NOT_FINITE = _reading("NaN and Infinity are no JSON", "a finite number or null", "leave the member out")
_HALF = _reading("the text holds half of a surrogate pair", "text in Unicode", "pair or remove the half")
_TWICE = _reading(
    "the name is used twice in one object; readers disagree on which value counts", "one member of a name", "keep one"
)


class _DocumentParser:
    """Decodes one document and notes what is not plain JSON in it."""

    def __init__(self) -> None:
        self.has_odd = False
        self._repeated: dict[int, tuple[JsonObject, list[str]]] = {}  # by identity: the decoder reports no places
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object_of,
            parse_int=cast("type[int]", self._integer_of),
            parse_float=cast("type[float]", self._float_of),
            parse_constant=lambda _: self._odd(_NOT_FINITE, 0.0),
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
        return self._odd(_WIDE, _LOWEST if digits.startswith("-") else _HIGHEST)

    def _float_of(self, digits: str) -> float | _Odd:
        number = float(digits)
        return number if isfinite(number) else self._odd(_HUGE, 0.0)

    def _odd(self, flaw: RecordFlaw, instead: float) -> _Odd:
        self.has_odd = True
        return _Odd(flaw, instead)

    def mended(self, value: Json) -> tuple[Json, tuple[RecordFlaw, ...]]:
        """Replace what is not plain JSON, and return a flaw for each replacement."""
        holder: list[Json] = [value]
        flaws: list[tuple[RecordFlaw, Steps]] = []
        renamed: list[tuple[JsonObject, str]] = []
        for steps, parent, found in walk(holder):
            thing, mended = cast("Json | _Odd", found), found
            if isinstance(thing, _Odd):
                mended = thing.instead
                flaws.append((thing.flaw, steps))
            elif isinstance(thing, str) and _HALF_PAIR.search(thing):
                mended = _whole(thing)
                flaws.append((_HALF, steps))
            elif id(thing) in self._repeated:
                flaws.extend((_TWICE, (*steps, name)) for name in self._repeated[id(thing)][1])
            step = steps[-1]
            if isinstance(parent, dict) and isinstance(step, str):
                parent[step] = mended
                if _HALF_PAIR.search(step):
                    renamed.append((parent, step))
                    flaws.append((_HALF, steps))
            elif isinstance(parent, list) and isinstance(step, int):
                parent[step] = mended
        for parent, name in renamed:
            parent[_whole(name)] = parent.pop(name)
        placed = tuple(replace(flaw, pointer=_whole(pointer_of(steps[1:]))) for flaw, steps in flaws)
        return holder[0], placed


def _whole(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)
