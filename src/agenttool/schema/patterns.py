"""Patterns of schemas, matched with bounded work for any pattern and any text.

The engine is linear in the text, but its factor is the size of the compiled pattern. So each match is charged the
length of the text times a cost that grows with that size, and the charges of one check have a limit. A pattern with
look-around or a back reference needs an engine that backtracks; its number of steps is limited, and its cost is higher.
"""

import re
from functools import lru_cache

import jsonschema_rs

from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.traverse import members, subschemas

MAX_WORK = 150_000
"""The limit of the charges of one check: about 25 ms of the slowest pattern."""

MATCH_CHARGE = 8
"""What a match is charged for a text of any length: the time of the call."""

LESS_TEXT = "less text for its pattern"
"""What a check expects whose charges exceed the limit."""

MAX_KILOBYTES = 1024
MAX_BACKTRACKING_KILOBYTES = 64
MAX_BACKTRACKS = 256
_LINEAR_COST, _BACKTRACKING_COST = 3, MAX_BACKTRACKS // 8
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, MAX_KILOBYTES)

# Such a pattern is a class of characters and a range of lengths. Unrolled, it would be as large as the longest text.
_REPEATED_CLASS = re.compile(r"\^(\[(?:[^\[\]\\]|\\.)+\]|\.|\\[dwsDWS])\{(\d+),(\d*)\}\$")

# Such a pattern has one way to match each text, so that its size does not matter: only its last part varies in length.
_ONE_CHAR = r"(?:\[(?:[^\[\]\\]|\\.)+\]|\\[dwsDWS.\-/]|[\w\-/:@, .])"
_STRAIGHT = re.compile(rf"\^(?:{_ONE_CHAR}(?:\{{\d+\}})?)*(?:{_ONE_CHAR}(?:[*+?]|\{{\d+,\d*\}}))?\$")


class Pattern:
    """A compiled pattern, and what it costs to match one character."""

    __slots__ = ("_longest", "_shortest", "_validator", "cost", "is_linear")

    def __init__(self, pattern: str) -> None:
        """Compile a pattern.

        Raises:
            RecordError: it is no regular expression, or too large.
        """
        self._shortest, self._longest = 0, float("inf")
        repeated = _REPEATED_CLASS.fullmatch(pattern)
        if repeated is not None:
            self._shortest, self._longest = int(repeated[2]), float(repeated[3] or "inf")
            pattern = f"^{repeated[1]}*$"
        self._validator, kilobytes, self.is_linear = _compiled(pattern)
        is_cheap = self.is_linear and (kilobytes == 1 or _STRAIGHT.fullmatch(pattern))
        self.cost = 1 if is_cheap else kilobytes * (_LINEAR_COST if self.is_linear else _BACKTRACKING_COST)

    def matches(self, text: str) -> bool:
        """Return whether a text has a match."""
        return self._shortest <= len(text) <= self._longest and self._validator.is_valid(text)


def _compiled(pattern: str) -> tuple[jsonschema_rs.Validator, int, bool]:
    """Return the smallest form of a pattern, by the linear engine if possible, its size, and whether it is linear."""
    schema: JsonObject = {"pattern": pattern}
    for kilobytes in _SIZES:
        linear = jsonschema_rs.RegexOptions(size_limit=kilobytes << 10)
        found = _validator(schema, linear)
        if found is not None:
            return found, kilobytes, True
    for kilobytes in (each for each in _SIZES if each <= MAX_BACKTRACKING_KILOBYTES):
        backtracking = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=kilobytes << 10)
        found = _validator(schema, backtracking)
        if found is not None:
            return found, kilobytes, False
    raise RecordError(
        f"not a usable JSON Schema: the pattern {pattern!r} cannot be matched in bounded time, or is no regular"
        " expression; remove look-around and back references, or replace large repetitions by maxLength"
    )


def _validator(
    schema: JsonObject, options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator(schema, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        return None


compile_pattern = lru_cache(maxsize=4096)(Pattern)
"""Returns the compiled pattern; equal patterns share one."""


class PatternWork:
    """The patterns of one schema, and the work that a check has spent on them."""

    def __init__(self, schema: JsonObject) -> None:
        """Compile the patterns of a schema.

        Raises:
            RecordError: one of them cannot be matched in bounded time.
        """
        self._has_pattern = False
        self._name_cost = 0
        for node in subschemas(schema):
            pattern = node.get("pattern")
            if isinstance(pattern, str):
                compile_pattern(pattern)
                self._has_pattern = True
            for name in members(node, "patternProperties"):
                if not compile_pattern(name).is_linear:
                    raise RecordError(
                        f"not a usable JSON Schema: the name pattern {name!r} has look-around or a back reference"
                    )
                self._name_cost += compile_pattern(name).cost
        self._spent = 0

    @property
    def has_patterns(self) -> bool:
        """Whether a check must be counted."""
        return self._has_pattern or self._name_cost > 0

    @property
    def keywords(self) -> dict[str, type]:
        """The keyword that replaces `pattern` in a validator."""
        return {"pattern": type("BoundPattern", (_PatternKeyword,), {"work": self})} if self._has_pattern else {}

    def begin(self, value: Json) -> bool:
        """Start a check; return false if its names alone exceed the limit."""
        self._spent = self._name_cost and self._name_cost * _chars_of_names([value])
        return self._spent <= MAX_WORK

    def charge(self, pattern: Pattern, text: str) -> bool:
        """Charge one match; return false if that exceeds the limit."""
        self._spent += MATCH_CHARGE + pattern.cost * len(text)
        return self._spent <= MAX_WORK


class _PatternKeyword:
    """The keyword `pattern` as the validator calls it."""

    work: PatternWork

    def __init__(self, parent: JsonObject, pattern: str, path: list[str | int]) -> None:
        self._pattern = compile_pattern(pattern)
        self._words = f"pattern {pattern!r}"

    def validate(self, value: object) -> None:
        """Check one value.

        Raises:
            ValueError: a text does not match, or the limit is exceeded.
        """
        if not isinstance(value, str):
            return
        if not self.work.charge(self._pattern, value):
            raise ValueError(LESS_TEXT)
        if not self._pattern.matches(value):
            raise ValueError(self._words)


def _chars_of_names(rest: list[Json]) -> int:
    """Return the length of all names in JSON values."""
    count = 0
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            count += sum(map(len, value))
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    return count
