"""Parse the bytes of one document: quickly when all is well, with an explanation when it is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple, cast

import msgspec

from agenttool.codec import sorted_json
from agenttool.conformance.validate.finding import Layer, RecordFlaw, Severity
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of

Step = str | int


class JsonPath(NamedTuple):
    """A step below a parent path; parents are shared, so that a path costs one small object."""

    before: JsonPath | None
    step: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps from the root."""
        steps: list[Step] = []
        trail: JsonPath | None = self
        while trail:
            steps.append(trail.step)
            trail = trail.before
        return tuple(reversed(steps))

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer."""
        return pointer_of(self.steps)


class WalkStep(NamedTuple):
    """A value, its parent array or object, and its path."""

    trail: JsonPath
    parent: list[Json] | dict[str, Json]
    value: Json


def walk(root: Json) -> Iterator[WalkStep]:
    """Yield every value below the root, in document order, without recursion.

    The caller may replace the value in its parent, but not add or remove members.
    """
    open_ones: list[tuple[JsonPath | None, list[Json] | dict[str, Json], Iterator[tuple[Step, Json]]]] = []
    if isinstance(root, list | dict):
        open_ones.append((None, root, _children(root)))
    while open_ones:
        before, parent, children = open_ones[-1]
        for step, value in children:
            trail = JsonPath(before, step)
            yield WalkStep(trail, parent, value)
            if isinstance(value, list | dict):
                open_ones.append((trail, value, _children(value)))
                break
        else:
            open_ones.pop()


def _children(value: list[Json] | dict[str, Json]) -> Iterator[tuple[Step, Json]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)


MAX_DEPTH = 200
"""Deeper documents are rejected, so that no parser overflows the stack."""

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def is_too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Return whether arrays and objects are nested more than `limit` levels deep, without recursion.

    Exact up to the first error of a broken document, where a parser stops. Each round removes the innermost pairs.
    """
    if data.count(b"{") + data.count(b"[") <= limit:
        return False
    nest = _outside_strings(data).translate(_ONE_KIND, _OTHERS)
    if b"[" * (limit + 1) in nest:
        return True
    for _ in range(limit):
        peeled = nest.replace(b"[]", b"")
        if len(peeled) == len(nest):
            break
        nest = peeled
    return b"[]" in nest or nest.count(b"[") > limit


def _outside_strings(data: bytes) -> bytes:
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


_BLANK = " \t\r\n"
_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
_LONGEST = len(str(_HIGHEST))
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Diagnosis(NamedTuple):
    """The value of a document, whether nothing was replaced in it, and its flaws."""

    value: Json
    is_exact: bool
    flaws: tuple[RecordFlaw, ...]


def diagnose(data: bytes) -> Diagnosis | RecordFlaw:
    """Parse a document slowly and exactly, or return why it is not JSON. It must not be too deep."""
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


class _RepeatedNames:
    """The objects with a repeated member name, by identity: the parser reports no places."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[JsonObject, tuple[str, ...]]] = {}

    def object_of(self, members: list[tuple[str, Json]]) -> JsonObject:
        """Make an object; the last member of a name counts."""
        made = dict(members)
        if len(made) < len(members):
            seen: set[str] = set()
            twice = dict.fromkeys(name for name, _ in members if name in seen or seen.add(name))
            self._objects[id(made)] = made, tuple(twice)
        return made

    def of(self, value: Json) -> tuple[str, ...]:
        """Return the names that an object had more than once."""
        return self._objects.get(id(value), (value, ()))[1]


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
    """Replace what is not plain JSON, and return a flaw for each replacement."""
    holder: list[Json] = [value]
    flaws: list[RecordFlaw] = []
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


def _at(flaw: RecordFlaw, steps: tuple[str | int, ...]) -> RecordFlaw:
    return RecordFlaw(
        message=flaw.message,
        expected=flaw.expected,
        advice=flaw.advice,
        severity=flaw.severity,
        layer=flaw.layer,
        pointer=_whole(pointer_of(steps[1:])),
    )


def _whole(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)


_decode = msgspec.json.Decoder().decode
_NUMBERS = bytes.maketrans(b"123456789,[- \t\r\n", b"000000000:::::::")
_LONG_NUMBER = b":" + b"0" * 19
"""A separator and more digits than any 64-bit number has, in the alphabet of `_NUMBERS`."""

TOO_DEEP = RecordFlaw(
    message="the document is nested too deeply to be a record",
    expected=f"at most {MAX_DEPTH} levels",
    advice="flatten it",
    layer=Layer.READING,
)


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


def parse(data: bytes) -> Parsed | RecordFlaw:
    """Parse one document, or return why it cannot be parsed. Never raises, whatever the bytes."""
    if is_too_deep(data):
        return TOO_DEEP
    try:
        value = cast("Json", _decode(data))
        spelling = sorted_json(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _parse_slowly(data)
    if _may_hide_something(data, spelling):
        return _parse_slowly(data)
    return Parsed(value, hash(spelling), is_exact=True, flaws=())


def _may_hide_something(data: bytes, spelling: bytes) -> bool:
    """Return whether the fast parser may have dropped a member or accepted a huge integer.

    It uses the last of several members of one name. Each member has a colon, so the number of colons shows a dropped
    member, unless a colon is written as an escape.
    """
    return data.count(b":") != spelling.count(b":") or b"\\u003" in data or _LONG_NUMBER in data.translate(_NUMBERS)


def _parse_slowly(data: bytes) -> Parsed | RecordFlaw:
    diagnosis = diagnose(data)
    if isinstance(diagnosis, RecordFlaw):
        return diagnosis
    value, is_exact, flaws = diagnosis
    return Parsed(value, hash(sorted_json(value)), is_exact, flaws)
