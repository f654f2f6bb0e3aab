"""The slow and talkative way to read a document, for those that the quick one refused or did not trust."""

import json
import re
from math import isfinite
from typing import NamedTuple, cast

from agenttool.conformance.validate.finding import Flaw, Layer, Severity
from agenttool.conformance.validate.trail import walk
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of

_BLANK = " \t\r\n"
_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
_LONGEST = len(str(_HIGHEST))
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Diagnosis(NamedTuple):
    """What a document says, whether anything had to be replaced in it, and what is wrong with it."""

    value: Json
    is_exact: bool
    flaws: tuple[Flaw, ...]


def diagnose(data: bytes) -> Diagnosis | Flaw:
    """Read a document that is not too deep, or say why that cannot be done."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _reading(
            f"byte {error.start + 1} of the document is not UTF-8",
            "UTF-8",
            "re-encode it, and carry binary content as base64 or by ref",
            lines_down=data.count(b"\n", 0, error.start),
        )
    names = _RepeatedNames()
    decoder = json.JSONDecoder(
        object_pairs_hook=names.object_of,
        parse_int=cast("type[int]", _integer_of),
        parse_float=cast("type[float]", _float_of),
        parse_constant=_constant_of,
    )
    try:
        value, end = decoder.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except json.JSONDecodeError as error:
        return _broken(text, error.pos, error.msg[:1].lower() + error.msg[1:])
    if text[end:].strip(_BLANK):
        return _broken(text, end, "there is more after its end")
    return _mend(cast("Json", value), names)


def _reading(message: str, expected: str, advice: str, *, lines_down: int = 0) -> Flaw:
    return Flaw(message=message, expected=expected, advice=advice, layer=Layer.READING, lines_down=lines_down)


def _broken(text: str, at: int, reason: str) -> Flaw:
    """Tell a document that was cut off from one that is wrong within."""
    is_cut = not text[at:].strip(_BLANK) or reason.startswith("unterminated string")
    if is_cut:
        return _reading(
            f"the document ends after {len(text.encode())} bytes, before it is complete",
            "a complete document",
            "write it anew: it was cut off",
            lines_down=text.count("\n"),
        )
    column = at - text.rfind("\n", 0, at)
    return _reading(
        f"the document is not JSON: {reason}, at column {column}",
        "JSON (RFC 8259)",
        "correct what writes it",
        lines_down=text.count("\n", 0, at),
    )


class _RepeatedNames:
    """The objects that have a name twice; the parser tells no places, so these are found again by identity."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[JsonObject, tuple[str, ...]]] = {}

    def object_of(self, members: list[tuple[str, Json]]) -> JsonObject:
        """Make an object, in which the last member of a name counts."""
        made = dict(members)
        if len(made) < len(members):
            seen: set[str] = set()
            twice = dict.fromkeys(name for name, _ in members if name in seen or seen.add(name))
            self._objects[id(made)] = made, tuple(twice)
        return made

    def of(self, value: Json) -> tuple[str, ...]:
        """Give the names that an object had more than once."""
        return self._objects.get(id(value), (value, ()))[1]


class _Odd(NamedTuple):
    """A number that JSON cannot hold, as it comes out of the parser: what is wrong, and what to take instead."""

    flaw: Flaw
    instead: float


_WIDE = Flaw(
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


def _integer_of(digits: str) -> int | _Odd:
    number = int(digits) if len(digits) <= _LONGEST else None
    if number is not None and _LOWEST <= number <= _HIGHEST:
        return number
    return _Odd(_WIDE, _LOWEST if digits.startswith("-") else _HIGHEST)


def _float_of(digits: str) -> float | _Odd:
    number = float(digits)
    return number if isfinite(number) else _Odd(_HUGE, 0.0)


def _constant_of(name: str) -> _Odd:
    return _Odd(_NOT_FINITE, 0.0)


def _mend(value: Json, names: _RepeatedNames) -> Diagnosis:
    """Put plain JSON where the parser left something else, and say so."""
    holder: list[Json] = [value]
    flaws: list[Flaw] = []
    renamed: list[tuple[JsonObject, str]] = []
    for trail, parent, found in walk(holder):
        step = trail.step
        thing = cast("Json | _Odd", found)
        mended: Json = found
        if isinstance(thing, _Odd):
            mended = thing.instead
            flaws.append(_at(thing.flaw, trail.steps))
        elif isinstance(thing, str) and _HALF_PAIR.search(thing):
            mended = _whole(thing)
            flaws.append(_at(_HALF, trail.steps))
        elif isinstance(thing, dict):
            flaws.extend(_at(_TWICE, (*trail.steps, name)) for name in names.of(thing))
        if isinstance(parent, dict) and isinstance(step, str):
            parent[step] = mended
            if _HALF_PAIR.search(step):
                renamed.append((parent, step))
                flaws.append(_at(_HALF, trail.steps))
        elif isinstance(parent, list) and isinstance(step, int):
            parent[step] = mended
    for parent, name in renamed:
        parent[_whole(name)] = parent.pop(name)
    is_exact = not flaws
    return Diagnosis(holder[0], is_exact, tuple(flaws))


def _at(flaw: Flaw, steps: tuple[str | int, ...]) -> Flaw:
    return Flaw(
        message=flaw.message,
        expected=flaw.expected,
        advice=flaw.advice,
        severity=flaw.severity,
        layer=flaw.layer,
        pointer=_whole(pointer_of(steps[1:])),
    )


def _whole(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)
