"""Parse the bytes of one document, and explain what is wrong with it."""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple, TypeVar, cast

from agenttool.codec import is_too_deep, lower_first, sorted_json
from agenttool.conformance.validate.finding import Finding, flaw
from agenttool.records import Json, JsonObject

Steps = tuple[str | int, ...]
_T = TypeVar("_T")

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
        value: its value; numbers and characters that JSON cannot hold are replaced.
        content: a hash of the value, independent of its spelling.
        flaws: one of each kind.
    """

    value: Json
    content: int
    flaws: tuple[Finding, ...]


_BLANK = " \t\r\n"
_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
_LONGEST = len(str(_HIGHEST))
_ESCAPE = re.compile(r"\\(?i:([^u]|ud[89ab]..\\ud[c-f]..)|ud[89a-f][0-9a-f]{2})", re.DOTALL)
"""An escape within a text; without a group, half of a surrogate pair."""


def parse(data: bytes) -> Parsed | Finding:
    """Parse one document, or return why it cannot be parsed. Never raises, whatever the bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return flaw("not_utf8", line=data.count(b"\n", 0, error.start), byte=error.start + 1)
    parser = _DocumentParser()
    text = _ESCAPE.sub(parser.escape, text) if "\\u" in text else text
    try:
        value, end = parser.decoder.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except json.JSONDecodeError as error:
        return _broken(text, error.pos, lower_first(error.msg))
    except RecursionError:
        return flaw("too_deep", depth=MAX_DEPTH)
    is_deep = is_too_deep(value, MAX_DEPTH)
    if is_deep or text[end:].strip(_BLANK):
        return flaw("too_deep", depth=MAX_DEPTH) if is_deep else _broken(text, end, "there is more after its end")
    return Parsed(value, hash(sorted_json(value)), tuple(map(flaw, parser.flaws)))


def _broken(text: str, at: int, reason: str) -> Finding:
    """Return the flaw of a document that is not JSON; one that was cut off gets its own message."""
    if not text[at:].strip(_BLANK) or reason.startswith("unterminated string"):
        return flaw("cut_off", line=text.count("\n"), size=len(text.encode()))
    column = at - text.rfind("\n", 0, at)
    return flaw("not_json", line=text.count("\n", 0, at), reason=reason, column=column)


class _DocumentParser:
    """Decodes one document; replaces what is not plain JSON, and collects the names of its flaws."""

    def __init__(self) -> None:
        self.flaws: dict[str, None] = {}
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=cast("type[int]", self._integer),
            parse_float=cast("type[float]", self._float),
            parse_constant=lambda _: self._replaced("not_finite", 0.0),
        )

    def _replaced(self, name: str, instead: _T) -> _T:
        self.flaws[name] = None
        return instead

    def _object(self, members: list[tuple[str, Json]]) -> JsonObject:
        made = dict(members)
        return made if len(made) == len(members) else self._replaced("repeated_name", made)

    def _integer(self, digits: str) -> int:
        nearest = _LOWEST if digits.startswith("-") else _HIGHEST
        number = int(digits) if len(digits) <= _LONGEST else 2 * nearest
        return number if _LOWEST <= number <= _HIGHEST else self._replaced("wide_integer", nearest)

    def _float(self, digits: str) -> float:
        number = float(digits)
        return number if isfinite(number) else self._replaced("huge_number", 0.0)

    def escape(self, found: re.Match[str]) -> str:
        """Return an escape of a text; half of a surrogate pair becomes the replacement character."""
        return found[0] if found[1] else self._replaced("half_surrogate", "\\ufffd")
