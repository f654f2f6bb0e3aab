"""Compilation of JSON Schemas to reusable checkers, once per content."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import islice
from typing import NoReturn, cast

import jsonschema_rs

from agenttool.codec import has_more_values, is_quick, parse_object, sorted_json
from agenttool.errors import ConfigError, RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.drafts import DRAFT_4, implies_draft_4
from agenttool.schema.explain import Misfit, explain
from agenttool.schema.patterns import MAX_KILOBYTES, PatternWork
from agenttool.schema.recursion import ExceedsWork, alternative_work, resolve

MAX_MISFITS = 20
"""How many misfits of one document are reported."""

MAX_EXPLAINED = 2000
"""How many alternatives of a recursive schema may be tried to explain a misfit: about 10 ms."""

_WHOLE_VALUE = Misfit(pointer="", expected="a value that fits the schema", advice="compare it with the schema")
_NAME_PATTERNS = jsonschema_rs.RegexOptions(size_limit=MAX_KILOBYTES << 10)

_MAX_WEIGHT = 20_000
_MAX_VALUES = 50_000
_MAX_SCHEMA_DEPTH = 150


def _is_date_time(text: str) -> bool:
    """Return whether a text is a date and a time; models and Python leave the offset out, so it may be missing."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) > len("2026-01-01")


_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f<>\"{}|\\^`]+")
_NOT_CHECKED = (
    *("time", "duration", "idn-email", "hostname", "idn-hostname", "uri-reference", "iri", "iri-reference"),
    *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
)
_FORMATS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(_NOT_CHECKED, lambda _: True),
    "date-time": _is_date_time,
    "uri": lambda text: _ABSOLUTE_URI.fullmatch(text) is not None,
}
"""The formats that are not checked as the validator does it."""


