"""Patterns of schemas: matched with bounded work, or refused, wherever they come from."""

import dataclasses

import pytest

from agenttool.errors import ConfigError, RecordError
from agenttool.records import replace
from agenttool.runtime import Runtime
from agenttool.schema import patterns
from agenttool.schema.compile import Checker
from agenttool.testing.fakes import scripted_tool

LOOK_AHEAD = r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,}"
EXPLODING = r"[ab]*a[ab]{300}c"
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


@pytest.fixture
def matched(monkeypatch):
    """The lengths of the texts that were matched, times the cost of their pattern."""
    work = []
    plain = patterns.Pattern.matches

    def matches(pattern, text):
        work.append(patterns.MATCH_CHARGE + pattern.cost * len(text))
        return plain(pattern, text)

    monkeypatch.setattr(patterns.Pattern, "matches", matches)
    return work


def declared(pattern, keyword="pattern"):
    schema = {"type": "object", "properties": {"text": {"type": "array", "items": {keyword: pattern}}}}
    tool = scripted_tool("probe", lambda _: "done", schema=schema)
    return dataclasses.replace(tool, interface=replace(tool.interface, is_read_only=True, is_open_world=False))


@pytest.mark.parametrize("pattern", [LOOK_AHEAD, EXPLODING, r"^(a+)+b$", r"((a|b|ab)*)\1c"])
@pytest.mark.parametrize("texts", [["a" * 30_000], ["ab" * 100] * 5_000, ["ab" * 200_000]])
async def test_no_pattern_does_more_than_the_limit_of_work(pattern, texts, matched):
    async with Runtime.open(tools=[declared(pattern)]) as rt:
        result = await rt.call("probe", {"text": texts}, surface=await rt.surface())
    assert result.error.error_class == "schema_validation_failed"
    assert sum(matched) <= 2 * patterns.MAX_WORK  # once to check, and once to explain


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        (LOOK_AHEAD, "xX3xxxxx", "xxxxxxxx"),
        (EMAIL, "ada@example.com", ".ada@example.com"),
        (r"^.{0,4096}$", "x" * 4096, "x" * 4097),
        (r"^[a-z]{2,}$", "ab" * 5000, "a"),
        (r"^\d{4}-\d{2}$", "2026-11", "2026-1"),
    ],
)
def test_ordinary_patterns_match_as_written(pattern, fits, fails):
    checker = Checker({"pattern": pattern})
    assert (checker.accepts(fits), checker.accepts(fails)) == (True, False)
    assert checker.misfits(fails)[0].expected == f"pattern {pattern!r}"


@pytest.mark.parametrize("pattern", ["(?=\\w*a\\w{300}c).", "(", r"([a-z]{1,1000}){1,1000}"])
async def test_a_pattern_that_cannot_be_bounded_is_refused_when_the_tool_is_declared(pattern):
    with pytest.raises(ConfigError, match="cannot be matched in bounded time"):
        async with Runtime.open(tools=[declared(pattern)]):
            pass


def test_a_pattern_for_names_may_not_look_around_and_long_names_are_not_matched():
    with pytest.raises(RecordError, match="look-around"):
        Checker({"patternProperties": {LOOK_AHEAD: {}}})
    checker = Checker({"patternProperties": {EXPLODING: {"type": "integer"}}})
    assert checker.accepts({"a": 1})
    assert checker.misfits({"ab" * 50_000: 1})[0].expected == "fewer or shorter names"


@pytest.mark.parametrize("text", ["", "a"])
def test_matches_of_many_short_texts_are_charged_too(text, matched):
    checker = Checker({"items": {"pattern": "^a*$"}})
    assert checker.accepts([text] * 10_000)
    assert not checker.accepts([text] * 20_000)
    assert sum(matched) <= 2 * patterns.MAX_WORK


@pytest.mark.parametrize(
    ("pattern", "chars"),
    [
        (r"^[0-9a-f]{8}-[0-9a-f]{4}$", 150_000),  # one way to match each text
        (r"^[A-Z]{3}-\d{1,60}$", 150_000),
        (r"[ab]*a[ab]{14}[cd]", 25_000),  # a new state for each character
        (r"^(a{1,90}){1,60}$", 97),
    ],
)
def test_a_pattern_with_many_states_is_charged_for_its_size(pattern, chars):
    assert patterns.MAX_WORK // patterns.Pattern(pattern).cost == chars