def _reject_fetch(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not fetch {uri!r}; put the definition into the schema itself")


class Checker:
    """A compiled schema. It never fetches a `$ref`, and its patterns do bounded work.

    Attributes:
        accepts_parsed: returns whether a value that was parsed from JSON fits. It is faster than `accepts`, which also
            handles lone surrogates.
    """

    def __init__(self, schema: JsonObject, *, formats: bool = False) -> None:
        """Compile a schema of draft 2020-12, or of the known draft that its `$schema` names.

        A schema that names no draft and has a boolean as exclusive limit is one of draft 4.

        Args:
            schema: the schema.
            formats: whether to check `date-time`, `date`, `uri`, `email`, `uuid`, `ipv4` and `ipv6`.

        Raises:
            RecordError: it is not a valid schema, or refers to another document.
        """
        try:
            self._schema = {"$schema": DRAFT_4, **schema} if implies_draft_4(schema) else schema
            self._has_formats = formats
            self._work = PatternWork(schema)
            self._validator = self._compile()
        except (jsonschema_rs.ValidationError, ValueError) as error:
            first_line = str(error).splitlines()[0]
            raise RecordError(f"not a usable JSON Schema: {first_line}; correct the schema") from error
        is_bare = not self._work.has_patterns
        self.accepts_parsed: Callable[[Json], bool] = self._validator.is_valid if is_bare else self.accepts

    def _compile(self) -> jsonschema_rs.Validator:
        plain = cast("dict[str, object]", self._schema)
        return jsonschema_rs.validator_cls_for(plain)(
            plain,
            retriever=_reject_fetch,
            pattern_options=_NAME_PATTERNS,
            keywords=self._work.keywords,
            validate_formats=self._has_formats,
            formats=_FORMATS if self._has_formats else None,
        )

    @cached_property
    def _exceeds_work(self) -> ExceedsWork | None:
        return alternative_work(self._schema, MAX_EXPLAINED, reads_tags=False)

    def accepts(self, value: Json) -> bool:
        """Return whether a value fits."""
        try:
            return self._work.begin(value) and self._validator.is_valid(value)
        except UnicodeEncodeError:
            return False

    def misfits(self, value: Json) -> list[Misfit]:  # noqa: PLR0911 -- one for each way to check
        """Return what does not fit, at most `MAX_MISFITS` entries; an empty list means that the value fits.

        Of a large value, only the first misfit is returned, because the validator collects all at once. If too many
        alternatives of a recursive schema could fit, the misfit is the whole value.
        """
        if not self._work.begin(value):
            return [Misfit(pointer="", expected="fewer or shorter names", advice="its patterns for names are costly")]
        try:
            if self._exceeds_work is not None and self._exceeds_work(value):
                return [] if self._validator.is_valid(value) else [_WHOLE_VALUE]
            if is_quick(value):
                return [explain(error) for error in islice(self._validator.iter_errors(value), MAX_MISFITS)]
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [explain(error)]
        except UnicodeEncodeError:
            return [Misfit(pointer="", expected="text in Unicode", advice="pair or remove the lone surrogate")]
        return []


@lru_cache(maxsize=4096)
def _compiled(spelling: bytes, *, formats: bool) -> Checker:
    return Checker(parse_object(spelling), formats=formats)


def compile_schema(schema: JsonObject, *, formats: bool = False) -> Checker:
    """Return the checker of a schema; equal schemas share one, whatever the order of their members.

    Raises:
        RecordError: it is not a valid schema, has too many values, or refers to another document.
    """
    spelling = sorted_json(schema)
    if spelling.count(b",") > _MAX_VALUES and has_more_values(schema, _MAX_VALUES):
        raise RecordError(f"a schema has more than {_MAX_VALUES} values; leave some out, such as those of an enum")
    return _compiled(spelling, formats=formats)


def check_examples(examples: Iterable[Json], checker: Checker, tool: str) -> None:
    """Check that examples fit the schema that a model sees (AT-IO-05).

    Raises:
        ConfigError: one does not fit; the message names it, the place and the remedy.
    """
    for place, example in enumerate(examples, 1):
        if not checker.accepts(example):
            first = checker.misfits(example)[0]
            raise ConfigError(
                f"example {place} of {tool!r} does not fit its schema at {first.pointer or '/'!r}: "
                f"expected {first.expected}; {first.advice}"
            )


_DRAFTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#")


def is_plain(schema: JsonObject) -> bool:
    """Return whether a schema of objects is certainly usable and not costly, without compiling it.

    One that is not plain may be usable, too. Compiling takes ten times as long, and kilobytes.
    """
    try:
        spelling = sorted_json(schema)
    except RecordError:
        return False
    return (
        schema.get("type") == "object"
        and schema.get("$schema", _DRAFTS[0]) in _DRAFTS
        and spelling.count(b'"$') == ("$schema" in schema)
        and b'"pattern' not in spelling
        and spelling.count(b"{") + spelling.count(b"[") < _MAX_SCHEMA_DEPTH
        and spelling.count(b",") <= _MAX_VALUES
        and jsonschema_rs.meta.is_valid(schema)
    )


def is_costly(schema: JsonObject) -> bool:
    """Return whether following all references of a schema visits too many subschemas.

    An example is two references to a definition with two references, and so on for forty levels.
    """
    spelling = sorted_json(schema)
    if b"$ref" not in spelling and spelling.count(b"{") + spelling.count(b"[") < _MAX_SCHEMA_DEPTH:
        return False  # without references there are no more subschemas than brackets
    return _weight(schema, schema, 0, {}) > _MAX_WEIGHT


def _weight(value: Json, root: JsonObject, depth: int, targets: dict[str, int]) -> int:
    """Count the subschemas below a value, with references followed; `targets` holds the counts of their targets."""
    if depth > _MAX_SCHEMA_DEPTH:
        return _MAX_WEIGHT + 1
    weight = 0
    if isinstance(value, list):
        weight = sum(_weight(each, root, depth + 1, targets) for each in value)
    elif isinstance(value, dict):
        weight = 1 + sum(_weight(each, root, depth + 1, targets) for name, each in value.items() if name != "$defs")
        reference = value.get("$ref")
        if isinstance(reference, str):
            if reference not in targets:
                targets[reference] = 0  # a recursive reference adds nothing
                targets[reference] = _weight(resolve(reference, root), root, depth + 1, targets)
            weight += targets[reference]
    return min(weight, _MAX_WEIGHT + 1)
